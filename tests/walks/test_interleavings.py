"""Random interleavings of turns, blocks, edits, failures, reconnects and stops in several chats, in virtual time.

Whatever happens, nobody reads what belongs elsewhere, nothing twice, nothing out of order, and nothing more of an
answer that they have stopped.
"""

import asyncio
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace
from tests.walks.house import House

from finclaw.errors import ChannelError, Overloaded, SendFailed, SendUnknown
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.record import Accepted
from finclaw.pipeline.settings import BlockSettings, PipelineSettings
from finclaw.testing import MemoryChannel, Reply, call, delay, fails, reply, say
from finclaw.testing.channel import PROFILES

MARK: Final = re.compile(r"\[q(\d+)\.(\d+)\]")
RESENT: Final = "(re-sent) "


class Walk:
    """One random run on one channel."""

    def __init__(self, state: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        profile = PROFILES[sorted(PROFILES)[seed % len(PROFILES)]]
        with_blocks = self.dice.random() < 0.4
        self.capabilities: Capabilities = replace(
            profile, blocks=with_blocks, max_length=max(400, profile.max_length), debounce_ms=0
        )
        self.house = House(state)
        self.channel = MemoryChannel(self.house.clock, capabilities=self.capabilities)
        self.asked: dict[int, Accepted] = {}
        self.places: dict[int, tuple[str, str | None]] = {}
        self.seen_at_stop: dict[int, set[str]] = {}
        self.tries: Counter[int] = Counter()
        self.problems: list[str] = []

    def answer(self, request: ModelRequest) -> Reply:
        """The model: it answers the last question with sentences that name it."""
        question = next(each.text for each in reversed(request.messages) if MARK.search(each.text + ".0]"))
        found = re.search(r"\[q(\d+)", question)
        assert found is not None
        n = int(found[1])
        self.tries[n] += 1
        dice = random.Random(n * 7919)
        kind = dice.random()
        if kind < 0.15 and self.tries[n] == 1:
            return reply(say("Let me look. "), delay(2), call("no__such_tool", {}))
        if kind > 0.95:
            return fails(Overloaded("busy"))
        sentences = [f"[q{n}.{k}] " + "words " * dice.randint(1, 12) + "end. " for k in range(dice.randint(1, 25))]
        cut = "cut" if kind > 0.9 and self.tries[n] == 1 and not self.capabilities.blocks else None
        return reply(*map(say, sentences), pace=dice.choice([0.0, 0.05, 0.4, 1.5]), fault=cut)

    async def run(self) -> None:
        sizes = BlockSettings(shortest=150, longest=300, gather=self.dice.random() < 0.8)
        settings = PipelineSettings(blocks=sizes, timeout_ms=3_600_000, stall_abort_s=3_000, stall_warn_s=2_000)
        async with self.house.open(self.answer, channel=self.channel, pipeline=settings) as gateway:
            work = [self.write(gateway, n) for n in range(self.dice.randint(4, 10))]
            await asyncio.gather(*work, self.disturb())
            self.channel.connected = True
            await gateway.app.idle()
            await self.house.clock.sleep(100)
            await gateway.app.idle()

    async def write(self, gateway: Any, n: int) -> None:
        await self.house.clock.sleep(self.dice.uniform(0, 20))
        chat = self.dice.choice(["red", "blue", "green"])
        thread = self.dice.choice([None, "t-1", "t-2"]) if self.capabilities.threads else None
        kind = self.dice.choice(["direct", "group"]) if thread is None else "group"
        fields: dict[str, Any] = {
            "conversation": f"{chat}-{kind}",
            "thread": thread,
            "chat_type": kind,
            "mentions_us": True,
        }
        self.places[n] = (f"{chat}-{kind}", thread)
        accepted = await self.channel.write(f"tell me [q{n}", message_id=f"in-{n}", **fields)
        self.asked[n] = accepted
        if self.dice.random() < 0.25:
            await self.house.clock.sleep(self.dice.uniform(0, 15))
            if gateway.app.stop_message(accepted.id):
                assert (await gateway.outcome(accepted)).kind == "stopped"
                under_way = [unit for unit in self.channel.attempts if unit.inbound_id == accepted.id]
                self.seen_at_stop[n] = self.seen(n).union(*[marks(unit.outbound.text) for unit in under_way])
        await gateway.outcome(accepted)

    async def disturb(self) -> None:
        for _ in range(self.dice.randint(0, 8)):
            await self.house.clock.sleep(self.dice.uniform(0, 8))
            match self.dice.randrange(6):
                case 0:
                    self.channel.fail_next(SendFailed("busy", retry_after=self.dice.choice([None, 3])))
                case 1:
                    self.channel.fail_next(SendUnknown("cut"), arrives=self.dice.random() < 0.5)
                case 2:
                    self.channel.fail_next_edits(SendFailed("busy"), times=self.dice.randint(1, 4))
                case 3:
                    self.channel.connected = False
                    await self.house.clock.sleep(self.dice.uniform(0, 10))
                    self.channel.connected = True
                case 4:
                    self.channel.break_off(ChannelError("the socket is gone"))
                case _:
                    self.channel.hold_sends()
                    await self.house.clock.sleep(self.dice.uniform(0, 20))
                    self.channel.release_sends()

    def seen(self, n: int) -> set[str]:
        return {mark for each in self.channel.sent for mark in marks(each.text) if mark.startswith(f"[q{n}.")}

    # ── what must hold ──────────────────────────────────────────────────────────────────────────────────────

    def judge(self) -> dict[str, list[str]]:
        found = defaultdict[str, list[str]](list)
        order = defaultdict[str, list[tuple[int, int]]](list)
        texts = defaultdict[int, list[str]](list)
        for sent in self.channel.sent:
            unit = sent.unit
            for mark in marks(sent.text):
                n, k = map(int, MARK.fullmatch(mark).groups())  # pyright: ignore[reportOptionalMemberAccess]
                chat, thread = self.places[n]
                if unit.conversation != chat:
                    found["wrong chat"].append(mark)
                if unit.outbound.thread != thread:
                    found["wrong thread"].append(mark)
                order[unit.session].append((self.asked[n].ticket, k))
                texts[n].append(sent.text)
        for n, said in texts.items():
            resent = sum(text.startswith(RESENT) for text in said)  # nobody knew whether it had arrived
            times = Counter(mark for text in dict.fromkeys(said) for mark in marks(text))
            found["twice"] += [mark for mark, count in times.items() if count > 1 + resent]
            late = self.seen(n) - self.seen_at_stop.get(n, self.seen(n))
            found["after stop"] += sorted(late)
        for session, places in order.items():
            firsts = list(dict.fromkeys(places))
            if firsts != sorted(firsts):
                found["out of order"].append(f"{session}: {firsts}")
        return {name: marks for name, marks in found.items() if marks}

    def lost(self) -> list[int]:
        stopped = set(self.seen_at_stop)
        return [n for n in self.asked if n not in stopped and not self.seen(n) and not self.failed(n)]

    def failed(self, n: int) -> bool:
        units = (each.unit for each in self.channel.sent)
        return any(unit.inbound_id == self.asked[n].id and unit.outbound.kind == "notice" for unit in units)


def marks(text: str) -> list[str]:
    return [found[0] for found in MARK.finditer(text)]


def walk(state: Path, seed: int) -> None:
    one = Walk(state / str(seed), seed)
    one.house.clock.run(one.run())
    assert one.judge() == {}, f"seed {seed}"
    assert one.lost() == [], f"seed {seed}"


@pytest.mark.spec("DX-54", "BS-03", "BS-06")
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_replies_find_their_place_however_busy_it_is(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 10):
        walk(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 5_100, 100))
def test_replies_find_their_place_for_long(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 100):
        walk(tmp_path, seed)
