"""The tools that tell when markets are open: now and next, and the days on which they rest."""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from finclaw.errors import ToolError
from finclaw.finance.instrument import key_of, stems_of
from finclaw.finance.market import Market
from finclaw.finance.output import CALENDAR_SOURCE, minute, moment_fact, plain_fact, record, state
from finclaw.finance.resolve import resolve
from finclaw.finance.venue import KRX, NYSE, VENUES, Venue
from finclaw.kernel.calendar import Calendar, Holiday, Opening, Session, TradingPhase
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_HOURS = (
    "Is a market open now, why not, and when does it open or close next; with `on`: that day. In UTC; `zone` is the "
    "market's own. Late opens, early closes, pre- and after-market included; hours that nobody has published are "
    "`unknown`: say so. Without a market: Korea and the US."
)
_CALENDAR = (
    "The next holidays of a stock market, and days on which it opens late or closes early. With `holiday`: that one. "
    "Without a market: Korea and the US."
)

MarketName = Annotated[
    str | None,
    Meta(description="KRX, NYSE, NASDAQ, FX, CRYPTO, or an instrument that trades there."),
]


OneDay = Annotated[str, Meta(description="`tomorrow` or 2026-11-26", pattern=r"^(tomorrow|\d{4}-\d{2}-\d{2})$")]
HolidayName = Annotated[str, Meta(description="Its name.", min_length=1, max_length=40)]


class HoursArguments(Struct, frozen=True, forbid_unknown_fields=True):
    market: MarketName = None
    on: OneDay | None = None


class UnknownDay(ToolError):
    """A holiday that the market does not keep, or a day for which the calendar is not known."""


class CalendarArguments(Struct, frozen=True, forbid_unknown_fields=True):
    market: MarketName = None
    limit: Annotated[int, Meta(ge=1, le=12)] = 3
    holiday: HolidayName | None = None


def hours_tool(market: Market, calendar: Calendar) -> Tool:
    @tool("market__hours", _HOURS, group="finance")
    async def hours(args: HoursArguments, scope: ToolScope) -> ToolOutput:
        now, venues = market.now(), find_venues(market, args.market)
        if args.on is not None:
            days = [_session_on(calendar, venue, args.on, now) for venue in venues]
            return ToolOutput("\n\n".join(text for text, _ in days), tuple(fact for _, facts in days for fact in facts))
        states = [load_hours(calendar, venue, now) for venue in venues]
        return ToolOutput(
            "\n\n".join(map(_hours_record, states)), tuple(fact for each in states for fact in each.facts())
        )

    return hours


def calendar_tool(market: Market, calendar: Calendar) -> Tool:
    @tool("market__calendar", _CALENDAR, group="finance")
    async def days_of_rest(args: CalendarArguments, scope: ToolScope) -> ToolOutput:
        now = market.now()
        found = [_closures(calendar, venue, now, args) for venue in find_venues(market, args.market)]
        if args.holiday and not any(len(facts) > 1 for _, facts in found):
            raise UnknownDay("The calendar has no such holiday ahead. Say so.", suggestion=args.holiday)
        return ToolOutput("\n\n".join(text for text, _ in found), tuple(fact for _, facts in found for fact in facts))

    return days_of_rest


def find_venues(market: Market, wanted: str | None) -> tuple[Venue, ...]:
    """By its code or a word for it, else by something that trades there. Raises ToolError for a name of neither."""
    if wanted is None or not key_of(wanted):
        return (KRX, NYSE)
    return (find_venue(wanted) or VENUES[resolve(market, wanted).exchange],)


def find_venue(word: str) -> Venue | None:
    """The market that a word itself means, such as `미국장`; None for a word of something that trades there."""
    for stem in stems_of(word):
        for venue in VENUES.values():
            if stem in map(key_of, (venue.code, venue.name_en, venue.name_ko, *venue.aliases)):
                return venue
    return None


def _place(venue: Venue) -> dict[str, object]:
    return {"market": venue.code, "name": venue.name_en, "name_ko": venue.name_ko, "zone": venue.zone}


class VenueHours(Struct, frozen=True, kw_only=True):
    """Whether a venue is open at a moment, until when, and what is traded outside of its session."""

    venue: Venue
    opening: Opening
    phase: TradingPhase
    as_of: datetime

    @property
    def has_phase(self) -> bool:
        return self.phase.name in ("pre", "after", "unknown")

    def facts(self) -> Iterator[Fact]:
        code, at, now_is = self.venue.code, self.as_of, self.opening
        yield Fact(subject=code, field="is_open", value=Decimal(now_is.is_open), as_of=at, source=CALENDAR_SOURCE)
        if now_is.changes_at is not None:
            field = "closes_at" if now_is.is_open else "opens_at"
            yield _moment(code, field, now_is.changes_at, at)
            if not now_is.is_open and self.venue.holidays:
                yield _moment(code, "then_closes_at", now_is.session.closes, at)
        if self.has_phase:
            yield from _phase_facts(self.phase, code, at)


def load_hours(calendar: Calendar, venue: Venue, now: datetime) -> VenueHours:
    opening, phase = calendar.opening(venue.code, now), calendar.phase_at(venue.code, now)
    return VenueHours(venue=venue, opening=opening, phase=phase, as_of=now)


