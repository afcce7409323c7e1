"""A channel that breaks is started again, later each time, and the others do not notice."""

import asyncio
from pathlib import Path

import finclaw
from finclaw.channels.mailbox import MailboxChannel
from finclaw.channels.supervisor import keep_receiving
from finclaw.errors import ChannelError
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.port import Accept
from finclaw.kernel.record import Accepted, OutboxItem
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider


async def never(inbound: Inbound) -> Accepted:
    raise AssertionError("nothing is written here")


class Fragile(MailboxChannel):
    """Lives so long, then breaks or just returns."""

    def __init__(self, clock: FakeClock, lives: list[tuple[float, bool]]) -> None:
        super().__init__("fragile")
        self._clock = clock
        self._lives = lives
        self.started: list[float] = []

    async def receive(self, accept: Accept) -> None:
        self.started.append(self._clock.monotonic())
        if not self._lives:
            await asyncio.Event().wait()
        seconds, raises = self._lives.pop(0)
        await self._clock.sleep(seconds)
        if raises:
            raise ChannelError("the line broke")


def starts(lives: list[tuple[float, bool]]) -> list[float]:
    clock = FakeClock()
    channel = Fragile(clock, lives)

    async def main() -> None:
        task = asyncio.create_task(keep_receiving(channel, never, clock))
        await clock.sleep(10_000)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    clock.run(main())
    return channel.started


def test_each_failure_waits_longer_up_to_a_minute() -> None:
    assert starts([(0, True)] * 8) == [0, 1, 3, 7, 15, 31, 63, 123, 183]


def test_a_channel_that_returns_is_started_again_too() -> None:
    assert starts([(5, False)]) == [0, 6]


def test_after_a_good_hour_the_waits_begin_anew() -> None:
    assert starts([(0, True), (0, True), (3600, True), (0, True)]) == [0, 1, 3, 3604, 3606]


def test_a_broken_channel_does_not_stop_the_others(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> list[str]:
        good, bad = MemoryChannel(clock), MemoryChannel(clock, name="bad")
        provider = ScriptedProvider(lambda request: "re: " + request.messages[-1].text)
        settings = finclaw.Settings(state=tmp_path)
        async with finclaw.build(settings, channels=[good, bad], provider=provider, clock=clock, threaded=False) as app:
            await asyncio.sleep(0)
            bad.break_off(ChannelError("gone"))
            await good.write("one")
            await bad.write("two")  # waits until it has been started again
            await app.idle()
        return [sent.text for sent in (*good.sent, *bad.sent)]

    assert clock.run(main()) == ["re: one", "re: two"]


async def test_a_mailbox_has_what_it_is_given() -> None:
    box = MailboxChannel("api")
    unit = OutboxItem(
        id="u-1",
        session="s",
        inbound_id="m",
        turn_id=None,
        seq=0,
        channel="api",
        account="local",
        conversation="main",
        outbound=Outbound(text="hi"),
        planned_at=FakeClock().now(),
    )
    assert (await box.send(unit)).platform_id == "u-1"
    await box.react(Inbound(text="x"), "👀")
    await box.typing(Inbound(text="x"), active=True)
    await box.close()
