"""Busy conversations: twenty messages of two people fall into a turn, in every mode and at every phase of it."""

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest
from tests.walks.house import Gateway, House
from tests.walks.tools import Desk

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.port import ToolScope
from finclaw.kernel.record import Accepted
from finclaw.kernel.turn_options import QueueMode
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import Reply, call, delay, reply

MODES: tuple[QueueMode, ...] = ("steer", "followup", "queue", "collect", "interrupt", "steer-backlog")
PHASES = {
    "before the claim": (0.0, 0.9),
    "waiting for the model": (0.1, 1.9),
    "before a tool": (1.95, 2.0),
    "in a tool": (2.1, 3.9),
    "between steps": (3.95, 4.05),
    "streaming": (5.0, 5.2),
    "awaiting approval": (2.5, 4.0),
    "delivering": (5.25, 6.0),
}
"""The seconds in which the others write. The first turn asks its model until 2, has a tool from 2 to 4, and ends at
about 5.2; before the claim it waits for another's seat until 1."""


def think(request: ModelRequest) -> Reply:
    """An answer that names every message it covers, sometimes after a tool."""
    covered, used = list[str](), False
    for message in reversed(request.messages):
        if message.role == "assistant" and not message.tool_calls:
            break
        used = used or bool(message.tool_calls)
        covered += [message.text] if message.role == "user" else []
    words = " ".join(reversed(covered))
    if not used and ("first" in words or crc32(words.encode()) % 3 == 0):
        name = "pay" if "approval" in words else "look"
        return reply(delay(2), call(name, {"text": words[:10]}))
    return reply(delay(1), "covers ", *[f"{word} " for word in words.split()], pace=0.1)


async def look(text: str, scope: ToolScope) -> str:
    await asyncio.sleep(2)
    return f"looked at {text}"


async def converse(gateway: Gateway, phase: str, dice: Random) -> list[Accepted]:
    """One turn runs, and the others write in this phase of it."""
    fields: dict[str, Any] = {"chat_type": "group", "conversation": "room", "mentions_us": True}
    if phase == "before the claim":  # the only seat is taken
        await gateway.channel.write("elsewhere", sender="zoe", conversation="other")
    first = "first-approval" if phase == "awaiting approval" else "first"
    begin, end = PHASES[phase]
    if phase == "delivering":
        gateway.channel.hold_sends()
    accepted = [await gateway.channel.write(first, sender="ada", **fields)]
    start = asyncio.get_running_loop().time()
    times = sorted(dice.uniform(begin, end) for _ in range(20))
    for number, at in enumerate(times):
        await asyncio.sleep(max(0.0, start + at - asyncio.get_running_loop().time()))
        sender = dice.choice(("ada", "ada", "grace"))
        accepted.append(await gateway.channel.write(f"{sender}-{number}", sender=sender, **fields))
    gateway.channel.release_sends()
    return accepted


async def check(gateway: Gateway, accepted: list[Accepted], mode: QueueMode) -> None:
    """Every message one end, nothing answered twice or with another person's, and all in the order of their tickets."""
    ends = {each.inbound.text: await gateway.outcome(each) for each in accepted}
    await gateway.app.idle()
    assert {each.kind for each in ends.values()} <= {"answered", "joined", "stopped"}
    if mode != "interrupt":
        assert "stopped" not in {each.kind for each in ends.values()}
    told = [each.split()[1:] for each in gateway.said if each.startswith("covers ") and "elsewhere" not in each]
    named = [word for words in told for word in words]
    assert len(named) == len(set(named)), "answered twice"
    answered = {text for text, end in ends.items() if end.kind in ("answered", "joined") and "approval" not in text}
    assert answered <= set(named)
    turns: dict[str | None, set[str]] = {}
    for each in accepted:
        turns.setdefault(ends[each.inbound.text].turn_id, set()).add(each.inbound.sender.id)
    assert all(len(senders) == 1 for turn, senders in turns.items() if turn), "merged across people"
    texts = [each.text for each in await gateway.app.messages(accepted[0].session) if each.source.kind == "user"]
    assert sorted(texts) == sorted(each.inbound.text for each in accepted), "each once in the conversation"
    if mode != "interrupt":
        assert texts == [each.inbound.text for each in accepted], "in the order of their tickets"


async def run(house: House, mode: QueueMode, phase: str, seed: int) -> None:
    desk = Desk()
    tools = [desk.tool("look", look), desk.tool("pay", transactional=True)]
    queue = QueueSettings(mode=mode, cap=100)
    pools = PipelineSettings(pools=PoolSettings(main=1 if phase == "before the claim" else 8))
    async with house.open(
        think,
        tools=tools,
        sessions=SessionSettings(queue=queue),
        pipeline=pools,
        consent=None,
        capabilities=Capabilities(),
    ) as gateway:
        accepted = await converse(gateway, phase, Random(f"{mode} {phase} {seed}"))
        await check(gateway, accepted, mode)


@pytest.mark.spec("Q-16", "Q-19")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("mode", MODES)
def test_twenty_messages_while_busy(tmp_path: Path, mode: QueueMode, phase: str) -> None:
    house = House(tmp_path)
    house.clock.run(run(house, mode, phase, 0))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize("mode", MODES)
def test_twenty_messages_while_busy_at_length(tmp_path: Path, mode: QueueMode, kind: Any) -> None:
    for seed in range(1, 21):
        for phase in PHASES:
            house = replace(House(tmp_path / f"{seed} {phase}"), kind=kind)
            house.state.mkdir()
            house.clock.run(run(house, mode, phase, seed))