def _hours_record(hours: VenueHours) -> str:
    now_is = hours.opening
    change = minute(now_is.changes_at) if now_is.changes_at else None
    return record(
        {
            **_place(hours.venue),
            "state": state(now_is),
            "reason": now_is.reason,
            "holiday": now_is.holiday.name if now_is.holiday else None,
            "holiday_ko": now_is.holiday.name_ko if now_is.holiday else None,
            "closes_at" if now_is.is_open else "opens_at": change or "never",
            "phase": _phase_words(hours.phase) if hours.has_phase else None,
            "as_of": minute(hours.as_of),
            "source": CALENDAR_SOURCE,
        }
    )


def _phase_words(phase: TradingPhase) -> str:
    words = f"{phase.venue} {phase.name} {minute(phase.begins)} to {minute(phase.ends)}"
    return f"{words} ({phase.note})" if phase.note else words


def _phase_facts(phase: TradingPhase, code: str, now: datetime) -> Iterator[Fact]:
    name = f"{phase.venue} {phase.name}"
    yield _moment(code, f"{name} begins", phase.begins, now)
    yield _moment(code, f"{name} ends", phase.ends, now)


def _session_on(calendar: Calendar, venue: Venue, wanted: str, now: datetime) -> tuple[str, tuple[Fact, ...]]:
    tomorrow = now.astimezone(venue.tz).date() + timedelta(days=1)
    try:
        day = tomorrow if wanted == "tomorrow" else date.fromisoformat(wanted)
    except ValueError:
        day = date.min
    first, last = calendar.known_days(venue.code)
    if not first <= day <= last:
        raise UnknownDay(f"The calendar of {venue.code} does not know {wanted}. Say so.", suggestion=wanted)
    session, rest = calendar.session_on(venue.code, day), calendar.rest_on(venue.code, day)
    lines = {
        **_place(venue),
        "on": day,
        "state": "open" if session else "closed",
        "reason": rest.name if isinstance(rest, Holiday) else rest,
        "reason_ko": rest.name_ko if isinstance(rest, Holiday) else "주말" if rest else None,
        "other_hours": "yes" if session and not session.is_regular else None,
        "source": CALENDAR_SOURCE,
    }
    facts = [_moment(venue.code, "day", _noon(venue, day), now)]
    if session:
        facts.append(_moment(venue.code, "opens_at", session.opens, now))
        facts.append(_moment(venue.code, "closes_at", session.closes, now))
    others = [
        phase for phase in calendar.phases_on(venue.code, day) if (phase.venue, phase.name) != (venue.code, "regular")
    ]
    for phase in others:
        facts += _phase_facts(phase, venue.code, now)
    return record({**lines, "phases": "; ".join(map(_phase_words, others)) or None}), tuple(facts)


def _closures(calendar: Calendar, venue: Venue, now: datetime, args: CalendarArguments) -> tuple[str, tuple[Fact, ...]]:
    today = now.astimezone(venue.tz).date()
    _, last = calendar.known_days(venue.code)
    ahead = calendar.holidays(venue.code, today + timedelta(days=1), last)
    days = [each for each in ahead if _is_called(each, args.holiday)][: args.limit]
    records = [record({**_place(venue), "known_until": last if venue.holidays else None, "source": CALENDAR_SOURCE})]
    facts = [plain_fact(venue.code, "holidays_ahead", Decimal(len(days)), "days", now, CALENDAR_SOURCE)]
    for rest in days:
        field = f"closed {rest.day.isoformat()}"
        names = {"holiday": rest.name, "holiday_ko": rest.name_ko}
        records.append(record({"closed": rest.day, "market": venue.code, **names}))
        facts.append(_moment(venue.code, field, _noon(venue, rest.day), now))
    if args.holiday is None and days:
        for session in _other_hours(calendar, venue, today, days[-1].day):
            records.append(record({"other_hours": session.day, "market": venue.code}))
            facts.append(_moment(venue.code, f"opens {session.day}", session.opens, now))
            facts.append(_moment(venue.code, f"closes {session.day}", session.closes, now))
    return "\n\n".join(records), tuple(facts)


def _other_hours(calendar: Calendar, venue: Venue, today: date, last: date) -> Iterator[Session]:
    for number in range((last - today).days + 1):
        session = calendar.session_on(venue.code, today + timedelta(days=number))
        if session and not session.is_regular:
            yield session


def _is_called(holiday: Holiday, wanted: str | None) -> bool:
    """Whether a holiday goes by that name: `Thanksgiving` for Thanksgiving Day, 추석 for 추석 연휴."""
    return wanted is None or any(key_of(each).startswith(key_of(wanted)) for each in (holiday.name, holiday.name_ko))


def _moment(code: str, field: str, moment: datetime, now: datetime) -> Fact:
    return moment_fact(code, field, moment, now, CALENDAR_SOURCE)


def _noon(venue: Venue, day: date) -> datetime:
    """A day as a moment: its noon there, which is the same day in every zone that trades with it but the outermost."""
    return datetime.combine(day, time(12), venue.tz)
