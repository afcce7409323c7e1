"""A gateway on Telegram that is killed all the time: nothing lost, nothing overtaken, repeats only in doubt."""

from pathlib import Path

import pytest
from tests.chaos.harness import PATIENT, Run
from tests.chaos.telegram_platform import TelegramPlatform

from finclaw.diagnostics.crash_points import CRASH_POINTS

pytestmark = pytest.mark.chaos

CHILD = ("-m", "tests.chaos.telegram_child")


@pytest.fixture
def kills(pytestconfig: pytest.Config) -> int:
    return {"short": 2, "full": 60, "soak": 300}[str(pytestconfig.getoption("--chaos"))]


async def test_kills_on_telegram(tmp_path: Path, kills: int) -> None:
    """Every third life ends at a crash point, the others at any instant; one of six has caught up before."""
    async with Run(tmp_path, max_attempts=PATIENT, platform=TelegramPlatform, child=CHILD, conversations=8) as run:
        run.platform.fault = run.moods
        async with run.load(3):
            for life in range(kills):
                point = f"{run.dice.choice(CRASH_POINTS)}:{run.dice.randint(1, 4)}"
                if life % 3 != 1:
                    await run.live_for(run.dice.uniform(0.1, 1.5))
                elif life % 6 == 1:
                    await run.die_at(point)
                else:
                    await run.die_later_at(point)
        found = await run.drain()
        assert found.clean, str(found)
        assert found.answered == found.messages
        assert found.blobs, "no picture was kept, so nothing was proved about them"
        assert run.kills == kills
