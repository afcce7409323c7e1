"""Probes of live sources: each is asked its canaries, and the answers are judged in words that say what to do.

A canary is a question whose answer is known well enough to see that one is wrong. A source that has changed its unit,
its shape or what a code means answers all the same. The ranges below are wide and dated: what is outside of one is
another unit or another instrument, unless the market has truly gone there since.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.plausible import check_reading, check_series
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.source import DataSource, SourceClient
from finclaw.finance.market_data.source_access import SourceAccess
from finclaw.finance.market_data.source_info import SOURCES

CanaryKind = Literal["quote", "bars", "fixing", "news", "filings", "earnings"]

KNOWN_ON: Final = date(2026, 11, 16)  # the day on which the ranges were last looked at


class Canary(Struct, frozen=True, kw_only=True):
    """A question to one source. A figure is to be in its range, a document to be no older than `max_age`."""

    source: str
    kind: CanaryKind
    symbol: str = ""  # of our own records; empty for what is about no single instrument
    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)
    above: str = ""
    """A symbol of the same source whose figure is to be lower: which of two indices is which shows no other way."""
    max_age: timedelta = timedelta(0)
    may_be_empty: bool = False
    """Whether nothing at all is an answer: a list of today's filings on a quiet day."""

    @property
    def question(self) -> str:
        return {
            "quote": f"price of {self.symbol}",
            "bars": f"last close of {self.symbol}",
            "fixing": f"fixing of {self.symbol}",
            "news": f"headlines about {self.symbol}" if self.symbol else "headlines of the market",
            "filings": f"filings of {self.symbol}",
            "earnings": "earnings dates of the next sessions",
        }[self.kind]


def _figure(
    source: str, symbol: str, low: str, high: str, *, kind: CanaryKind = "quote", above: str = "", days: int = 12
) -> Canary:
    """`days`: how old a close or a fixing may be. No market rests for longer than twelve."""
    figure = _documents(source, kind, symbol, days)
    return replace(figure, low=Decimal(low), high=Decimal(high), above=above)


def _documents(source: str, kind: CanaryKind, symbol: str, days: int, *, may_be_empty: bool = False) -> Canary:
    return Canary(source=source, kind=kind, symbol=symbol, max_age=timedelta(days=days), may_be_empty=may_be_empty)


_SAMSUNG: Final = ("005930", "10000", "1000000")
_APPLE: Final = ("AAPL", "30", "3000")
_BITCOIN: Final = ("BTC-USD", "10000", "1000000")
_BITCOIN_IN_WON: Final = ("BTC-KRW", "10000000", "1500000000")

_ALL: Final = (
    _figure("naver", *_SAMSUNG),
    _figure("naver", "KOSDAQ", "300", "5000"),
    _figure("naver", "KOSPI", "500", "20000", above="KOSDAQ"),
    _figure("naver", *_APPLE),
    _figure("naver", "USD/KRW", "900", "2500"),
    _figure("naver", "JPY/KRW", "5", "20"),
    _figure("yahoo", *_APPLE),
    _figure("yahoo", *_SAMSUNG),
    _figure("yahoo", "SPX", "2000", "30000"),
    _figure("yahoo", "USD/KRW", "900", "2500"),
    _figure("upbit", *_BITCOIN_IN_WON),
    _figure("bithumb", *_BITCOIN_IN_WON),
    _figure("coinbase", *_BITCOIN),
    _figure("kraken", *_BITCOIN),
    _figure("frankfurter", "USD/KRW", "900", "2500", kind="fixing", days=8),
    _figure("ecb", "EUR/USD", "0.8", "1.6", kind="fixing", days=8),
    _documents("edgar", "filings", "AAPL", 120),
    _documents("dart", "filings", "005930", 5, may_be_empty=True),
    _documents("opendart", "filings", "005930", 95),
    Canary(source="nasdaq", kind="earnings"),
    _documents("google_news", "news", "AAPL", 14),
    _documents("central_banks", "news", "", 60),
    # Brokers and Alpaca have prices only while their market trades: they are asked for the last close.
    _figure("kis", *_SAMSUNG, kind="bars"),
    _figure("toss", *_SAMSUNG, kind="bars"),
    _figure("finnhub", *_APPLE),
    _figure("alpaca", *_APPLE, kind="bars"),
)

