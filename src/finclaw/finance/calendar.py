"""The calendar port on the tables of `venue.py` and `holidays.py`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

from finclaw.errors import ToolError
from finclaw.finance.holidays import FIRST_DAY, HOLIDAYS, LAST_DAY, OTHER_HOURS, korean_name
from finclaw.finance.venue import VENUES, Venue
from finclaw.kernel.calendar import ClosedReason, Holiday, Opening, Session

_DAY = timedelta(days=1)
_LONGEST_BREAK = 15
"""Days without a session that are believed; Chuseok and a weekend make nine."""


class TableCalendar:
    """A calendar from tables that were written by hand. It reads no clock and asks nobody."""

    def zone(self, market: str) -> str:
        return _venue(market).zone

    def known_days(self, market: str) -> tuple[date, date]:
        _venue(market)
        return FIRST_DAY, LAST_DAY

    def opening(self, market: str, moment: datetime) -> Opening:
        venue = _venue(market)
        session = next(self._sessions(market, moment))
        if session.opens <= moment:
            return Opening(market=market, reason="open", session=session, changes_at=self._end_of_run(market, session))
        today = moment.astimezone(venue.tz).date()
        rest = self.rest_on(market, today)
        if isinstance(rest, Holiday):
            return Opening(market=market, reason="holiday", holiday=rest, session=session, changes_at=session.opens)
        reason: ClosedReason = "before_open" if session.day == today else "after_close"
        if rest == "weekend" or venue.eve:
            reason = "weekend"
        return Opening(market=market, reason=reason, session=session, changes_at=session.opens)

    def session_at(self, market: str, moment: datetime) -> Session | None:
        session = next(self._sessions(market, moment))
        return session if session.opens <= moment else None

    def session_on(self, market: str, day: date) -> Session | None:
        venue = _venue(market)
        if self.rest_on(market, day) is not None:
            return None
        usual = (venue.opens, venue.closes)
        opens, closes = OTHER_HOURS.get((venue.holidays, day), usual)
        begin, end = day - _DAY if venue.eve else day, day
        if closes == time(0):  # midnight: the day's end and not its beginning
            end += _DAY
        return Session(
            day,
            datetime.combine(begin, opens, venue.tz).astimezone(UTC),
            datetime.combine(end, closes, venue.tz).astimezone(UTC),
            (opens, closes) == usual,
        )

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
        name = HOLIDAYS.get(venue.holidays, {}).get(day)
        return Holiday(day, name, korean_name(name)) if name else None

    def holidays(self, market: str, first: date, last: date) -> Sequence[Holiday]:
        kept = HOLIDAYS.get(_venue(market).holidays, {})
        return [Holiday(day, kept[day], korean_name(kept[day])) for day in sorted(kept) if first <= day <= last]

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
