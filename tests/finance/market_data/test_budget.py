"""Budgets of requests: shares, refilling, and what a killed process has used."""

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.finance.sources.vendors import NOW

from finclaw.finance.market_data.errors import DataRateLimited
from finclaw.finance.market_data.port import Purpose
from finclaw.finance.market_data.source_access import BUDGET_TABLE, RequestBudget
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.testing import FakeClock

NAVER = SOURCES["naver"]

_TAKES_AND_DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from finclaw.finance.market_data.source_access import BUDGET_TABLE, RequestBudget
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.testing import FakeClock
from datetime import datetime, UTC

async def main():
    clock = FakeClock(datetime(2026, 11, 16, 5, 0, tzinfo=UTC))
    budget = RequestBudget(ExtensionDatabase(Path(sys.argv[1]), "finance", (BUDGET_TABLE,)), clock)
    for _ in range(9):
        await budget.take(SOURCES["naver"], "briefings")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def open_budget(state: Path, clock: FakeClock) -> RequestBudget:
    return RequestBudget(ExtensionDatabase(state, "finance", (BUDGET_TABLE,), threaded=False), clock)


async def taken(budget: RequestBudget, purpose: Purpose) -> int:
    """How many requests the purpose may send at once."""
    for count in range(1_000):
        try:
            await budget.take(NAVER, purpose)
        except DataRateLimited:
            return count
    raise AssertionError("it never ends")


async def test_each_purpose_has_its_share_and_gets_it_back_within_a_minute(tmp_path: Path) -> None:
    clock = FakeClock(NOW)
    budget = open_budget(tmp_path, clock)
    assert [await taken(budget, each) for each in ("alerts", "briefings", "people")] == [15, 9, 36]
    clock.advance(20)
    assert [await taken(budget, each) for each in ("alerts", "briefings", "people")] == [5, 3, 12]
    clock.jump(-timedelta(hours=1))
    assert await taken(budget, "people") == 0  # a clock that is set back gives nothing away


def test_what_a_killed_process_has_used_is_used(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", _TAKES_AND_DIES, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    clock = FakeClock(NOW)

    async def try_again() -> None:
        budget = open_budget(tmp_path, clock)
        with pytest.raises(DataRateLimited) as refused:
            await budget.take(NAVER, "briefings")
        assert refused.value.retry_at is not None
        assert timedelta(seconds=6) < refused.value.retry_at - NOW < timedelta(seconds=7)
        clock.advance(7)
        await budget.take(NAVER, "briefings")

    clock.run(try_again())
