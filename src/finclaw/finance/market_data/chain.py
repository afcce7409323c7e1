"""The market data port over chains of sources: cache, single flight, failover, and old figures labelled as old."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, Final, Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument, InstrumentIndex
from finclaw.finance.market import Bar, Closes, Quote
from finclaw.finance.market_data.errors import (
    AllSourcesFailed,
    DataEmpty,
    DataError,
    DataImplausible,
    DataNotFound,
    name_failures,
)
from finclaw.finance.market_data.port import (
    BarRange,
    BarSeries,
    CompanyProfile,
    EarningsDate,
    ExchangeRate,
    Filing,
    MarketData,
    NewsItem,
    Purpose,
)
from finclaw.finance.market_data.quotes import LastPrices, QuoteReader
from finclaw.finance.market_data.readers import (
    read_bars,
    read_earnings,
    read_filings,
    read_fixing,
    read_news,
    read_profile,
)
from finclaw.finance.market_data.source_access import SourceAccess
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.port import Clock

T = TypeVar("T")

_KEPT: Final = 10_000
_OLDEST: Final = timedelta(days=1)
"""What was known before is told, as old, for so long; after that there is nothing to be had."""
_OPEN: Final = timedelta(seconds=10)
_COIN: Final = timedelta(seconds=5)
_RATE: Final = timedelta(seconds=30)
_CLOSED: Final = timedelta(minutes=10)
_SETTLING: Final = timedelta(minutes=1)
_FIXING: Final = timedelta(hours=1)
_NEWS: Final = timedelta(minutes=10)
_FILINGS: Final = timedelta(minutes=30)
_EARNINGS: Final = timedelta(hours=6)
_PROFILE: Final = timedelta(hours=24)


class _Kept(Struct, frozen=True):
    value: Any
    since: datetime
    until: datetime


class ChainedMarketData:
    """Market data from the sources that the settings name. Whoever opens it closes it."""

    def __init__(
        self,
        access: SourceAccess,
        last_prices: LastPrices,
        find: Callable[[str], Instrument | None],
        purpose: Purpose = "people",
    ) -> None:
        self._access = access
        self._last_prices = last_prices
        self._find = find
        self._purpose: Purpose = purpose
        self._quotes = QuoteReader(access, last_prices)
        self._kept: dict[Hashable, _Kept] = {}
        self._flights: dict[Hashable, asyncio.Task[Any]] = {}

    def for_purpose(self, purpose: Purpose) -> "ChainedMarketData":
        """The same data, sources and cache, counted against another share of the budget."""
        other = ChainedMarketData(self._access, self._last_prices, self._find, purpose)
        other._kept, other._flights = self._kept, self._flights
        return other

    async def close(self) -> None:
        flights = set(self._flights.values())
        for each in flights:
            each.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    async def quotes(self, symbols: Sequence[str]) -> Mapping[str, Quote | DataError]:
        wanted = list(dict.fromkeys(symbols))
        answers: dict[str, Quote | DataError] = {}
        missing: list[Instrument] = []
        for symbol in wanted:
            instrument = self._find(symbol)
            if instrument is None:
                answers[symbol] = _not_found(symbol)
            elif (kept := self._find_kept(symbol)) is not None:
                answers[symbol] = kept
            elif symbol not in self._flights:
                missing.append(instrument)
        if missing:
            self._take_off([each.symbol for each in missing], self._quotes.read(missing, self._purpose))
        waiting = {symbol: self._flights[symbol] for symbol in wanted if symbol not in answers}
        for symbol, flight in waiting.items():
            found = cast("Mapping[str, Quote | DataError]", await asyncio.shield(flight))
            answers[symbol] = self._keep_quote(symbol, found[symbol])
        return {symbol: answers[symbol] for symbol in wanted}

    async def bars(self, symbol: str, span: BarRange) -> BarSeries:
        instrument = self._must_find(symbol)

        async def read() -> BarSeries:
            await self._last_prices.load()
            if self._last_prices.find(symbol) is None:
                # The bars need something to be measured by. Where sources differ about the price, so will their bars.
                latest = (await self.quotes([symbol]))[symbol]
                if isinstance(latest, AllSourcesFailed) and any(
                    isinstance(each, DataImplausible) for each in latest.causes
                ):
                    raise latest
            return await read_bars(self._access, instrument, span, self._purpose, self._last_prices.find(symbol))

        kept_for = _SETTLING if self._access.calendar.opening(instrument.exchange, self._now()).is_open else _CLOSED
        return await self._share(("bars", symbol, span), read, kept_for)

    async def fx(self, base: str, quote: str, basis: Literal["spot", "fixing"] = "spot") -> ExchangeRate:
        if basis == "fixing":
            key = ("fixing", base, quote)
            return await self._share(key, lambda: read_fixing(self._access, base, quote, self._purpose), _FIXING)
        symbol = f"{base}/{quote}"
        latest = (await self.quotes([symbol]))[symbol]
        if isinstance(latest, DataError):
            raise latest
        return ExchangeRate(
            base=base,
            quote=quote,
            rate=latest.price,
            basis="spot",
            day=latest.as_of.date(),
            as_of=latest.as_of,
            source=latest.source,
            failed=latest.failed,
            stale=latest.stale,
        )

    async def news(self, symbol: str | None = None, limit: int = 10) -> Sequence[NewsItem]:
        instrument = None if symbol is None else self._must_find(symbol)
        read = partial(read_news, self._access, instrument, limit, self._purpose)
        return await self._share(("news", symbol, limit), read, _NEWS)

    async def filings(self, symbol: str, limit: int = 10) -> Sequence[Filing]:
        read = partial(read_filings, self._access, self._must_find(symbol), limit, self._purpose)
        return await self._share(("filings", symbol, limit), read, _FILINGS)

    async def earnings(self, first: date, last: date) -> Sequence[EarningsDate]:
        read = partial(read_earnings, self._access, first, last, self._purpose)
        return await self._share(("earnings", first, last), read, _EARNINGS)

    async def profile(self, symbol: str) -> CompanyProfile:
        read = partial(read_profile, self._access, self._must_find(symbol), self._purpose)
        return await self._share(("profile", symbol), read, _PROFILE)

    def _must_find(self, symbol: str) -> Instrument:
        found = self._find(symbol)
        if found is None:
            raise _not_found(symbol)
        return found

    def _now(self) -> datetime:
        return self._access.clock.now()

    # ── cache and single flight ─────────────────────────────────────────────────────────────────────────────

    def _take_off(self, keys: Sequence[Hashable], work: Awaitable[T]) -> None:
        """Start the work as a task of its own: whoever asks meanwhile waits for it, and nobody's end ends it."""

        async def fly() -> T:
            try:
                return await work
            finally:
                for key in keys:
                    self._flights.pop(key, None)

        task = asyncio.create_task(fly(), name="market data")
        task.add_done_callback(_look_at_error)
        for key in keys:
            self._flights[key] = task

    async def _share(self, key: Hashable, read: Callable[[], Awaitable[T]], kept_for: timedelta) -> T:
        kept = self._find_kept(key)
        if kept is not None:
            return kept
        if key not in self._flights:
            self._take_off([key], read())
        try:
            value = cast("T", await asyncio.shield(self._flights[key]))
        except AllSourcesFailed as error:
            old = self._find_old(key)
            if old is None:
                raise
            # Headlines, filings and dates carry days of their own, by which anybody sees how old they are.
            if not isinstance(old, BarSeries | ExchangeRate):
                return old
            return cast("T", replace(old, stale=True, failed=_name_causes(error)))
        self._keep(key, value, kept_for)
        return value

    def _keep_quote(self, symbol: str, answer: Quote | DataError) -> Quote | DataError:
        if isinstance(answer, Quote):
            self._keep(symbol, answer, _fresh_for(answer, self._now()))
            return answer
        old = self._find_old(symbol) if isinstance(answer, AllSourcesFailed) else None
        return replace(old, stale=True, failed=_name_causes(answer)) if old is not None else answer

    def _keep(self, key: Hashable, value: object, fresh_for: timedelta) -> None:
        now = self._now()
        self._kept.pop(key, None)
        self._kept[key] = _Kept(value, now, now + fresh_for)
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]

    def _find_kept(self, key: Hashable) -> Any:
        kept = self._kept.get(key)
        return kept.value if kept is not None and self._now() < kept.until else None

    def _find_old(self, key: Hashable) -> Any:
        kept = self._kept.get(key)
        return kept.value if kept is not None and self._now() - kept.since < _OLDEST else None


