"""The market data port over chains of sources: cache, single flight, failover, and old figures labelled as old."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Quote
from finclaw.finance.market_data import errors, port
from finclaw.finance.market_data.plausible import PriceReading, check_reading, check_series
from finclaw.finance.market_data.quotes import LastPrices, QuoteReader
from finclaw.finance.market_data.source import DataSource, SourceClient
from finclaw.finance.market_data.source_access import SourceAccess

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
    def __init__(
        self,
        access: SourceAccess,
        last_prices: LastPrices,
        find: Callable[[str], Instrument | None],
        purpose: port.Purpose = "people",
    ) -> None:
        self._access = access
        self._last_prices = last_prices
        self._find = find
        self._purpose: port.Purpose = purpose
        self._quotes = QuoteReader(access, last_prices)
        self._kept: dict[Hashable, _Kept] = {}
        self._flights: dict[Hashable, asyncio.Task[Any]] = {}

    def for_purpose(self, purpose: port.Purpose) -> "ChainedMarketData":
        """The same data, sources and cache, counted against another share of the budget."""
        other = ChainedMarketData(self._access, self._last_prices, self._find, purpose)
        other._kept = self._kept
        other._flights = self._flights
        return other

    async def close(self) -> None:
        flights = set(self._flights.values())
        for each in flights:
            each.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    async def quotes(self, symbols: Sequence[str]) -> Mapping[str, Quote | errors.DataError]:
        wanted = list(dict.fromkeys(symbols))
        answers: dict[str, Quote | errors.DataError] = {}
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
            found = cast("Mapping[str, Quote | errors.DataError]", await asyncio.shield(flight))
            answers[symbol] = self._keep_quote(symbol, found[symbol])
        return {symbol: answers[symbol] for symbol in wanted}

    async def bars(self, symbol: str, span: port.BarRange) -> port.BarSeries:
        instrument = self._must_find(symbol)
        opening = self._access.calendar.opening(instrument.exchange, self._now())
        kept_for = _SETTLING if opening.is_open else _CLOSED
        return await self._share(("bars", symbol, span), lambda: self._read_bars(instrument, span), kept_for)

    async def _read_bars(self, instrument: Instrument, span: port.BarRange) -> port.BarSeries:
        symbol = instrument.symbol
        await self._last_prices.load()
        if self._last_prices.find(symbol) is None:
            # The bars need something to be measured by. Where sources differ about the price, so will their bars.
            latest = (await self.quotes([symbol]))[symbol]
            if isinstance(latest, errors.AllSourcesFailed) and latest.is_implausible:
                raise latest
        last_price = self._last_prices.find(symbol)

        series, failed = await self._ask_chain(
            self._access.chain(instrument, "minutes" if span.minutes else "bars"),
            f"price history of {symbol}",
            lambda source, client: source.read_series(client, instrument, span),
            lambda series: check_series(series, span, last_price, self._now()),
            offer=f"bars of {symbol}",
        )
        return replace(series, failed=failed)

    async def fx(self, base: str, quote: str, basis: Literal["spot", "fixing"] = "spot") -> port.ExchangeRate:
        if basis == "fixing":
            return await self._share(("fixing", base, quote), lambda: self._read_fixing(base, quote), _FIXING)
        symbol = f"{base}/{quote}"
        latest = (await self.quotes([symbol]))[symbol]
        if isinstance(latest, errors.DataError):
            raise latest
        return port.ExchangeRate(
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

    async def _read_fixing(self, base: str, quote: str) -> port.ExchangeRate:
        symbol = f"{base}/{quote}"
        pair = Instrument(symbol=symbol, exchange="FX", name_en=symbol, name_ko=symbol, currency=quote, kind="rate")

        def check(rate: port.ExchangeRate) -> port.ExchangeRate:
            if (rate.base, rate.quote, rate.basis) != (base, quote, "fixing"):
                raise errors.DataImplausible(f"spoke of {rate.base}/{rate.quote}, not of {symbol}")
            # The rules of prices hold; the close before it is not part of a fixing.
            reading = PriceReading(
                instrument=pair,
                price=rate.rate,
                currency=quote,
                as_of=rate.as_of,
                previous_close=rate.rate,
                fixing=rate.day,
            )
            check_reading(reading, self._access.calendar, self._now())
            return rate

        rate, failed = await self._ask_chain(
            self._access.chain(pair, "fixing"),
            f"fixing of {symbol}",
            lambda source, client: source.read_fixing(client, base, quote),
            check,
        )
        return replace(rate, failed=failed)

    async def news(self, symbol: str | None = None, limit: int = 10) -> Sequence[port.NewsItem]:
        instrument = None
        chain = self._access.named_chain("market.ALL.news")
        what = "news of the market"
        if symbol is not None:
            instrument = self._must_find(symbol)
            chain = self._access.chain(instrument, "news")
            what = f"news of {symbol}"
        key = ("news", symbol, limit)
        return await self._share_chain(
            key, chain, what, lambda source, client: source.read_news(client, instrument, limit), _NEWS
        )

    async def filings(self, symbol: str, limit: int = 10) -> Sequence[port.Filing]:
        instrument = self._must_find(symbol)
        key = ("filings", symbol, limit)
        chain = self._access.chain(instrument, "filings")
        what = f"list of filings of {symbol}"
        return await self._share_chain(
            key, chain, what, lambda source, client: source.read_filings(client, instrument, limit), _FILINGS
        )

    async def earnings(self, first: date, last: date) -> Sequence[port.EarningsDate]:
        key = ("earnings", first, last)
        chain = self._access.named_chain("stock.US.earnings")
        what = "calendar of earnings"
        return await self._share_chain(
            key, chain, what, lambda source, client: source.read_earnings(client, first, last), _EARNINGS
        )

    async def profile(self, symbol: str) -> port.CompanyProfile:
        instrument = self._must_find(symbol)
        chain = self._access.chain(instrument, "profile")
        what = f"profile of {symbol}"
        return await self._share_chain(
            ("profile", symbol), chain, what, lambda source, client: source.read_profile(client, instrument), _PROFILE
        )

    async def _ask_chain(
        self,
        chain: Sequence[DataSource],
        what: str,
        read: Callable[[DataSource, SourceClient], Awaitable[T]],
        check: Callable[[T], T] | None = None,
        *,
        offer: str = "",
    ) -> tuple[T, tuple[str, ...]]:
        """The first answer that passes the check, with the sources that failed before it.

        An answer that fails the check counts as an answer of its source: the circuit breaker stays closed. Raises
        AllSourcesFailed, or DataUnsupported if no source is switched on.
        """
        if not chain:
            raise errors.DataUnsupported(f"No source that is switched on has {offer or f'a {what}'}. Say so.")
        causes: list[errors.DataError] = []
        for source in chain:
            try:
                answer = await self._access.ask(source, self._purpose, partial(read, source))
                if check is not None:
                    with errors.refuse_unreadable():
                        answer = check(answer)
                return answer, errors.name_failures(causes)
            except errors.DataError as error:
                error.name_source(source.info.name)
                causes.append(error)
        raise errors.AllSourcesFailed(what, tuple(causes))

    async def _share_chain(
        self,
        key: Hashable,
        chain: Sequence[DataSource],
        what: str,
        read: Callable[[DataSource, SourceClient], Awaitable[T]],
        kept_for: timedelta,
    ) -> T:
        async def ask() -> T:
            answer, _ = await self._ask_chain(chain, what, read)
            return answer

        return await self._share(key, ask, kept_for)

    def _must_find(self, symbol: str) -> Instrument:
        found = self._find(symbol)
        if found is None:
            raise _not_found(symbol)
        return found

    def _now(self) -> datetime:
        return self._access.clock.now()

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
        except errors.AllSourcesFailed as error:
            old = self._find_old(key, error)
            if old is None:
                raise
            return old
        self._keep(key, value, kept_for)
        return value

    def _keep_quote(self, symbol: str, answer: Quote | errors.DataError) -> Quote | errors.DataError:
        if isinstance(answer, Quote):
            self._keep(symbol, answer, _fresh_for(answer, self._now()))
        elif isinstance(answer, errors.AllSourcesFailed):
            return self._find_old(symbol, answer) or answer
        return answer

    def _keep(self, key: Hashable, value: object, fresh_for: timedelta) -> None:
        now = self._now()
        self._kept.pop(key, None)
        self._kept[key] = _Kept(value, now, now + fresh_for)
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]

    def _find_kept(self, key: Hashable) -> Any:
        kept = self._kept.get(key)
        if kept is None or self._now() >= kept.until:
            return None
        return kept.value

    def _find_old(self, key: Hashable, error: errors.AllSourcesFailed) -> Any:
        """What was known before, marked as stale. Headlines, filings and dates show by themselves how old they are."""
        kept = self._kept.get(key)
        if kept is None or self._now() - kept.since >= _OLDEST:
            return None
        if not isinstance(kept.value, Quote | port.BarSeries | port.ExchangeRate):
            return kept.value
        return replace(kept.value, stale=True, failed=errors.name_failures(error.causes))


def _look_at_error(flight: "asyncio.Task[Any]") -> None:
    """Retrieve the error of a task that nobody waits for any more, so that it is not logged."""
    if not flight.cancelled():
        flight.exception()


def _fresh_for(quote: Quote, now: datetime) -> timedelta:
    """How long a quote is given again without asking: seconds in the session, minutes outside, never over a bell."""
    kind = quote.instrument.kind
    opening = quote.opening
    if kind == "coin":
        return _COIN
    if quote.fixing is not None:
        return _FIXING
    if kind == "rate":
        return _RATE
    fresh = _CLOSED
    if opening.is_open:
        fresh = _OPEN
    elif quote.extended is not None or now - quote.as_of < timedelta(hours=1):
        fresh = _SETTLING  # just after the close, and while there is an after-market, the source still has news
    if opening.changes_at is not None and opening.changes_at > now:
        return min(fresh, opening.changes_at - now)
    return fresh


def _not_found(symbol: str) -> errors.DataNotFound:
    return errors.DataNotFound(f"There is no instrument {symbol!r} in our records. Ask for another one.")
