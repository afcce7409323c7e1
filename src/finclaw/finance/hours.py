"""The tools that tell when markets are open: now and next, and the days on which they rest."""

from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from finclaw.finance.holidays import HOLIDAYS, LAST_DAY, korean_name
from finclaw.finance.instrument import key_of, stems_of
from finclaw.finance.market import Market
from finclaw.finance.resolve import resolve
from finclaw.finance.telling import minute, moment_fact, record, state
from finclaw.finance.venue import KRX, NYSE, VENUES, Opening, Venue, opening
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_HOURS = (
    "Is a market open now, why not, and when does it open or close next? Times are UTC; `zone` is the market's own. "
    "Without a market: Korea and the US."
)
_CALENDAR = "The next days on which a stock market is closed for a holiday. Without a market: Korea and the US."

MarketName = Annotated[
    str | None,
    Meta(description="KRX, NYSE, NASDAQ, FX, CRYPTO, a word for one of them, or an instrument that trades there."),
]


class HoursArguments(Struct, frozen=True, forbid_unknown_fields=True):
    market: MarketName = None


class CalendarArguments(Struct, frozen=True, forbid_unknown_fields=True):
    market: MarketName = None
    limit: Annotated[int, Meta(ge=1, le=12)] = 3


def hours_tool(market: Market) -> Tool:
    @tool("market__hours", _HOURS, group="finance")
    async def hours(args: HoursArguments, scope: ToolScope) -> ToolOutput:
        now = market.now()
        states = [opening(venue, now) for venue in _venues(market, args.market)]
        text = "\n\n".join(_opening_record(each, now, market.source) for each in states)
        return ToolOutput(text, tuple(fact for each in states for fact in _opening_facts(each, now, market.source)))

    return hours


def calendar_tool(market: Market) -> Tool:
    @tool("market__calendar", _CALENDAR, group="finance")
    async def calendar(args: CalendarArguments, scope: ToolScope) -> ToolOutput:
        now = market.now()
        found = [_closures(venue, now, args.limit, market.source) for venue in _venues(market, args.market)]
        return ToolOutput("\n\n".join(text for text, _ in found), tuple(fact for _, facts in found for fact in facts))

    return calendar


def _venues(market: Market, wanted: str | None) -> tuple[Venue, ...]:
    """By its code or a word for it, else by something that trades there."""
    if wanted is None or not key_of(wanted):
        return (KRX, NYSE)
    for stem in stems_of(wanted):
        for venue in VENUES.values():
            if stem in map(key_of, (venue.code, venue.name_en, venue.name_ko, *venue.aliases)):
                return (venue,)
    return (VENUES[resolve(market, wanted).exchange],)


def _place(venue: Venue) -> dict[str, object]:
    return {"market": venue.code, "name": venue.name_en, "name_ko": venue.name_ko, "zone": venue.zone}


# ── open or closed ──────────────────────────────────────────────────────────────────────────────────────────


def _opening_record(now_is: Opening, now: datetime, source: str) -> str:
    change = minute(now_is.changes_at) if now_is.changes_at else None
    return record(
        {
            **_place(now_is.venue),
            "state": state(now_is),
            "reason": now_is.reason,
            "holiday": now_is.holiday or None,
            "holiday_ko": korean_name(now_is.holiday) if now_is.holiday else None,
            "closes_at" if now_is.is_open else "opens_at": change or "never",
            "as_of": minute(now),
            "source": source,
        }
    )


def _opening_facts(now_is: Opening, now: datetime, source: str) -> Iterator[Fact]:
    code = now_is.venue.code
    yield Fact(subject=code, field="is_open", value=Decimal(now_is.is_open), as_of=now, source=source)
    if now_is.changes_at is not None:
        field = "closes_at" if now_is.is_open else "opens_at"
        yield moment_fact(code, field, now_is.changes_at, now, source)
        if not now_is.is_open and now_is.venue.holidays:
            yield moment_fact(code, "then_closes_at", now_is.session.closes, now, source)


# ── days of rest ────────────────────────────────────────────────────────────────────────────────────────────


def _closures(venue: Venue, now: datetime, limit: int, source: str) -> tuple[str, tuple[Fact, ...]]:
    today = now.astimezone(venue.tz).date()
    days = sorted(day for day in HOLIDAYS.get(venue.holidays, {}) if day > today)[:limit]
    records = [record({**_place(venue), "known_until": LAST_DAY if venue.holidays else None, "source": source})]
    facts: list[Fact] = []
    for day in days:
        name = HOLIDAYS[venue.holidays][day]
        field = f"closed {day.isoformat()}"
        records.append(record({"closed": day, "market": venue.code, "holiday": name, "holiday_ko": korean_name(name)}))
        facts.append(moment_fact(venue.code, field, _noon(venue, day), now, source))
    return "\n\n".join(records), tuple(facts)


def _noon(venue: Venue, day: date) -> datetime:
    """A day as a moment: its noon there, which is the same day in every zone that trades with it but the outermost."""
    return datetime.combine(day, time(12), venue.tz)
