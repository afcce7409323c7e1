from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.finance.sources.bench import Bench


class FixedClock:
    """Always the same moment."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(datetime(2026, 11, 16, 5, 32, 41, tzinfo=UTC))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
