"""Tools for headlines, filings, earnings dates and profiles. Titles are untrusted text: results that hold them taint
the turn."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE, Market
from finclaw.finance.market_data.errors import DataUnsupported
from finclaw.finance.market_data.port import EarningsDate, Filing, MarketData, NewsItem
from finclaw.finance.output import identity, minute, moment_fact, noon, plain_fact, record
from finclaw.finance.quote import SymbolName
from finclaw.finance.resolve import resolve
from finclaw.finance.venue import NYSE, VENUES
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

MOST_HEADLINES: Final = 10
_MOST_DAYS: Final = 14
_MOST_COMPANIES: Final = 40

_NEWS = (
    "The newest headlines about one instrument, or without a symbol those of central banks, with publisher, time and "
    "link. Only headlines are known: say nothing of what an article says, and give the link."
)
_FILINGS = (
    "The newest filings of one company with SEC or DART: form, title, day and link. The documents are not read; give "
    "the link."
)
_EARNINGS = (
    "Days from today on on which one company, or all, are expected to report earnings. They are not confirmed unless "
    "the result says so; say it."
)
_PROFILE = (
    "What one company does and, where its authority publishes them, the figures of its last year with their period."
)


class NewsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_HEADLINES)] = 5


class FilingsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName
    limit: Annotated[int, Meta(ge=1, le=20)] = 5


class EarningsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName | None = None
    days: Annotated[int, Meta(ge=1, le=_MOST_DAYS)] = 7


class ProfileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName


class Documents:
    name = "documents"

    def __init__(self, market: Callable[[], Market], data: Callable[[], MarketData]) -> None:
        self._market = market
        self._data = data

    def register(self, api: ExtensionApi) -> None:
        for each in document_tools(self._market(), self._data):
            api.tools.register(each)


def document_tools(market: Market, data: Callable[[], MarketData]) -> tuple[Tool, ...]:
    @tool("market__news", _NEWS, group="finance")
    async def news(args: NewsArguments, scope: ToolScope) -> ToolOutput:
        instrument: Instrument | None = None
        if args.symbol is not None:
            instrument = resolve(market, args.symbol)
        items = await data().news(instrument and instrument.symbol, args.limit)
        return describe_news(instrument, items, market.now())

    @tool("market__filings", _FILINGS, group="finance")
    async def filings(args: FilingsArguments, scope: ToolScope) -> ToolOutput:
        instrument = resolve(market, args.symbol)
        return _describe_filings(instrument, await data().filings(instrument.symbol, args.limit), market.now())

    @tool("market__earnings", _EARNINGS, group="finance")
    async def earnings(args: EarningsArguments, scope: ToolScope) -> ToolOutput:
        instrument: Instrument | None = None
        venue = NYSE
        if args.symbol is not None:
            instrument = resolve(market, args.symbol)
            venue = VENUES[instrument.exchange]
        first = market.now().astimezone(venue.tz).date()
        last = first + timedelta(days=args.days - 1)
        found = await data().earnings(first, last)
        return _describe_earnings(instrument, found, (first, last), market.now())

    @tool("market__profile", _PROFILE, group="finance")
    async def profile(args: ProfileArguments, scope: ToolScope) -> ToolOutput:
        instrument = resolve(market, args.symbol)
        found = await data().profile(instrument.symbol)
        lines = {**identity(instrument), **found.fields, "as_of": minute(found.as_of), "source": found.source}
        return ToolOutput(record(lines), found.facts, origin=_origin("profile", [found.source]))

    return (news, filings, earnings, profile)


def news_facts(instrument: Instrument | None, items: Sequence[NewsItem]) -> tuple[Fact, ...]:
    """The time of each headline: a day that nobody has looked up must not be told either."""
    subject = "news"
    if instrument is not None:
        subject = instrument.symbol
    return tuple(
        moment_fact(subject, f"headline {place} published", each.published_at, each.published_at, each.source)
        for place, each in enumerate(items, start=1)
    )


def describe_news(instrument: Instrument | None, items: Sequence[NewsItem], now: datetime) -> ToolOutput:
    about: dict[str, object] = {"about": "the whole market"}
    if instrument is not None:
        about = identity(instrument)
    records = [record({**about, "headlines": len(items), "asked_at": minute(now)})]
    records += [
        record(
            {
                "title": each.title,
                "publisher": each.publisher,
                "published_at": minute(each.published_at),
                "url": each.url,
                "source": each.source,
            }
        )
        for each in items
    ]
    origin = _origin("headlines", (each.source for each in items))
    return ToolOutput("\n\n".join(records), news_facts(instrument, items), origin=origin)


def _describe_filings(instrument: Instrument, filings: Sequence[Filing], now: datetime) -> ToolOutput:
    records = [record({**identity(instrument), "filings": len(filings), "asked_at": minute(now)})]
    facts: list[Fact] = []
    for place, each in enumerate(filings, start=1):
        lines = {"form": each.form, "title": each.title, "filed_on": each.filed_on, "url": each.url}
        records.append(record({**lines, "source": each.source}))
        filed = noon(VENUES[instrument.exchange], each.filed_on)
        facts.append(moment_fact(instrument.symbol, f"filing {place} filed", filed, now, each.source))
    origin = _origin("filings", (each.source for each in filings))
    return ToolOutput("\n\n".join(records), tuple(facts), origin=origin)


def _describe_earnings(
    instrument: Instrument | None, found: Sequence[EarningsDate], days: tuple[date, date], now: datetime
) -> ToolOutput:
    sources = {each.source for each in found}
    about: dict[str, object] = {}
    if instrument is not None:
        about = identity(instrument)
        is_known = instrument.exchange in ("NYSE", "NASDAQ") or sources == {DEMO_SOURCE}
        if not is_known:
            raise DataUnsupported(
                f"No source that is switched on has earnings dates of {instrument.exchange} companies. Say so."
            )
        found = [each for each in found if each.symbol == instrument.symbol]
    shown = found[:_MOST_COMPANIES]
    span = {"from": days[0], "to": days[1], "companies": len(found), "shown": len(shown), "asked_at": minute(now)}
    if not found:
        span["note"] = "none is expected in that time as far as the source knows; a later one may be"
    records = [record({**about, **span, "source": ", ".join(sorted(sources))})]
    facts: list[Fact] = []
    for each in shown:
        lines = {
            "company": f"{each.name} [{each.symbol}]",
            "day": each.day,
            "moment": each.moment,
            "confirmed": "no, expected" if each.is_expected else "yes",
            "eps_estimate": each.estimate,
        }
        records.append(record(lines))
        facts.append(moment_fact(each.symbol, "earnings_day", noon(NYSE, each.day), now, each.source))
        if each.estimate is not None:
            estimate = plain_fact(each.symbol, "eps_estimate", each.estimate, "", now, each.source)
            facts.append(replace(estimate, currency="USD"))
    return ToolOutput("\n\n".join(records), tuple(facts), origin=_origin("company names", sources))


def _origin(what: str, sources: Iterable[str]) -> str:
    others = [each for each in dict.fromkeys(sources) if each != DEMO_SOURCE]
    if not others:
        return ""
    return f"{what} of {', '.join(others)}"
