"""Whoever waits for a message is told, and a stopped engine starts nothing."""

import asyncio
from pathlib import Path

import pytest

import finclaw
from finclaw.errors import SessionError
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.testing import FakeClock, ScriptedProvider, hold, reply


def test_many_may_wait_for_one_and_for_none(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        released = asyncio.Event()
        provider = ScriptedProvider(reply(hold(released), "done"))
        async with finclaw.build(
            finclaw.Settings(state=tmp_path), provider=provider, clock=clock, threaded=False
        ) as app:
            accepted = await app.accept(Inbound(text="hi"))
            waiting = [asyncio.create_task(app.wait(accepted.id, 1000)) for _ in range(3)]
            impatient = asyncio.create_task(app.wait(accepted.id, 1000))
            await asyncio.sleep(1)
            impatient.cancel()
            early = await app.wait(accepted.id, 5)
            assert early is not None
            assert (early.state, early.outcome) == ("running", None)
            released.set()
            records = await asyncio.gather(*waiting)
            assert {record.outcome.reply for record in records if record and record.outcome} == {"done"}
            assert await app.wait("m-nothing-1", 1000) is None
            assert await app.wait(accepted.id, 1000) == records[0]

    clock.run(main())
    assert clock.monotonic() < 10


def test_a_stopped_gateway_answers_nobody_and_loses_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = finclaw.Settings(state=tmp_path)

    async def main() -> None:
        async with finclaw.build(settings, provider=ScriptedProvider(), clock=clock, threaded=False) as app:
            await app.stop()
            with pytest.raises(SessionError, match="next start"):
                await app.handle(Inbound(text="late", message_id="m"))
        async with finclaw.build(settings, provider=ScriptedProvider("answered"), clock=clock, threaded=False) as app:
            assert (await app.handle(Inbound(text="late", message_id="m"))).reply == "answered"

    clock.run(main())


def test_a_message_that_was_not_ended_is_left_for_the_next_start(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = finclaw.Settings(state=tmp_path)

    async def main() -> Accepted:
        provider = ScriptedProvider(reply(hold(asyncio.Event())))
        async with finclaw.build(settings, provider=provider, clock=clock, threaded=False) as app:
            return await app.accept(Inbound(text="hi"))

    accepted = clock.run(main())

    async def again() -> None:
        provider = ScriptedProvider("there it is")
        async with finclaw.build(settings, provider=provider, clock=clock, threaded=False) as app:
            record = await app.wait(accepted.id, 60)
            assert record is not None
            assert record.outcome is not None
            assert record.outcome.reply == "there it is"

    clock.run(again())
