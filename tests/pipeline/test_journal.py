"""What the road writes down about itself, and the time it has."""

import asyncio

import pytest

from finclaw.kernel.event import Event, StageEnded
from finclaw.kernel.scope import Ids, StageEntry
from finclaw.pipeline.stage import STAGES, Deadline, Halt, Journal, skip
from finclaw.testing import FakeClock

IDS = Ids(agent="", session="s", inbound_id="m", turn_id="")


def a_journal(clock: FakeClock, last: str | None = None) -> tuple[Journal, list[Event]]:
    events: list[Event] = []
    return Journal(clock, events.append, IDS, last), events


@pytest.mark.spec("P-02", "DX-01")
def test_there_are_eight_stages() -> None:
    assert STAGES == ("normalize", "gate", "command", "ack", "context", "dispatch", "execute", "deliver")


@pytest.mark.spec("P-05", "P-15")
def test_a_stage_that_passed() -> None:
    clock = FakeClock()
    journal, events = a_journal(clock)
    with journal.stage("gate"):
        clock.advance(1.5)
        assert journal.entries == (StageEntry("gate", "continue", 1500),)
    assert journal.entries == (StageEntry("gate", "continue", 1500),)
    assert journal.duration_ms == 1500
    assert events == [
        StageEnded(stage="gate", result="continue", duration_ms=1500, session="s", inbound_id="m", turn_id="")
    ]


@pytest.mark.spec("P-05", "P-16")
@pytest.mark.parametrize(
    ("error", "entry"),
    [
        (skip("not for us"), StageEntry("gate", "skip", 0, "not for us")),
        (Halt("no", outcome="failed"), StageEntry("gate", "abort", 0, "no")),
        (KeyError("k"), StageEntry("gate", "abort", 0, "KeyError: 'k'")),
        (asyncio.CancelledError(), StageEntry("gate", "abort", 0, "cancelled")),
    ],
    ids=["skip", "abort", "error", "cancelled"],
)
def test_a_stage_that_ended_the_road(error: BaseException, entry: StageEntry) -> None:
    journal, _ = a_journal(FakeClock())
    with pytest.raises(type(error)), journal.stage("gate"):
        raise error
    assert journal.entries == (entry,)


def test_a_stage_may_say_before_its_end_that_it_skips() -> None:
    journal, _ = a_journal(FakeClock())
    with journal.stage("deliver"):
        journal.skip("silence")
        assert journal.entries[-1].result == "skip"
    assert journal.entries == (StageEntry("deliver", "skip", 0, "silence"),)


@pytest.mark.spec("P-11")
def test_a_journal_may_end_the_road_after_one_stage() -> None:
    journal, _ = a_journal(FakeClock(), last="gate")
    with journal.stage("normalize"):
        pass
    with pytest.raises(Halt, match="only gate was asked for"), journal.stage("gate"):
        pass
    assert [(entry.name, entry.result) for entry in journal.entries] == [
        ("normalize", "continue"),
        ("gate", "continue"),
    ]


# ── the deadline ────────────────────────────────────────────────────────────────────────────────────────────


def test_time_runs_out() -> None:
    clock = FakeClock()

    async def main() -> None:
        deadline = Deadline(5)
        with pytest.raises(TimeoutError):
            async with deadline:
                await clock.sleep(9)
        assert deadline.expired
        with deadline.pause():  # harmless afterwards
            pass

    clock.run(main())
    assert clock.monotonic() == 5


def test_time_stands_still_and_goes_on_with_what_was_left() -> None:
    clock = FakeClock()

    async def main() -> None:
        async with Deadline(5) as deadline:
            await clock.sleep(3)
            with deadline.pause():
                await clock.sleep(100)
            await clock.sleep(9)

    with pytest.raises(TimeoutError):
        clock.run(main())
    assert clock.monotonic() == 105


def test_a_pause_inside_a_pause_ends_with_the_outer_one() -> None:
    clock = FakeClock()

    async def main() -> None:
        async with Deadline(5) as deadline:
            with deadline.pause():
                with deadline.pause():
                    await clock.sleep(50)
                await clock.sleep(50)
            await clock.sleep(4)

    clock.run(main())
    assert clock.monotonic() == 104


def test_pauses_that_overlap_are_one_pause() -> None:
    clock = FakeClock()

    async def pause(deadline: Deadline, after: float, seconds: float) -> None:
        await clock.sleep(after)
        with deadline.pause():
            await clock.sleep(seconds)

    async def main() -> None:
        async with Deadline(5) as deadline:
            await asyncio.gather(pause(deadline, 1, 10), pause(deadline, 6, 10))
            await clock.sleep(9)

    with pytest.raises(TimeoutError):
        clock.run(main())
    assert clock.monotonic() == 5 + 15


def test_the_longer_deadline_stands_still_with_the_shorter() -> None:
    clock = FakeClock()

    async def main() -> None:
        async with Deadline(10) as whole:
            async with Deadline(5, within=whole) as road:
                with road.pause():
                    await clock.sleep(100)
            await clock.sleep(20)

    with pytest.raises(TimeoutError):
        clock.run(main())
    assert clock.monotonic() == 110


def test_a_pause_before_the_deadline_begins_stops_nothing() -> None:
    clock = FakeClock()

    async def main() -> None:
        with Deadline(5).pause():
            await clock.sleep(1)

    clock.run(main())
