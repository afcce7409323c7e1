"""The calendar port on the usual hours of `venue.py` and the tables of `sessions.json`, which a script writes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, json

from finclaw.errors import ToolError
from finclaw.finance.venue import VENUES, Venue
from finclaw.kernel.calendar import ClosedReason, Holiday, Opening, Session, TradingPhase
from finclaw.kernel.extension import Finding

_DAY = timedelta(days=1)
_LONGEST_BREAK = 15  # days without a session that are believed; Chuseok and a weekend make nine
_BEYOND = "the calendar does not reach so far"
_UNPUBLISHED = "the regular session has other hours on this day, and none were published for this phase"


class TableCalendar:
    """A calendar from tables that are shipped. It reads no clock and asks nobody."""

    def zone(self, market: str) -> str:
        return _venue(market).zone

    def known_days(self, market: str) -> tuple[date, date]:
        _venue(market)
        return read_tables().first_day, read_tables().last_day

    def opening(self, market: str, moment: datetime) -> Opening:
        venue = _venue(market)
        session = next(self._sessions(market, moment))
        if session.opens <= moment:
            return Opening(market=market, reason="open", session=session, changes_at=self._end_of_run(market, session))
        today = moment.astimezone(venue.tz).date()
        rest = self.rest_on(market, today)
        if isinstance(rest, Holiday):
            return Opening(market=market, reason="holiday", holiday=rest, session=session, changes_at=session.opens)
        reason: ClosedReason = "after_close"
        if rest == "weekend" or venue.eve:
            reason = "weekend"
        elif session.day == today:
            reason = "before_open"
        return Opening(market=market, reason=reason, session=session, changes_at=session.opens)

    def session_at(self, market: str, moment: datetime) -> Session | None:
        session = next(self._sessions(market, moment))
        if session.opens <= moment:
            return session
        return None

    def session_on(self, market: str, day: date) -> Session | None:
        venue = _venue(market)
        if self.rest_on(market, day) is not None:
            return None
        usual = (venue.opens, venue.closes)
        opens, closes = read_tables().hours.get(venue.holidays, {}).get(day, usual)
        first = day
        last = day
        if venue.eve:
            first -= _DAY
        if closes == time(0):  # midnight: the day's end and not its beginning
            last += _DAY
        return Session(day, _moment(venue, first, opens), _moment(venue, last, closes), (opens, closes) == usual)

    def next_open(self, market: str, moment: datetime) -> datetime:
        return next(session.opens for session in self._sessions(market, moment) if session.opens > moment)

    def sessions_before(self, market: str, moment: datetime) -> Iterator[Session]:
        day = moment.astimezone(_venue(market).tz).date() + _DAY
        while True:
            session = self.session_on(market, day)
            if session is not None and session.opens <= moment:
                yield session
            day -= _DAY

    def rest_on(self, market: str, day: date) -> Literal["weekend"] | Holiday | None:
        venue = _venue(market)
        if not venue.weekends and day.weekday() >= 5:
            return "weekend"
        name = read_tables().closed.get(venue.holidays, {}).get(day)
        if name is None:
            return None
        return _holiday(day, name)

    def holidays(self, market: str, first: date, last: date) -> Sequence[Holiday]:
        kept = read_tables().closed.get(_venue(market).holidays, {})
        return [_holiday(day, kept[day]) for day in sorted(kept) if first <= day <= last]

    def phases_on(self, market: str, day: date) -> Sequence[TradingPhase]:
        session = self.session_on(market, day)
        if session is None:
            return ()
        venue = _venue(market)
        tables = read_tables()
        phases = [TradingPhase(venue=market, name="regular", begins=session.opens, ends=session.closes)]
        published = [row for row in tables.phases_on if (row.market, row.day) == (venue.holidays, day)]
        for row in published:
            if row.opens is not None and row.closes is not None:
                begins = _moment(venue, day, row.opens)
                ends = _moment(venue, day, row.closes)
                phases.append(TradingPhase(venue=row.venue or market, name=row.name, begins=begins, ends=ends))
        replaced = {(row.venue, row.name) for row in published}
        for row in tables.phases:
            is_usual = row.first <= day <= row.last and (row.venue, row.name) not in replaced
            if row.market == venue.holidays and is_usual:
                phases.append(_usual_phase(venue, row, session, is_known=day <= tables.last_day))
        return sorted(
            (phase for phase in phases if phase.begins < phase.ends), key=lambda phase: (phase.begins, phase.venue)
        )

    def phase_at(self, market: str, moment: datetime) -> TradingPhase:
        latest = next(self.sessions_before(market, moment))
        coming = next(self._sessions(market, moment))
        days = dict.fromkeys((latest.day, coming.day))
        phases = [phase for day in days for phase in self.phases_on(market, day) if phase.venue == market]
        for phase in phases:
            if phase.begins <= moment < phase.ends:
                return phase
        begins = max(phase.ends for phase in phases if phase.ends <= moment)
        ends = min(phase.begins for phase in phases if phase.begins > moment)
        return TradingPhase(venue=market, name="closed", begins=begins, ends=ends)

    def _sessions(self, market: str, after: datetime) -> Iterator[Session]:
        """From the session that is running or comes next at that moment, onward."""
        day = after.astimezone(_venue(market).tz).date() - _DAY
        while True:
            session = self.session_on(market, day)
            if session is not None and session.closes > after:
                yield session
            day += _DAY

    def _end_of_run(self, market: str, session: Session) -> datetime | None:
        """When trading really stops: sessions that touch are one run, and a run beyond any week never ends."""
        for _ in range(_LONGEST_BREAK):
            following = next(self._sessions(market, session.closes))
            if following.opens > session.closes:
                return session.closes
            session = following
        return None


def _venue(market: str) -> Venue:
    venue = VENUES.get(market)
    if venue is None:
        raise ToolError(f"The calendar does not know the market {market!r}; it knows {', '.join(VENUES)}.")
    return venue


def _moment(venue: Venue, day: date, hour: time) -> datetime:
    return datetime.combine(day, hour, venue.tz).astimezone(UTC)


def _holiday(day: date, name: str) -> Holiday:
    return Holiday(day, name, read_tables().names.get(name, name))


def _usual_phase(venue: Venue, row: "PhaseRow", session: Session, *, is_known: bool) -> TradingPhase:
    """A phase at its usual hours; unknown where the session beside it is at other hours or the calendar has ended."""
    day = session.day
    name = row.name
    note = row.note
    begins = _moment(venue, day, row.opens)
    if row.opens > row.closes:
        begins = _moment(venue, day - _DAY, row.opens)
    ends = _moment(venue, day, row.closes)
    is_late = session.opens != _moment(venue, day, venue.opens)
    closes_otherwise = session.closes != _moment(venue, day, venue.closes)
    moved = {"pre": is_late, "after": closes_otherwise, "regular": is_late or closes_otherwise, "unknown": False}[name]
    if moved and name == "pre":
        ends = session.opens
    if moved and name == "after":
        begins = session.closes
    if moved or not is_known:
        name = "unknown"
        note = _UNPUBLISHED if is_known else _BEYOND
    return TradingPhase(venue=row.venue or venue.code, name=name, begins=begins, ends=ends, note=note)


_FILE: Final = Path(__file__).with_name("sessions.json")
WARN_DAYS: Final = 60
"""How long before its end the file is called old. Exchanges publish the next year's holidays by then."""

