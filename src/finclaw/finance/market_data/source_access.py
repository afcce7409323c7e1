"""Access to the sources: which ones a chain names, with a client for each, its budget and its circuit breaker."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.port import Purpose
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SourceInfo
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.extension import Database, Transaction
from finclaw.kernel.fetch import Fetcher
from finclaw.kernel.port import Clock

T = TypeVar("T")


class SourceAccess:
    def __init__(
        self,
        sources: Mapping[str, DataSource],
        settings: MarketDataSettings,
        fetcher: Fetcher,
        budget: "RequestBudget",
        clock: Clock,
        calendar: Calendar,
    ) -> None:
        self.clock = clock
        self.calendar = calendar
        self.sources = sources
        self.settings = settings
        self._fetcher = fetcher
        self._budget = budget
        self._breaker = SourceBreaker()

    def chain(self, instrument: Instrument, kind: DataKind) -> tuple[DataSource, ...]:
        return tuple(each for each in self.named_chain(chain_key(instrument, kind)) if each.has(instrument, kind))

    def named_chain(self, key: str) -> tuple[DataSource, ...]:
        """The sources of a chain by its name, for what is about no single instrument."""
        return tuple(self.sources[each] for each in self.settings.chain(key) if each in self.sources)

    async def ask(self, source: DataSource, purpose: Purpose, request: Callable[[SourceClient], Awaitable[T]]) -> T:
        """Raises DataError, also for a figure that cannot be read. A source that rests is not asked at all."""
        info = source.info
        self._breaker.check(info, self.clock.now())
        sent = False

        async def take() -> None:
            nonlocal sent
            await self._budget.take(info, purpose)
            sent = True

        client = SourceClient(
            source, self._fetcher, lambda api: self.settings.url(info.id, api), take, self.clock, self.calendar
        )
        try:
            with errors.refuse_unreadable():
                answer = await request(client)
        except errors.DataError as error:
            error.name_source(info.name)
            if sent:  # what our own budget refuses says nothing about the source
                self._breaker.record_failure(info, error, self.clock.now())
            raise
        self._breaker.record_success(info)
        return answer


def chain_key(instrument: Instrument, kind: DataKind) -> str:
    if instrument.kind == "coin":
        return f"coin.{instrument.currency}.{kind}"
    market = {"KRX": "KRX", "FX": "FX"}.get(instrument.exchange, "US")
    asset = "stock" if instrument.kind == "etf" else instrument.kind
    return f"{asset}.{market}.{kind}"


_FAILURES: Final = 3
_LONGEST: Final = timedelta(minutes=15)
_PROBE: Final = timedelta(seconds=30)
"""How long one request has to show that the source is back, while others still leave it alone."""


class _State(Struct):
    failures: int = 0
    until: datetime | None = None
    last: errors.DataError | None = None


class SourceBreaker:
    """What is known of the sources' health. It forgets with the process: a restart may try anew."""

    def __init__(self) -> None:
        self._states: dict[str, _State] = {}

    def check(self, source: SourceInfo, now: datetime) -> None:
        """Raises the error for which the source rests. The first request after that is a probe."""
        state = self._states.get(source.id)
        if state is None or state.until is None or state.last is None:
            return
        if now < state.until:
            raise type(state.last)(str(state.last), source=source.name, retry_at=state.until)
        state.until = now + _PROBE

    def record_success(self, source: SourceInfo) -> None:
        self._states.pop(source.id, None)

    def record_failure(self, source: SourceInfo, error: errors.DataError, now: datetime) -> None:
        """Only what is about the source as a whole counts: not a symbol that it lacks, nor one unreadable answer."""
        if not isinstance(error, errors.DataTransport | errors.DataRateLimited | errors.DataAuthExpired):
            return
        state = self._states.setdefault(source.id, _State())
        state.failures += 1
        state.last = error
        if not isinstance(error, errors.DataTransport):
            state.until = error.retry_at or now + timedelta(seconds=source.rest)
        elif state.failures >= _FAILURES:
            state.until = now + min(timedelta(seconds=30) * 2 ** (state.failures - _FAILURES), _LONGEST)


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
            raise errors.DataRateLimited(
                f"our own budget for {source.name} is used up; ask again later",
                source=source.name,
                retry_at=now + timedelta(seconds=wait),
            )


def _take(rows: Transaction, key: tuple[str, str], size: float, now: float) -> float:
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
