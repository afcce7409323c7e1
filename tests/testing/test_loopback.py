"""The fake platform and the channel that speaks to it, over a real socket."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest
from tests.support.history import Acked, ReplySeen, SentIn
from tests.support.loopback import LoopbackChannel
from tests.support.platform import FakePlatform, SendFault

from finclaw.errors import SendFailed, SendRefused, SendUnknown, StoreFailed
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.port import Accept, Channel
from finclaw.kernel.record import Accepted, OutboxItem
from finclaw.testing import FakeClock

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def unit(id: str = "u1", text: str = "hi") -> OutboxItem:
    return OutboxItem(
        id=id,
        session="s",
        inbound_id="i",
        turn_id="t",
        seq=0,
        channel="loopback",
        account="local",
        conversation="c",
        outbound=Outbound(text=text, reply_to="c-1"),
        planned_at=NOW,
    )


class RealClock:
    """Pauses between polls are real here, and short; the first one is noted."""

    def __init__(self) -> None:
        self.paused = asyncio.Event()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        self.paused.set()
        await asyncio.sleep(seconds)


class Inbox:
    """Accepts like a store: concurrently, and not always."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.failing: set[str] = set()
        self.gates: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []
        self.has_all = asyncio.Event()
        self.all = 1

    async def accept(self, inbound: Inbound) -> Accepted:
        self.begun.append(inbound.text)
        if len(self.begun) == self.all:
            self.has_all.set()
        if inbound.text in self.gates:
            await self.gates[inbound.text].wait()
        if inbound.text in self.failing:
            self.failing.discard(inbound.text)
            raise StoreFailed("disk full")
        self.texts.append(inbound.text)
        return Accepted(id=inbound.message_id, session="s", ticket=1, inbound=inbound, accepted_at=NOW)


@pytest.fixture
async def platform() -> AsyncIterator[FakePlatform]:
    async with FakePlatform() as platform:
        yield platform


@pytest.fixture
async def channel(platform: FakePlatform) -> AsyncIterator[LoopbackChannel]:
    channel = LoopbackChannel(platform.url, RealClock(), pause=0.001)
    yield channel
    await channel.close()


