"""The channel in memory: the way in, the way out, and everything that goes wrong on it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from finclaw.errors import ChannelError, SendFailed, SendRefused
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.port import Accept, Capabilities, Channel
from finclaw.kernel.record import Accepted, OutboxItem
from finclaw.testing import FakeClock, MemoryChannel


def unit(id: str = "u1", text: str = "hi") -> OutboxItem:
    return OutboxItem(
        id=id,
        session="s",
        inbound_id="i",
        turn_id="t",
        seq=0,
        channel="memory",
        account="local",
        conversation="main",
        outbound=Outbound(text=text),
        planned_at=datetime(2025, 1, 1, tzinfo=UTC),
    )


async def accept(inbound: Inbound) -> Accepted:
    return Accepted(id="i1", session="s", ticket=1, inbound=inbound, accepted_at=datetime(2025, 1, 1, tzinfo=UTC))


@asynccontextmanager
async def receiving(channel: Channel, accept: Accept) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(channel.receive(accept))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def channel() -> MemoryChannel:
    return MemoryChannel(FakeClock())


async def test_a_message_waits_for_the_receiver_and_is_accepted(channel: MemoryChannel):
    early = asyncio.create_task(channel.write("hello", conversation="c"))
    await asyncio.sleep(0)
    async with receiving(channel, accept):
        accepted = await early
    assert (accepted.inbound.text, accepted.inbound.conversation) == ("hello", "c")
    assert (accepted.inbound.channel, accepted.inbound.sender.id) == ("memory", "ada")


async def test_a_broken_connection_ends_receive_and_it_can_start_again(channel: MemoryChannel):
    async with receiving(channel, accept) as task:
        await channel.write("one")
        channel.break_off(ChannelError("gone"))
        with pytest.raises(ChannelError, match="gone"):
            await task
    async with receiving(channel, accept):
        assert (await channel.write("two")).inbound.text == "two"


async def test_sends_are_kept_with_their_time():
    clock = FakeClock()
    channel = MemoryChannel(clock, name="other")
    receipt = await channel.send(unit(text="hi"))
    (sent,) = channel.sent
    assert (sent.text, sent.at, sent.platform_id) == ("hi", clock.now(), receipt.platform_id)


async def test_the_next_sends_fail_and_then_work(channel: MemoryChannel):
    channel.fail_next(SendFailed("later", retry_after=3), times=2)
    channel.fail_next(SendRefused("never"))
    for expected in (SendFailed, SendFailed, SendRefused):
        with pytest.raises(expected):
            await channel.send(unit())
    await channel.send(unit())
    assert (len(channel.attempts), len(channel.sent)) == (4, 1)


async def test_a_send_can_arrive_and_fail(channel: MemoryChannel):
    channel.fail_next(SendFailed("cut"), arrives=True)
    with pytest.raises(SendFailed):
        await channel.send(unit())
    await channel.send(unit())
    assert [sent.unit.token for sent in channel.sent] == ["u1", "u1"]


async def test_an_idempotent_platform_shows_a_token_once():
    channel = MemoryChannel(FakeClock(), capabilities=Capabilities(idempotent=True))
    channel.fail_next(SendFailed("cut"), arrives=True)
    with pytest.raises(SendFailed):
        await channel.send(unit())
    again = await channel.send(unit())
    assert [sent.platform_id for sent in channel.sent] == [again.platform_id]
    assert (await channel.send(unit("u2"))).platform_id != again.platform_id


async def test_sends_can_be_held(channel: MemoryChannel):
    channel.hold_sends()
    task = asyncio.create_task(channel.send(unit()))
    assert [each.id for each in await channel.until_tried(1)] == ["u1"]
    assert channel.sent == []
    waiting = asyncio.create_task(channel.until_sent(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    channel.release_sends()
    await task
    assert [sent.unit.id for sent in await waiting] == ["u1"]


async def test_reactions_and_typing_are_logged_and_reactions_can_raise(channel: MemoryChannel):
    inbound = Inbound(text="x", message_id="m")
    await channel.react(inbound, "👀")
    await channel.react(inbound, None)
    await channel.typing(inbound, True)
    assert channel.reactions == [("m", "👀"), ("m", None)]
    assert channel.typing_log == [("m", True)]
    channel.reaction_error = ChannelError("no reactions here")
    with pytest.raises(ChannelError):
        await channel.react(inbound, "👀")


async def test_it_is_a_channel_whose_connection_the_test_sets(channel: MemoryChannel):
    port: Channel = channel
    assert port.connected
    channel.connected = False
    assert not port.connected
    await port.close()
    assert channel.closed
    assert port.name == "memory"
