"""The tools that tell when markets are open: now and next, and the days on which they rest."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from finclaw.errors import ToolError
from finclaw.finance.instrument import key_of, stems_of
from finclaw.finance.market import Market
from finclaw.finance.output import CALENDAR_SOURCE, minute, moment_fact, noon, plain_fact, record, state
from finclaw.finance.resolve import resolve
from finclaw.finance.venue import KRX, NYSE, VENUES, Venue
from finclaw.kernel.calendar import Calendar, Holiday, Opening, TradingPhase
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

_NEXT_CHANGE = {True: "closes_at", False: "opens_at"}
"""The name of a market's next change, by whether it is open."""

MarketName = Annotated[
    str | None, Meta(description="KRX, NYSE, NASDAQ, FX, CRYPTO, or an instrument that trades there.")
]
OneDay = Annotated[str, Meta(description="`tomorrow` or 2026-11-26", pattern=r"^(tomorrow|\d{4}-\d{2}-\d{2})$")]


class HoursArguments(Struct, frozen=True, forbid_unknown_fields=True):
    market: MarketName = None
    on: OneDay | None = None


class UnknownDay(ToolError):
    """A holiday that the market does not keep, or a day for which the calendar is not known."""


class CalendarArguments(Struct, frozen=True, forbid_unknown_fields=True):
    market: MarketName = None
    limit: Annotated[int, Meta(ge=1, le=12)] = 3
    holiday: Annotated[str, Meta(description="Its name.", min_length=1, max_length=40)] | None = None


def hours_tool(market: Market, calendar: Calendar) -> Tool:
    @tool("market__hours", _HOURS, group="finance")
    async def hours(args: HoursArguments, scope: ToolScope) -> ToolOutput:
        now = market.now()
        venues = find_venues(market, args.market)
        if args.on is not None:
            return _join([_session_on(calendar, venue, args.on, now) for venue in venues])
        states = [load_hours(calendar, venue, now) for venue in venues]
        return _join([(_hours_record(each), each.facts()) for each in states])

    return hours


def calendar_tool(market: Market, calendar: Calendar) -> Tool:
    @tool("market__calendar", _CALENDAR, group="finance")
    async def days_of_rest(args: CalendarArguments, scope: ToolScope) -> ToolOutput:
        now = market.now()
        found = [_closures(calendar, venue, now, args) for venue in find_venues(market, args.market)]
        if args.holiday and all(len(facts) == 1 for _, facts in found):
            raise UnknownDay("The calendar has no such holiday ahead. Say so.", suggestion=args.holiday)
        return _join(found)

    return days_of_rest


def _join(answers: Sequence[tuple[str, Iterable[Fact]]]) -> ToolOutput:
    texts = [text for text, _ in answers]
    return ToolOutput("\n\n".join(texts), tuple(fact for _, facts in answers for fact in facts))


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
    venue: Venue
    opening: Opening
    phase: TradingPhase
    as_of: datetime

    @property
    def has_phase(self) -> bool:
        return self.phase.name in ("pre", "after", "unknown")

    def facts(self) -> Iterator[Fact]:
        code = self.venue.code
        at = self.as_of
        opening = self.opening
        yield plain_fact(code, "is_open", Decimal(opening.is_open), "", at, CALENDAR_SOURCE)
        if opening.changes_at is not None:
            yield _moment(code, _NEXT_CHANGE[opening.is_open], opening.changes_at, at)
            if not opening.is_open and self.venue.holidays:
                yield _moment(code, "then_closes_at", opening.session.closes, at)
        if self.has_phase:
            yield from _phase_facts(self.phase, code, at)


def load_hours(calendar: Calendar, venue: Venue, now: datetime) -> VenueHours:
    return VenueHours(
        venue=venue, opening=calendar.opening(venue.code, now), phase=calendar.phase_at(venue.code, now), as_of=now
    )


def _hours_record(hours: VenueHours) -> str:
    opening = hours.opening
    lines: dict[str, object] = {**_place(hours.venue), "state": state(opening), "reason": opening.reason}
    if opening.holiday is not None:
        lines |= {"holiday": opening.holiday.name, "holiday_ko": opening.holiday.name_ko}
    lines[_NEXT_CHANGE[opening.is_open]] = minute(opening.changes_at) if opening.changes_at else "never"
    if hours.has_phase:
        lines["phase"] = _describe_phase(hours.phase)
    return record({**lines, "as_of": minute(hours.as_of), "source": CALENDAR_SOURCE})


