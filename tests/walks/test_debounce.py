"""Debouncing: quick messages of one person are answered as one, and whatever must not wait does not."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.kernel.envelope import Attachment, Capabilities, Inbound
from finclaw.kernel.record import Accepted
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.sessions.waiting import Debounce
from finclaw.testing import FakeClock, MemoryChannel, delay, reply
from finclaw.testing.channel import PROFILES

PAUSES = Capabilities(debounce_ms=1_000)


@pytest.fixture(params=["sqlite", "jsonl"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, kind=request.param)


async def write(gateway: Gateway, *texts: str, **fields: Any) -> list[Accepted]:
    """Half a second apart."""
    accepted = list[Accepted]()
    for text in texts:
        accepted.append(await gateway.channel.write(text, message_id=text, **fields))
        await asyncio.sleep(0.5)
    return accepted


async def kinds(gateway: Gateway, messages: list[Accepted]) -> list[str]:
    found = [(await gateway.outcome(each)).kind for each in messages]
    await gateway.app.idle()
    return found


@pytest.mark.spec("DB-01", "DB-02")
@in_virtual_time
async def test_quick_messages_are_one_question_and_its_ids_are_kept(house: House) -> None:
    async with house.open("all three", "later", capabilities=PAUSES) as gateway:
        messages = await write(gateway, "a", "b", "c")
        assert await kinds(gateway, messages) == ["joined", "joined", "answered"]
        (sent,) = gateway.channel.sent
        assert (sent.text, sent.unit.outbound.reply_to) == ("all three", "c")
        assert (sent.at - messages[2].accepted_at).total_seconds() == pytest.approx(1.0, abs=0.1)
        story = await gateway.app.turn(messages[0].id)
        assert story is not None
        assert [each.inbound_id for each in story.joined] == [each.id for each in messages[1:]]
        assert [each.text for each in gateway.seen] == ["a", "b", "c"]
        assert await kinds(gateway, await write(gateway, "d")) == ["answered"]


@pytest.mark.spec("DB-02")
@in_virtual_time
async def test_who_never_pauses_is_answered_after_five_seconds_and_people_are_not_mixed(house: House) -> None:
    room = {"chat_type": "group", "conversation": "room", "mentions_us": True}
    async with house.open("x", "y", "z", "w", capabilities=PAUSES) as gateway:
        messages = await write(gateway, *[f"a{each}" for each in range(12)], sender="ada")
        first = await gateway.outcome(messages[0])
        assert first.kind == "joined"
        assert (gateway.channel.sent[0].at - messages[0].accepted_at).total_seconds() <= 5.1
        others = [*await write(gateway, "b", sender="ada", **room), *await write(gateway, "c", sender="grace", **room)]
        assert await kinds(gateway, others) == ["answered", "answered"]
        assert "failed" not in await kinds(gateway, messages)


@pytest.mark.spec("DX-67")
@pytest.mark.parametrize("name", ["telegram", "discord", "slack", "matrix"])
def test_lines_typed_one_a_second_are_one_question_and_its_ids_keep_their_order(tmp_path: Path, name: str) -> None:
    house, lines = House(tmp_path), [f"line {spell}" for spell in "abcdefgh"]

    async def walk() -> None:
        channel = MemoryChannel(house.clock, name=name, capabilities=PROFILES[name])
        async with house.open("all", "the rest", "alone", channel=channel) as gateway:
            messages = list[Accepted]()
            for line in lines:  # as fast as people type, and never pausing
                messages.append(await channel.write(line, message_id=line))
                await asyncio.sleep(0.9)
            first = await gateway.outcome(messages[0])
            story = await gateway.app.turn(messages[0].id)
            assert story is not None
            burst = [messages[0].id, *[each.inbound_id for each in story.joined]]
            assert burst == [each.id for each in messages[: len(burst)]], "all of them, in their order"
            assert first.kind == "joined"
            assert len(burst) == 6, "those of the first five seconds: nobody waits longer, however fast they type"
            rest = [await gateway.outcome(each) for each in messages[6:]]
            assert [each.kind for each in rest] == ["joined", "answered"]
            await gateway.app.idle()
            alone = await channel.write("alone")
            await gateway.outcome(alone)
            await gateway.app.idle()
            waited = (channel.sent[-1].at - alone.accepted_at).total_seconds()
            assert 0.5 <= waited <= 1.5, "long enough for the next line, and no longer"

    house.clock.run(walk())


@pytest.mark.spec("DB-03")
@in_virtual_time
async def test_commands_and_files_never_wait_and_end_the_pause_before_them(house: House) -> None:
    async with house.open("one", "two", capabilities=PAUSES) as gateway:
        (text,) = [await gateway.channel.write("a", message_id="a")]
        picture = Attachment(id="p", kind="file", name="x.txt")
        file = await gateway.channel.write("b", message_id="b", attachments=(picture,))
        await gateway.outcome(text)
        assert (gateway.channel.sent[0].at - text.accepted_at).total_seconds() < 0.5
        assert await kinds(gateway, [text, file]) == ["answered", "answered"]
    async with house.open(capabilities=Capabilities()) as gateway:
        assert gateway.app.acceptance.claim_on_accept(text.inbound, "s") is not None, "elsewhere nothing waits"


@pytest.mark.spec("DB-02")
def test_after_a_restart_the_pause_counts_from_the_acceptance() -> None:
    clock = FakeClock()

    async def walk() -> None:
        debounce, inbound = Debounce(clock, lambda _: 1_000), Inbound(text="a")
        waits = list[float]()
        for age in (0.4, 60.0):
            at = clock.now() - timedelta(seconds=age)
            begun = clock.monotonic()
            left = Accepted(id=f"m-{age}", session="s", ticket=1, inbound=inbound, accepted_at=at, left=True)
            await debounce.wait(left)
            debounce.leave(left)
            waits.append(clock.monotonic() - begun)
        assert waits == [pytest.approx(0.6), 0.0]

    clock.run(walk())


@in_virtual_time
async def test_a_burst_while_busy_shares_one_turn_and_is_not_its_own_interrupter(house: House) -> None:
    queue = SessionSettings(queue=QueueSettings(mode="interrupt"))
    async with house.open(reply(delay(30), "late"), "both", capabilities=PAUSES, sessions=queue) as gateway:
        (first,) = await write(gateway, "a")
        await asyncio.sleep(3)
        burst = await write(gateway, "b", "c")
        assert await kinds(gateway, [first, *burst]) == ["stopped", "joined", "answered"]
        assert gateway.said[-1] == "both"
