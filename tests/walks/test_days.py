"""User trial H6: days of budgets and of the books begin at midnight in the zone of the machine, which `TZ` says."""

import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.walks.budgets import COST, SONNET, answer, limit
from tests.walks.house import House

from finclaw.testing import FakeClock


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", str(request.param))
        time.tzset()
        yield str(request.param)
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "began", "same_day", "next_day", "day"),
    [
        ("Asia/Seoul", "2026-03-04 00:30", timedelta(hours=14), timedelta(hours=1), "2026-03-04"),
        ("Asia/Seoul", "2026-03-03 15:30", timedelta(hours=23), timedelta(hours=1), "2026-03-04"),
        ("America/New_York", "2026-03-04 06:00", timedelta(hours=22), timedelta(hours=2), "2026-03-04"),
        ("America/New_York", "2026-03-08 05:30", timedelta(hours=22), timedelta(hours=1), "2026-03-08"),
        ("America/New_York", "2026-11-01 04:30", timedelta(hours=24), timedelta(hours=1), "2026-11-01"),
        ("UTC", "2026-03-04 00:30", timedelta(hours=23), timedelta(hours=1), "2026-03-04"),
    ],
    ids=[
        "in Seoul a day ends at 15:00 UTC",
        "in Seoul a day goes on past midnight UTC",
        "New York",
        "the day of 23 hours",
        "the day of 25 hours",
        "UTC",
    ],
    indirect=["zone"],
)
def test_a_days_budget_is_that_of_the_day_outside(
    tmp_path: Path, zone: str, began: str, same_day: timedelta, next_day: timedelta, day: str
) -> None:
    """`began` is in UTC. Two questions fit into a day; the third waits for the next, and no longer."""
    house = House(tmp_path, FakeClock(datetime.fromisoformat(began).replace(tzinfo=UTC)))

    async def walk() -> None:
        async with house.open(*[answer()] * 3, agent=SONNET, budget=limit(agent_day_usd="0.24")) as gateway:
            assert (await gateway.ask("one")).kind == "answered"
            house.clock.jump(same_day)
            assert (await gateway.ask("two", conversation="b")).kind == "answered"
            assert (await gateway.ask("three", conversation="c")).kind == "failed", "it is still the same day"
            lines = {line.name: line.cost for line in await gateway.app.costs(2, "day")}
            assert lines == {day: 2 * COST}
        house.clock.jump(next_day)
        async with house.open(answer(), agent=SONNET, budget=limit(agent_day_usd="0.24")) as gateway:
            assert list(await gateway.app.costs(1, "day")) == [], "a new day"
            assert (await gateway.ask("four", conversation="d")).kind == "answered"
            today = await gateway.app.today()
            assert (today.cost, today.agent_day_usd) == (COST, limit(agent_day_usd="0.24").agent_day_usd)
            assert today.day.isoformat() > day

    house.clock.run(walk())
