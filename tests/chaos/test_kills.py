"""A gateway that is killed all the time loses nothing, overtakes nothing, and repeats only what it marked as doubtful."""

from pathlib import Path

import pytest
from tests.chaos.audit import Audit
from tests.chaos.harness import PATIENT, Run

from finclaw.kernel.crash import CRASH_POINTS

pytestmark = pytest.mark.chaos

RATE = 40
"""Messages a second, kill or no kill."""


@pytest.fixture
def full(pytestconfig: pytest.Config) -> bool:
    return pytestconfig.getoption("--chaos") == "full"


def check(found: Audit) -> None:
    assert found.clean, str(found)
    assert found.answered + found.failed == found.messages


async def test_every_crash_point(tmp_path: Path, full: bool) -> None:
    times = 5 if full else 1
    async with Run(tmp_path, max_attempts=PATIENT) as run:
        points = list(CRASH_POINTS) * times
        run.dice.shuffle(points)
        run.platform.fault = run.moods
        async with run.load(RATE):
            for point in points:
                await run.die_at(f"{point}:{run.dice.randint(1, 12)}")
        found = await run.drain()
        check(found)
        assert found.failed == 0
        assert run.kills == len(CRASH_POINTS) * times


async def test_random_instants(tmp_path: Path, full: bool) -> None:
    async with Run(tmp_path) as run:
        run.platform.fault = run.moods
        async with run.load(RATE):
            for _ in range(200 if full else 12):
                await run.live_for(run.dice.uniform(0.0, 1.0))
        check(await run.drain())


async def test_nobody_sees_anything_twice_where_the_platform_knows_tokens(tmp_path: Path, full: bool) -> None:
    async with Run(tmp_path, idempotent=True) as run:
        run.platform.fault = run.moods
        async with run.load(RATE):
            for point in ("send:after", "receipt:before_commit") * (5 if full else 1):
                await run.die_at(f"{point}:{run.dice.randint(1, 12)}")
            for _ in range(25 if full else 4):
                await run.live_for(run.dice.uniform(0.0, 1.0))
        found = await run.drain()
        check(found)
        assert found.doubts > 0
        assert found.repeats == 0
