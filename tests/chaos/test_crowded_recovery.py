"""Random kills of a busy gateway in virtual time, often enough that messages must run alone.

Six sessions write, edit, delete and stop in all queue modes while the gateway is killed again and again. The state of
each kill is a copy of the files at a random instant; the next gateway starts on it.
"""

import asyncio
import os
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
from tests.walks.house import Gateway, House

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import TurnOptions
from finclaw.kernel.record import InboundRecord
from finclaw.pipeline.settings import PipelineSettings
from finclaw.sessions.lane import WaitingMode
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.storage.kinds import StoreKind
from finclaw.testing import FakeClock, Reply, delay, reply
from finclaw.testing.channel import Sent

pytestmark = pytest.mark.chaos

KILLS = {"short": 12, "full": 200, "soak": 1_000}
SESSIONS = ("c0", "c1", "c2", "c3", "c4", "c5")
MODES: tuple[WaitingMode, ...] = get_args(WaitingMode)
MOST_OPEN = 30
RECOVERS_WITHIN = 120.0
"""Seconds of virtual time after the last kill in which everything must have ended."""
WITHDRAWN = "its answer was withdrawn"
NUMBER = re.compile(r"\bn=(\d+)")


def answer(request: ModelRequest) -> Reply:
    """Name the last message. Every seventh turn takes long enough to be running in several kills."""
    text = request.messages[-1].text
    found = NUMBER.search(text)
    number = 0 if found is None else int(found[1])
    return reply(delay(8.0 if number % 7 == 0 else 0.4), f"answer to {text}")