CANARIES: Final[Mapping[str, tuple[Canary, ...]]] = {
    source: tuple(group) for source, group in groupby(_ALL, key=lambda each: each.source)
}
"""By the source's name in the settings, in the order in which they are asked."""

Verdict = Literal["right", "wrong", "down", "limited", "refused", "not asked"]

_SECONDS: Final = 20.0
_AHEAD: Final = timedelta(days=6)


class ProbeResult(Struct, frozen=True, kw_only=True):
    source: str
    question: str
    verdict: Verdict
    figures: str = ""
    advice: str = ""
    milliseconds: int = 0


class LiveProbe:
    def __init__(self, access: SourceAccess, find: Callable[[str], Instrument | None]) -> None:
        self._access = access
        self._find = find

    async def ask_all(self, ids: Sequence[str]) -> tuple[ProbeResult, ...]:
        found = await asyncio.gather(*(self.ask(each) for each in ids))
        return tuple(result for each in found for result in each)

    async def ask(self, source: str) -> tuple[ProbeResult, ...]:
        """One result a canary. Behind a source that does not answer the rest is not tried."""
        if reason := self._why_not_asked(source):
            return (ProbeResult(source=source, question="", verdict="not asked", figures=reason),)
        results: list[ProbeResult] = []
        figures: dict[str, Decimal] = {}
        try:
            async with asyncio.timeout(_SECONDS):
                for canary in CANARIES[source]:
                    results.append(await self._ask(canary, figures))
                    if results[-1].verdict in ("down", "limited", "refused"):
                        break
        except TimeoutError:
            error = errors.DataTransport(f"{SOURCES[source].name} took longer than {_SECONDS:g} s", source=source)
            results.append(_judge_error(source, "all of it", error, int(_SECONDS * 1_000)))
        return tuple(results)

    def _why_not_asked(self, source: str) -> str:
        settings = self._access.settings
        if source in settings.disabled:
            return "switched off in market_data.disabled"
        if not settings.has_keys(source):
            names = " and ".join(SOURCES[source].keys)
            return f"no key: set {names} in market_data.keys to use it"
        if source == "edgar" and not settings.contact:
            return "no contact: set market_data.contact to an address of mail to use it"
        if source not in settings.used():
            return "in no chain of the settings"
        return ""

    async def _ask(self, canary: Canary, figures: dict[str, Decimal]) -> ProbeResult:
        clock = self._access.clock
        source = self._access.sources[canary.source]
        began = clock.monotonic()
        try:
            answer = await self._access.ask(
                source, "people", lambda client: self._answer(client, source, canary, figures)
            )
        except errors.DataError as error:
            if not canary.may_be_empty or not isinstance(error, errors.DataEmpty):
                took = int((clock.monotonic() - began) * 1_000)
                return _judge_error(canary.source, canary.question, error, took)
            answer = "it can be read, and has none today"
        took = int((clock.monotonic() - began) * 1_000)
        return ProbeResult(
            source=canary.source, question=canary.question, verdict="right", figures=answer, milliseconds=took
        )

    async def _answer(
        self, client: SourceClient, source: DataSource, canary: Canary, figures: dict[str, Decimal]
    ) -> str:
        today = client.now().date()
        match canary.kind:
            case "quote":
                return await self._answer_price(client, source, canary, figures)
            case "bars":
                instrument = self._must_find(canary.symbol)
                last = next(client.calendar.sessions_before(instrument.exchange, client.now())).day
                span = BarRange(first=last - canary.max_age, last=last)
                series = await source.read_series(client, instrument, span)
                bar = check_series(series, span, None, client.now()).bars[-1]
                _check_range(canary, bar.close)
                return f"{bar.close:,} {instrument.currency} on {bar.day}"
            case "fixing":
                rate = await source.read_fixing(client, canary.symbol[:3], canary.symbol[4:])
                _check_range(canary, rate.rate)
                _check_age(canary, rate.day, today)
                return f"{rate.rate} on {rate.day}"
            case "earnings":
                dates = await source.read_earnings(client, today, today + _AHEAD)
                if not dates:
                    raise errors.DataMalformed("has no earnings in a week, which never happens")
                return f"{len(dates)} companies until {today + _AHEAD}"
            case "news":
                about = self._must_find(canary.symbol) if canary.symbol else None
                days = [each.published_at.date() for each in await source.read_news(client, about, 10)]
            case "filings":
                filings = await source.read_filings(client, self._must_find(canary.symbol), 10)
                days = [each.filed_on for each in filings]
        if not days:
            raise errors.DataEmpty(f"has no {canary.question}")
        _check_age(canary, max(days), today)
        return f"newest of {max(days)}"

    async def _answer_price(
        self, client: SourceClient, source: DataSource, canary: Canary, figures: dict[str, Decimal]
    ) -> str:
        instrument = self._must_find(canary.symbol)
        unknown = errors.DataUnsupported(f"said nothing of {canary.symbol}")
        answer = (await source.read_quotes(client, [instrument])).get(canary.symbol, unknown)
        if isinstance(answer, errors.DataError):
            raise answer
        check_reading(answer, self._access.calendar, client.now())
        _check_range(canary, answer.price)
        figures[canary.symbol] = answer.price
        lower = figures.get(canary.above)
        if lower is not None and answer.price <= lower:
            raise errors.DataImplausible(
                f"has {canary.symbol} at {answer.price}, not above {canary.above} at {lower}: the two are mixed up"
            )
        unit = "points" if instrument.kind == "index" else instrument.currency
        return f"{answer.price:,} {unit} as of {answer.as_of:%Y-%m-%d %H:%M} UTC"

    def _must_find(self, symbol: str) -> Instrument:
        found = self._find(symbol)
        if found is None:
            raise errors.DataNotFound(f"our own records lack {symbol}: run `finclaw instruments refresh`")
        return found