ExtendedPhase = Literal["pre", "regular", "after", "unknown"]


class PhaseRow(Struct, frozen=True, kw_only=True):
    """Hours of a phase over a range of days, on the evening before where they begin later than they end."""

    market: str
    name: ExtendedPhase
    first: date
    opens: time
    closes: time
    last: date = date.max
    venue: str = ""
    note: str = ""


class PhaseOnDay(Struct, frozen=True, kw_only=True):
    """Hours of a phase on one day, as its exchange published them. Without hours, there was no such phase."""

    day: date
    market: str
    name: ExtendedPhase
    venue: str = ""
    opens: time | None = None
    closes: time | None = None


class SessionTables(Struct, frozen=True, kw_only=True):
    """All that the file holds. Tables are named by the market that has them; NASDAQ keeps those of NYSE."""

    first_day: date
    last_day: date
    names: Mapping[str, str]  # Korean names of holidays by their English ones
    closed: Mapping[str, Mapping[date, str]]
    hours: Mapping[str, Mapping[date, tuple[time, time]]]
    phases: tuple[PhaseRow, ...]
    phases_on: tuple[PhaseOnDay, ...]


@cache
def read_tables() -> SessionTables:
    return json.decode(_FILE.read_bytes(), type=SessionTables)


def judge_expiry(today: date) -> Finding:
    last = read_tables().last_day
    left = (last - today).days
    if left > WARN_DAYS:
        return Finding("ok", f"holidays and hours of KRX and New York are known until {last}")
    advice = "install a newer version of FinClaw, or run scripts/calendars.py in its repository"
    if left >= 0:
        return Finding("warning", f"holidays and hours of markets are known for {left} more days, until {last}", advice)
    return Finding(
        "error", f"holidays and hours of markets were known until {last}: a holiday is taken for a trading day", advice
    )