def _look_at_error(flight: "asyncio.Task[Any]") -> None:
    """Whoever waits gets the error. Where all have left, it is nobody's, and no noise in the log."""
    if not flight.cancelled():
        flight.exception()


def _fresh_for(quote: Quote, now: datetime) -> timedelta:
    """How long a quote is given again without asking: seconds in the session, minutes outside, never over a bell."""
    kind, opening = quote.instrument.kind, quote.opening
    if kind == "coin":
        return _COIN
    if quote.fixing is not None:
        return _FIXING
    if kind == "rate":
        return _RATE
    if opening.is_open:
        fresh = _OPEN
    else:
        # Just after the close, and while there is an after-market, the source still has news.
        fresh = _SETTLING if quote.extended is not None or now - quote.as_of < timedelta(hours=1) else _CLOSED
    return min(fresh, opening.changes_at - now) if opening.changes_at and opening.changes_at > now else fresh


def _name_causes(error: DataError) -> tuple[str, ...]:
    return name_failures(error.causes if isinstance(error, AllSourcesFailed) else (error,))


def _not_found(symbol: str) -> DataNotFound:
    return DataNotFound(f"There is no instrument {symbol!r} in our records. Ask for another one.")


LIVE_SOURCE: Final = "live market data"
"""The name of what was put together from several sources, or from our own calendar."""


