"""Stopping in good order: what can be said is said, the rest is parked, and nothing is left in doubt."""

import asyncio
from datetime import timedelta
from pathlib import Path

import finclaw
from finclaw import Settings
from finclaw.delivery.format import RESENT_MARK
from finclaw.errors import SendFailed
from finclaw.kernel.envelope import Receipt
from finclaw.kernel.record import OutboxItem
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider

A_TURN_EACH = SessionSettings(queue=QueueSettings(mode="followup"))


def echo(request: object) -> str:
    return "an answer"


def gateway(state: Path, clock: FakeClock, channel: MemoryChannel):
    return finclaw.build(
        Settings(state=state, sessions=A_TURN_EACH),
        channels=[channel],
        provider=ScriptedProvider(echo),
        clock=clock,
        threaded=False,
    )


def test_a_stop_does_not_wait_for_a_retry(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> float:
        channel = MemoryChannel(clock)
        channel.fail_next(SendFailed("later"))
        async with gateway(tmp_path, clock, channel):
            await channel.write("one")
            await channel.until_tried(1)
            await asyncio.sleep(0.1)
            asked = clock.monotonic()
        took = clock.monotonic() - asked
        again = MemoryChannel(clock)
        async with gateway(tmp_path, clock, again):
            (reply,) = await again.until_sent(1)
        assert not reply.text.startswith(RESENT_MARK)
        return took

    assert clock.run(main()) < 1


def test_a_stop_does_not_wait_for_a_channel_that_is_away(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> float:
        channel = MemoryChannel(clock)
        async with gateway(tmp_path, clock, channel) as app:
            channel.connected = False
            accepted = await channel.write("one")
            await app.wait(accepted.id, 10)
            asked = clock.monotonic()
        took = clock.monotonic() - asked
        again = MemoryChannel(clock)
        async with gateway(tmp_path, clock, again):
            (reply,) = await again.until_sent(1)
        assert not reply.text.startswith(RESENT_MARK)
        return took

    assert clock.run(main()) < 1


class SlowChannel(MemoryChannel):
    """Takes its time for each unit, as a platform with a limit of messages a second."""

    async def send(self, unit: OutboxItem) -> Receipt:
        await asyncio.sleep(0.7)
        return await super().send(unit)


def test_a_stop_in_the_middle_of_a_queue_ends_between_two_units(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> float:
        channel = SlowChannel(clock)
        async with gateway(tmp_path, clock, channel) as app:
            (*_, last) = [await channel.write("question") for _ in range(20)]
            await app.wait(last.id, 10)
            asked = clock.monotonic()
        took = clock.monotonic() - asked
        again = MemoryChannel(clock)
        async with gateway(tmp_path, clock, again):
            rest = await again.until_sent(20 - len(channel.sent))
        assert 1 < len(channel.sent) < 20
        assert not [sent for sent in rest if sent.text.startswith(RESENT_MARK)]
        return took

    assert clock.run(main()) < 10


def test_the_order_of_answers_survives_a_restart_with_the_clock_set_back(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> list[str]:
        channel = MemoryChannel(clock)
        channel.connected = False
        async with gateway(tmp_path, clock, channel) as app:
            for _ in range(3):
                accepted = await channel.write("question")
                await app.wait(accepted.id, 10)
                clock.jump(timedelta(hours=-1))
        again = MemoryChannel(clock)
        async with gateway(tmp_path, clock, again):
            return [sent.unit.inbound_id for sent in await again.until_sent(3)]

    shown = clock.run(main())
    assert shown == sorted(shown, key=lambda inbound_id: int(inbound_id.rpartition("-")[2]))