@dataclass
class Crowd:
    """The people of all lives, what they have written, and what they have seen."""

    root: Path
    kind: StoreKind
    dice: Random
    clock: FakeClock = field(default_factory=FakeClock)
    lives: int = 0
    number: int = 0
    accepted: dict[str, str] = field(default_factory=dict[str, str])
    """The ids of accepted messages, by the platform's."""
    places: dict[str, str] = field(default_factory=dict[str, str])
    """The conversation of each message."""
    unacknowledged: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    passed_others: set[str] = field(default_factory=set[str])
    """The ids of messages that interrupt, which may be answered before earlier ones of their sender."""
    keys: set[str] = field(default_factory=set[str])
    """The keys of the sessions."""
    sent: list[Sent] = field(default_factory=list[Sent])

    @property
    def state(self) -> Path:
        return self.root / f"life-{self.lives}"

    def open(self) -> Any:
        return House(self.state, self.clock, kind=self.kind).open(
            answer,
            pipeline=PipelineSettings(expire_after_s=1e9),
            sessions=SessionSettings(queue=QueueSettings(mode="followup", cap=1_000)),
        )

    async def live(self) -> None:
        """One gateway, until it is killed at a random instant."""
        async with self.open() as gateway:
            writing = asyncio.create_task(self._write_on(gateway))
            await self.clock.sleep(self.dice.uniform(0.0, 6.0))
            for _ in range(self.dice.randrange(40)):
                await asyncio.sleep(0)
            shutil.copytree(self.state, self.root / f"life-{self.lives + 1}")
            self.sent += gateway.channel.sent
            writing.cancel()
            await asyncio.wait([writing])
        shutil.rmtree(self.state)
        self.lives += 1

    async def recover(self) -> tuple[float, list[InboundRecord]]:
        """The last gateway, which is not killed. Gives the seconds until it is idle, and all records."""
        async with self.open() as gateway:
            begun = self.clock.monotonic()
            async with asyncio.timeout(20 * RECOVERS_WITHIN):
                await self._deliver_again(gateway)
                await gateway.app.idle()
            took = self.clock.monotonic() - begun
            self.sent += gateway.channel.sent
            records = [await gateway.app.wait(inbound_id, 0) for inbound_id in self.accepted.values()]
        return took, [record for record in records if record is not None]

    async def _write_on(self, gateway: Gateway) -> None:
        await self._deliver_again(gateway)
        while True:
            await self.clock.sleep(self.dice.choice((0.0, 0.0, 0.0, 0.2, 1.0)))
            if sum(len(gateway.app.queue(each)) for each in self.keys) < MOST_OPEN:
                await self._write(gateway, *self._choose())

    def _choose(self) -> tuple[str, dict[str, Any]]:
        self.number += 1
        message_id, conversation = f"m{self.number}", self.dice.choice(SESSIONS)
        fields: dict[str, Any] = {"conversation": conversation, "message_id": message_id, "sender": conversation}
        recent = list(self.places)[-12:]
        self.places[message_id] = conversation
        throw = self.dice.random()
        if throw < 0.06:
            return "/stop", fields
        if throw < 0.30 and recent:
            target = self.dice.choice(recent)
            place = self.places[message_id] = self.places[target]
            fields |= {"conversation": place, "sender": place, "target": target}
            sent_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.number)
            return f"edited n={self.number}", {**fields, "kind": "edit", "sent_at": sent_at}
        mode = self.dice.choice(MODES)
        return f"n={self.number}", {**fields, "wishes": TurnOptions(queue=mode)}

    async def _deliver_again(self, gateway: Gateway) -> None:
        for fields in list(self.unacknowledged.values()):
            await self._write(gateway, fields["text"], {key: each for key, each in fields.items() if key != "text"})

    async def _write(self, gateway: Gateway, text: str, fields: dict[str, Any]) -> None:
        message_id = fields["message_id"]
        self.unacknowledged[message_id] = {**fields, "text": text}
        accepted = await gateway.channel.write(text, **fields)
        self.keys.add(accepted.session)
        del self.unacknowledged[message_id]
        self.accepted[message_id] = accepted.id
        wishes = fields.get("wishes")
        if wishes is not None and wishes.queue == "interrupt":
            self.passed_others.add(accepted.id)

    # ── the audit ───────────────────────────────────────────────────────────────────────────────────────────

    def find_faults(self, records: list[InboundRecord]) -> list[str]:
        faults = [f"{record.inbound_id} has no end" for record in records if record.outcome is None]
        if len(records) != len(self.accepted):
            faults.append(f"{len(self.accepted) - len(records)} accepted messages are lost")
        ends = {record.inbound_id: record for record in records}
        shown = defaultdict[str, list[Sent]](list)
        for each in self.sent:
            if each.unit.outbound.kind == "reply":
                shown[each.unit.inbound_id].append(each)
        for inbound_id, answers in shown.items():
            if len({each.unit.id for each in answers}) > 1:
                faults.append(f"{inbound_id} has two answers")
            if any(not each.unit.doubts for each in answers[1:]):
                faults.append(f"the answer to {inbound_id} was sent again without a mark")
        faults += [f"{name} is answered, and nobody saw it" for name in self._find_unseen(ends, shown)]
        faults += [f"{name} failed after {ends[name].attempts} attempts" for name in self._find_blamed(ends)]
        return faults + self._find_disorder(shown)

    @staticmethod
    def _find_unseen(ends: dict[str, InboundRecord], shown: dict[str, list[Sent]]) -> list[str]:
        """Answers that nobody saw, but for those of which the outcome says that a stop withdrew them."""
        return [
            name
            for name, record in ends.items()
            if record.outcome is not None and record.outcome.kind == "answered" and record.outcome.reply
            # The items of an answer belong to the message whose turn it was, which bears the turn's number.
            if f"m{(record.outcome.turn_id or name)[1:]}" not in shown and WITHDRAWN not in record.outcome.reason
        ]

    @staticmethod
    def _find_blamed(ends: dict[str, InboundRecord]) -> list[str]:
        failed = [name for name, each in ends.items() if each.outcome is not None and each.outcome.kind == "failed"]
        return [name for name in failed if ends[name].attempts < PipelineSettings().max_attempts]

    def _find_disorder(self, shown: dict[str, list[Sent]]) -> list[str]:
        faults = list[str]()
        last = dict[str, tuple[int, str]]()
        for inbound_id, answers in shown.items():
            if inbound_id in self.passed_others:
                continue
            row, session = int(inbound_id.rsplit("-", 1)[1]), answers[0].unit.session
            if session in last and row < last[session][0]:
                faults.append(f"{inbound_id} was answered after {last[session][1]}")
            last[session] = row, inbound_id
        return faults


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_gateway_is_idle_soon_after_many_kills(
    tmp_path: Path, kind: StoreKind, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = os.environ.get("CHAOS_SEED") or str(Random().randrange(10**6))
    crowd = Crowd(tmp_path, kind, Random(seed))

    async def run() -> tuple[float, list[InboundRecord]]:
        for _ in range(KILLS[str(pytestconfig.getoption("--chaos"))]):
            await crowd.live()
        return await crowd.recover()

    took, records = crowd.clock.run(run())
    ends = defaultdict[str, int](int)
    for record in records:
        ends["none" if record.outcome is None else record.outcome.kind] += 1
    with capsys.disabled():
        print(f"\n{kind}: {crowd.lives} kills, {len(records)} messages, {dict(ends)}, idle {took:.0f} s, seed {seed}")  # noqa: T201
    assert not crowd.find_faults(records), f"seed {seed}"
    assert took <= RECOVERS_WITHIN, f"seed {seed}"