def _describe_phase(phase: TradingPhase) -> str:
    text = f"{phase.venue} {phase.name} {minute(phase.begins)} to {minute(phase.ends)}"
    if phase.note:
        return f"{text} ({phase.note})"
    return text


def _phase_facts(phase: TradingPhase, code: str, now: datetime) -> Iterator[Fact]:
    name = f"{phase.venue} {phase.name}"
    yield _moment(code, f"{name} begins", phase.begins, now)
    yield _moment(code, f"{name} ends", phase.ends, now)


def _session_on(calendar: Calendar, venue: Venue, wanted: str, now: datetime) -> tuple[str, list[Fact]]:
    day: date | None = None
    if wanted == "tomorrow":
        day = now.astimezone(venue.tz).date() + timedelta(days=1)
    else:
        with suppress(ValueError):
            day = date.fromisoformat(wanted)
    first, last = calendar.known_days(venue.code)
    if day is None or not first <= day <= last:
        raise UnknownDay(f"The calendar of {venue.code} does not know {wanted}. Say so.", suggestion=wanted)
    facts = [_moment(venue.code, "day", noon(venue, day), now)]
    lines: dict[str, object] = {**_place(venue), "on": day, "state": "closed"}
    rest = calendar.rest_on(venue.code, day)
    if isinstance(rest, Holiday):
        lines |= {"reason": rest.name, "reason_ko": rest.name_ko}
    elif rest is not None:
        lines |= {"reason": rest, "reason_ko": "주말"}
    session = calendar.session_on(venue.code, day)
    if session is not None:
        lines["state"] = "open"
        if not session.is_regular:
            lines["other_hours"] = "yes"
        facts.append(_moment(venue.code, "opens_at", session.opens, now))
        facts.append(_moment(venue.code, "closes_at", session.closes, now))
    lines["source"] = CALENDAR_SOURCE
    phases: list[str] = []
    for phase in calendar.phases_on(venue.code, day):
        if (phase.venue, phase.name) != (venue.code, "regular"):
            phases.append(_describe_phase(phase))
            facts += _phase_facts(phase, venue.code, now)
    return record({**lines, "phases": "; ".join(phases) or None}), facts


def _closures(calendar: Calendar, venue: Venue, now: datetime, args: CalendarArguments) -> tuple[str, list[Fact]]:
    today = now.astimezone(venue.tz).date()
    _, last = calendar.known_days(venue.code)
    ahead = calendar.holidays(venue.code, today + timedelta(days=1), last)
    days = [each for each in ahead if _is_called(each, args.holiday)][: args.limit]
    records = [record({**_place(venue), "known_until": last if venue.holidays else None, "source": CALENDAR_SOURCE})]
    facts = [plain_fact(venue.code, "holidays_ahead", Decimal(len(days)), "days", now, CALENDAR_SOURCE)]
    for rest in days:
        names = {"holiday": rest.name, "holiday_ko": rest.name_ko}
        records.append(record({"closed": rest.day, "market": venue.code, **names}))
        facts.append(_moment(venue.code, f"closed {rest.day}", noon(venue, rest.day), now))
    if args.holiday is None and days:
        for number in range((days[-1].day - today).days + 1):
            session = calendar.session_on(venue.code, today + timedelta(days=number))
            if session is not None and not session.is_regular:
                records.append(record({"other_hours": session.day, "market": venue.code}))
                facts.append(_moment(venue.code, f"opens {session.day}", session.opens, now))
                facts.append(_moment(venue.code, f"closes {session.day}", session.closes, now))
    return "\n\n".join(records), facts


def _is_called(holiday: Holiday, wanted: str | None) -> bool:
    """Whether a holiday goes by that name: `Thanksgiving` for Thanksgiving Day, 추석 for 추석 연휴."""
    return wanted is None or any(key_of(each).startswith(key_of(wanted)) for each in (holiday.name, holiday.name_ko))


def _moment(code: str, field: str, moment: datetime, now: datetime) -> Fact:
    return moment_fact(code, field, moment, now, CALENDAR_SOURCE)
