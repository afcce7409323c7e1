"""Probes of live sources: each is asked its canaries, and the answer is judged in words that say what to do."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Final, Literal

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.live.canaries import CANARIES, KNOWN_ON, Canary
from finclaw.finance.market_data.bars import check_series
from finclaw.finance.market_data.errors import (
    DataAuthExpired,
    DataEmpty,
    DataError,
    DataImplausible,
    DataMalformed,
    DataNotFound,
    DataRateLimited,
    DataStale,
    DataTransport,
    DataUnsupported,
)
from finclaw.finance.market_data.plausible import check_reading
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.finance.market_data.source import DataSource, SourceClient
from finclaw.finance.market_data.source_access import SourceAccess
from finclaw.finance.market_data.source_info import SOURCES

Verdict = Literal["right", "wrong", "down", "limited", "refused", "not asked"]

_SECONDS: Final = 20.0
"""For all canaries of one source."""
_AHEAD: Final = timedelta(days=6)


class ProbeResult(Struct, frozen=True, kw_only=True):
    """An answer to one canary, and what is to be thought of it."""

    source: str
    """Its name in the settings."""
    question: str
    verdict: Verdict
    figures: str = ""
    """What it answered, or why there is no answer."""
    advice: str = ""
    milliseconds: int = 0


class LiveProbe:
    """Asks sources their canaries, all sources at once and each one its own in turn."""

    def __init__(
        self,
        access: SourceAccess,
        sources: Mapping[str, DataSource],
        settings: MarketDataSettings,
        find: Callable[[str], Instrument | None],
    ) -> None:
        """`find` gives the instrument of an exact symbol of our records."""
        self._access = access
        self._sources = sources
        self._settings = settings
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
            error = DataTransport(f"{SOURCES[source].name} took longer than {_SECONDS:g} s", source=source)
            results.append(_judge_error(source, "all of it", error, int(_SECONDS * 1_000)))
        return tuple(results)

    def _why_not_asked(self, source: str) -> str:
        if source in self._settings.disabled:
            return "switched off in market_data.disabled"
        if not self._settings.has_keys(source):
            names = " and ".join(SOURCES[source].keys)
            return f"no key: set {names} in market_data.keys to use it"
        if source == "edgar" and not self._settings.contact:
            return "no contact: set market_data.contact to an address of mail to use it"
        return "" if source in self._settings.used() else "in no chain of the settings"

    async def _ask(self, canary: Canary, figures: dict[str, Decimal]) -> ProbeResult:
        clock, source = self._access.clock, self._sources[canary.source]
        began, failure, told = clock.monotonic(), None, ""

        async def answer(client: SourceClient) -> str:
            return await self._answer(client, source, canary, figures)

        try:
            told = await self._access.ask(source, "people", answer)
        except DataError as error:
            failure, told = error, "it can be read, and has none today"
        took = int((clock.monotonic() - began) * 1_000)
        if failure is not None and not (canary.may_be_empty and isinstance(failure, DataEmpty)):
            return _judge_error(canary.source, canary.question, failure, took)
        return ProbeResult(
            source=canary.source, question=canary.question, verdict="right", figures=told, milliseconds=took
        )

    async def _answer(
        self, client: SourceClient, source: DataSource, canary: Canary, figures: dict[str, Decimal]
    ) -> str:
        """The answer in a few words. Raises DataError for none, and for one that cannot be right."""
        if canary.kind == "quote":
            return await self._answer_price(client, source, canary, figures)
        if canary.kind == "bars":
            instrument = self._must_find(canary.symbol)
            last = next(client.calendar.sessions_before(instrument.exchange, client.now())).day
            span = BarRange(first=last - canary.max_age, last=last)
            series = await source.read_bars(client, instrument, span)
            bars = check_series(series, span, None, client.now()).bars
            _check_range(canary, bars[-1].close, client.name)
            return f"{bars[-1].close:,} {series.instrument.currency} on {bars[-1].day}"
        if canary.kind == "fixing":
            rate = await source.read_fixing(client, canary.symbol[:3], canary.symbol[4:])
            _check_range(canary, rate.rate, client.name)
            _check_age(canary, rate.day, client, timedelta(days=8))
            return f"{rate.rate} on {rate.day}"
        if canary.kind == "news":
            about = self._must_find(canary.symbol) if canary.symbol else None
            news = await source.read_news(client, about, 10)
            newest = max((each.published_at.date() for each in news), default=None)
        elif canary.kind == "filings":
            filings = await source.read_filings(client, self._must_find(canary.symbol), 10)
            newest = max((each.filed_on for each in filings), default=None)
        else:
            today = client.now().date()
            dates = await source.read_earnings(client, today, today + _AHEAD)
            if not dates:
                raise DataMalformed(f"{client.name} has no earnings in a week, which never happens", source=client.name)
            return f"{len(dates)} companies until {today + _AHEAD}"
        if newest is None:
            raise DataEmpty(f"{client.name} has no {canary.question}", source=client.name)
        _check_age(canary, newest, client, canary.max_age)
        return f"newest of {newest}"

    async def _answer_price(
        self, client: SourceClient, source: DataSource, canary: Canary, figures: dict[str, Decimal]
    ) -> str:
        instrument = self._must_find(canary.symbol)
        answer = (await source.read_quotes(client, [instrument])).get(canary.symbol)
        if answer is None:
            raise DataUnsupported(f"{client.name} said nothing of {canary.symbol}", source=client.name)
        if isinstance(answer, DataError):
            raise answer
        check_reading(answer, self._access.calendar, client.now())
        _check_range(canary, answer.price, client.name)
        figures[canary.symbol] = answer.price
        lower = figures.get(canary.above)
        if lower is not None and answer.price <= lower:
            raise DataImplausible(
                f"{client.name} has {canary.symbol} at {answer.price}, not above {canary.above} at {lower}: "
                "the two are mixed up",
                source=client.name,
            )
        unit = "points" if instrument.kind == "index" else instrument.currency
        return f"{answer.price:,} {unit} as of {answer.as_of:%Y-%m-%d %H:%M} UTC"

    def _must_find(self, symbol: str) -> Instrument:
        found = self._find(symbol)
        if found is None:
            raise DataNotFound(f"our own records lack {symbol}: run `finclaw instruments refresh`")
        return found


def _check_range(canary: Canary, figure: Decimal, source: str) -> None:
    if not canary.low <= figure <= canary.high:
        raise DataImplausible(
            f"{source} has the {canary.question} at {figure:,}, which was between {canary.low:,} and {canary.high:,} "
            f"on {KNOWN_ON}",
            source=source,
        )


def _check_age(canary: Canary, newest: date, client: SourceClient, most: timedelta) -> None:
    today = client.now().date()
    if newest > today + timedelta(days=1):
        raise DataImplausible(f"{client.name}'s {canary.question} are of {newest}, which is ahead", source=client.name)
    if newest < today - most:
        raise DataStale(
            f"{client.name}'s newest of the {canary.question} is of {newest}, more than {most.days} days ago",
            source=client.name,
        )


def _judge_error(source: str, question: str, error: DataError, took: int) -> ProbeResult:
    verdict: Verdict = "wrong"
    advice = (
        "its answers have changed, and it is not believed; update FinClaw, or switch it off: "
        f"market_data.disabled: [{source}]"
    )
    if isinstance(error, DataTransport):
        verdict, advice = "down", "look at your network and its status page; the next source of each chain is asked"
    elif isinstance(error, DataRateLimited):
        until = f" (again at {error.retry_at:%H:%M} UTC)" if error.retry_at else ""
        verdict, advice = "limited", f"wait{until}; the next source of each chain is asked"
    elif isinstance(error, DataAuthExpired):
        verdict = "refused"
        advice = f"check its key or contact in market_data, or switch it off: market_data.disabled: [{source}]"
    return ProbeResult(
        source=source, question=question, verdict=verdict, figures=str(error), advice=advice, milliseconds=took
    )