@asynccontextmanager
async def receiving(channel: Channel, accept: Accept) -> AsyncGenerator[None]:
    task = asyncio.create_task(channel.receive(accept))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def soon(platform: FakePlatform, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        await platform.until(condition)


async def test_messages_are_accepted_and_then_acknowledged(platform: FakePlatform, channel: LoopbackChannel):
    inbox = Inbox()
    platform.write("c", "one")
    async with receiving(channel, inbox.accept):
        await soon(platform, lambda: platform.unacknowledged == 0)
        platform.write("c", "two")
        platform.write("d", "three", sender="bob")
        await soon(platform, lambda: platform.unacknowledged == 0)
        assert channel.connected
    assert inbox.texts == ["one", "two", "three"]
    assert platform.history.events[:2] == [SentIn("c", 1, "c-1"), Acked("c-1")]
    assert {"c-1", "c-2", "d-1"} == {event.message_id for event in platform.history.events if isinstance(event, Acked)}
    assert channel.connected  # who has stopped receiving may still send


async def test_a_batch_is_accepted_side_by_side(platform: FakePlatform, channel: LoopbackChannel):
    inbox = Inbox()
    inbox.gates["one"] = asyncio.Event()
    for text in ("one", "two"):
        platform.write("c", text)

    async def accept(inbound: Inbound) -> Accepted:
        if inbound.text == "two":
            inbox.gates["one"].set()  # would wait for ever if "one" had to be finished first
        return await inbox.accept(inbound)

    async with receiving(channel, accept):
        await soon(platform, lambda: platform.unacknowledged == 0)
    assert inbox.begun == ["one", "two"]


async def test_nothing_is_acknowledged_before_accept_returns(platform: FakePlatform, channel: LoopbackChannel):
    inbox = Inbox()
    inbox.gates["one"] = asyncio.Event()
    platform.write("c", "one")
    async with receiving(channel, inbox.accept):
        async with asyncio.timeout(60):
            await inbox.has_all.wait()
        assert platform.unacknowledged == 1
        inbox.gates["one"].set()
        await soon(platform, lambda: platform.unacknowledged == 0)


async def test_a_gateway_that_dies_gets_its_messages_again(platform: FakePlatform, channel: LoopbackChannel):
    dying, living = Inbox(), Inbox()
    dying.gates["two"] = asyncio.Event()
    dying.all = 2
    for text in ("one", "two"):
        platform.write("c", text)
    async with receiving(channel, dying.accept), asyncio.timeout(60):
        await dying.has_all.wait()
    async with receiving(channel, living.accept):
        await soon(platform, lambda: platform.unacknowledged == 0)
    assert living.texts == ["one", "two"]


async def test_what_the_store_refused_comes_again(platform: FakePlatform, channel: LoopbackChannel):
    inbox = Inbox()
    inbox.failing.add("two")
    for text in ("one", "two", "three"):
        platform.write("c", text)
    async with receiving(channel, inbox.accept):
        await soon(platform, lambda: platform.unacknowledged == 0)
    assert inbox.texts == ["one", "three", "two", "three"]


async def test_a_bug_in_accept_is_not_hidden(platform: FakePlatform, channel: LoopbackChannel):
    async def broken(_: Inbound) -> Accepted:
        raise ZeroDivisionError

    platform.write("c", "one")
    with pytest.raises(ZeroDivisionError):
        await channel.receive(broken)
    assert platform.unacknowledged == 1


async def test_a_reply_is_shown_and_in_the_history(platform: FakePlatform, channel: LoopbackChannel):
    receipt = await channel.send(unit(text="71,000원"))
    assert receipt.platform_id == "p1"
    assert platform.shown("c") == [ReplySeen("c", "c-1", "u1", "71,000원", 1)]
    assert platform.history.events == platform.shown("c")


async def test_too_many_messages(platform: FakePlatform, channel: LoopbackChannel):
    platform.disturb("busy", seconds=2.5)
    with pytest.raises(SendFailed) as caught:
        await channel.send(unit())
    assert caught.value.retry_after == 2.5
    assert platform.shown("c") == []


async def test_a_broken_platform_and_then_a_whole_one(platform: FakePlatform, channel: LoopbackChannel):
    platform.disturb("broken", times=2)
    for _ in range(2):
        with pytest.raises(SendFailed):
            await channel.send(unit())
    await channel.send(unit())
    assert platform.times_shown("u1") == 1


async def test_a_refusal_is_final(platform: FakePlatform, channel: LoopbackChannel):
    platform.disturb("refused")
    with pytest.raises(SendRefused):
        await channel.send(unit())


async def test_a_cut_after_showing_is_seen_twice_unless_the_platform_knows_tokens(
    platform: FakePlatform, channel: LoopbackChannel
):
    for idempotent, times in ((False, 2), (True, 1)):
        platform.idempotent = idempotent
        token = f"u-{idempotent}"
        platform.disturb("cut")
        with pytest.raises(SendUnknown):
            await channel.send(unit(token))
        receipt = await channel.send(unit(token))
        assert platform.times_shown(token) == times
        assert receipt.platform_id
    assert [reply.attempt for reply in platform.shown("c")] == [1, 2, 1]


async def test_dice_decide_when_the_script_is_over(platform: FakePlatform, channel: LoopbackChannel):
    platform.fault = lambda body: SendFault("refused") if body.token == "bad" else None
    await channel.send(unit("good"))
    with pytest.raises(SendRefused):
        await channel.send(unit("bad"))


async def test_without_a_platform_it_is_not_connected(platform: FakePlatform):
    inbox, clock = Inbox(), RealClock()
    channel = LoopbackChannel(platform.url, clock, pause=0.001)
    async with receiving(channel, inbox.accept):
        await soon(platform, lambda: platform.polls > 0)
        await platform.stop()
        async with asyncio.timeout(60):
            await clock.paused.wait()
        assert not channel.connected
        with pytest.raises(SendFailed):
            await channel.send(unit())
    await channel.close()


async def test_an_address_needs_a_start():
    with pytest.raises(RuntimeError, match="before it is started"):
        _ = FakePlatform().url


async def test_a_poll_that_finds_nothing_ends(platform: FakePlatform):
    async with aiohttp.ClientSession() as http, http.get(f"{platform.url}/updates?wait=0.001") as answer:
        assert await answer.json() == {"updates": []}


def test_the_whole_conversation_in_virtual_time():
    clock = FakeClock()

    async def main() -> float:
        async with FakePlatform() as platform:
            channel = LoopbackChannel(platform.url, clock)
            inbox = Inbox()
            platform.disturb("slow", seconds=100)
            async with receiving(channel, inbox.accept):
                await platform.until(lambda: platform.polls > 3)  # polls of 20 s that find nothing
                platform.write("c", "hello")
                await platform.until(lambda: platform.unacknowledged == 0)
                await channel.send(unit())
                took = clock.monotonic()
            await channel.close()
        return took

    assert clock.run(main()) == pytest.approx(2 * 20 + 100)


async def test_the_port_in_full(channel: LoopbackChannel):
    port: Channel = channel
    assert (port.name, port.capabilities.idempotent, port.connected) == ("loopback", False, False)
    await port.react(Inbound(text="x"), "👀")
    await port.typing(Inbound(text="x"), True)