class LiveMarket:
    """Prices of real sources. Whoever opened the market data closes it."""

    def __init__(self, data: MarketData, instruments: InstrumentIndex, calendar: Calendar, clock: Clock) -> None:
        self.data = data
        self._instruments = instruments
        self._calendar = calendar
        self._clock = clock

    @property
    def source(self) -> str:
        return LIVE_SOURCE

    @property
    def instruments(self) -> InstrumentIndex:
        return self._instruments

    def now(self) -> datetime:
        return self._clock.now().astimezone(UTC)

    async def quote(self, symbol: str) -> Quote:
        answer = (await self.data.quotes([symbol]))[symbol]
        if isinstance(answer, DataError):
            raise answer
        return answer

    async def closes(self, symbol: str, since: date) -> Closes:
        series = await self._bars(symbol, since, self._today(symbol))
        return Closes(tuple((bar.ends, bar.close) for bar in series.bars), label_series(series))

    async def daily(self, symbol: str, sessions: int) -> tuple[Bar, ...]:
        past = list(islice(self._calendar.sessions_before(self._exchange(symbol), self.now()), sessions))
        series = await self._bars(symbol, past[-1].day, self._today(symbol))
        return series.bars[-sessions:]

    async def intraday(self, symbol: str, minutes: int) -> tuple[Bar, ...]:
        session = next(self._calendar.sessions_before(self._exchange(symbol), self.now()))
        series = await self.data.bars(symbol, BarRange(first=session.day, last=session.day, minutes=minutes))
        return series.bars

    async def _bars(self, symbol: str, first: date, last: date) -> BarSeries:
        if last < first:
            raise DataEmpty(f"There is no price of {symbol} before {first}. Say so and give no figure.")
        return await self.data.bars(symbol, BarRange(first=first, last=last))

    def _today(self, symbol: str) -> date:
        return self.now().astimezone(VENUES[self._exchange(symbol)].tz).date()

    def _exchange(self, symbol: str) -> str:
        found = self._instruments.get(symbol)
        return found.exchange if found else "NYSE"  # the port refuses what the records lack


def label_series(series: BarSeries) -> str:
    """The source of a series, with what its reader must know: that it is old."""
    return f"{series.source} (stale)" if series.stale else series.source