def _check_range(canary: Canary, figure: Decimal) -> None:
    if not canary.low <= figure <= canary.high:
        raise errors.DataImplausible(
            f"has the {canary.question} at {figure:,}, which was between {canary.low:,} and {canary.high:,} "
            f"on {KNOWN_ON}"
        )


def _check_age(canary: Canary, newest: date, today: date) -> None:
    if newest > today + timedelta(days=1):
        raise errors.DataImplausible(f"'s {canary.question} are of {newest}, which is ahead")
    if newest < today - canary.max_age:
        raise errors.DataStale(
            f"'s newest of the {canary.question} is of {newest}, more than {canary.max_age.days} days ago"
        )


def _judge_error(source: str, question: str, error: errors.DataError, took: int) -> ProbeResult:
    verdict: Verdict = "wrong"
    switch_off = f"switch it off: market_data.disabled: [{source}]"
    advice = f"its answers have changed, and it is not believed; update FinClaw, or {switch_off}"
    if isinstance(error, errors.DataTransport):
        verdict = "down"
        advice = "look at your network and its status page; the next source of each chain is asked"
    elif isinstance(error, errors.DataRateLimited):
        verdict = "limited"
        until = f" (again at {error.retry_at:%H:%M} UTC)" if error.retry_at else ""
        advice = f"wait{until}; the next source of each chain is asked"
    elif isinstance(error, errors.DataAuthExpired):
        verdict = "refused"
        advice = f"check its key or contact in market_data, or {switch_off}"
    return ProbeResult(
        source=source, question=question, verdict=verdict, figures=str(error), advice=advice, milliseconds=took
    )
