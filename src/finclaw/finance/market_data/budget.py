"""Budgets of requests: a token bucket for each source and purpose, on disk, so that a restart gives nothing away."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from finclaw.finance.market_data.errors import DataRateLimited
from finclaw.finance.market_data.port import Purpose
from finclaw.finance.market_data.source_info import SourceInfo
from finclaw.kernel.extension import Database, Transaction
from finclaw.kernel.port import Clock

SHARES: Final[Mapping[Purpose, float]] = {"people": 0.6, "alerts": 0.25, "briefings": 0.15}
"""Parts of a source's budget. A poller never uses what is kept for people who wait."""

BUDGET_TABLE: Final = """
CREATE TABLE request_budget (
    source TEXT NOT NULL, purpose TEXT NOT NULL, tokens DOUBLE PRECISION NOT NULL, counted_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (source, purpose)
)
"""


class RequestBudget:
    """Token buckets of all sources. A token is gone on disk before its request is sent."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def take(self, source: SourceInfo, purpose: Purpose) -> None:
        """Count one request. Raises DataRateLimited when the purpose has used its share."""
        now = self._clock.now()
        size = max(source.per_minute * SHARES[purpose], 1.0)
        wait = await self._database.transaction(lambda rows: _take(rows, (source.id, purpose), size, now.timestamp()))
        if wait > 0:
            raise DataRateLimited(
                f"our own budget for {source.name} is used up; ask again later",
                source=source.name,
                retry_at=now + timedelta(seconds=wait),
            )


def _take(rows: Transaction, key: tuple[str, str], size: float, now: float) -> float:
    """Take one token of a bucket that fills in a minute; gives the seconds to wait when there is none."""
    found = rows.execute("SELECT tokens, counted_at FROM request_budget WHERE source = ? AND purpose = ?", key)
    tokens, counted_at = found[0] if found else (size, now)
    # A clock that was set back refills nothing.
    tokens = min(size, float(tokens) + max(now - float(counted_at), 0.0) * size / 60)
    if tokens < 1:
        return (1 - tokens) * 60 / size
    rows.execute(
        "INSERT INTO request_budget (source, purpose, tokens, counted_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (source, purpose) DO UPDATE SET tokens = excluded.tokens, counted_at = excluded.counted_at",
        (*key, tokens - 1, now),
    )
    return 0.0
