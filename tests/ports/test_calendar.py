"""The contract of the calendar port, for every implementation."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import ToolError
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Calendar, Holiday

CALENDARS: tuple[Calendar, ...] = (TableCalendar(),)
MARKETS = sorted(VENUES)
EXCHANGES = ("KRX", "NYSE", "NASDAQ")

calendars = pytest.mark.parametrize("calendar", CALENDARS, ids=lambda each: type(each).__name__)
moments = st.datetimes(datetime(2025, 1, 10), datetime(2027, 12, 1), timezones=st.just(UTC))  # noqa: DTZ001  bounds


@calendars
@given(st.sampled_from(MARKETS), moments)
def test_a_market_is_open_exactly_while_a_session_runs(calendar: Calendar, market: str, moment: datetime) -> None:
    opening, session = calendar.opening(market, moment), calendar.session_at(market, moment)
    assert opening.is_open == (session is not None) == (opening.reason == "open")
    if session is not None:
        assert session.opens <= moment < session.closes
        assert opening.session == session
        assert calendar.session_on(market, session.day) == session
        assert calendar.session_at(market, session.opens) == session
        assert calendar.session_at(market, session.closes) != session
    else:
        assert opening.changes_at == opening.session.opens == calendar.next_open(market, moment) > moment


@calendars
@given(st.sampled_from(MARKETS), moments)
def test_the_next_opening_is_the_first_one(calendar: Calendar, market: str, moment: datetime) -> None:
    opens = calendar.next_open(market, moment)
    assert opens > moment
    latest = next(calendar.sessions_before(market, opens))
    assert latest.opens == opens
    assert next(calendar.sessions_before(market, moment)).opens <= moment
    assert next(calendar.sessions_before(market, opens - timedelta(seconds=1))).opens <= moment


@calendars
@given(st.sampled_from(MARKETS), moments)
def test_past_sessions_run_backwards_and_do_not_overlap(calendar: Calendar, market: str, moment: datetime) -> None:
    past = calendar.sessions_before(market, moment)
    later = next(past)
    for _ in range(15):
        earlier = next(past)
        assert earlier.opens < earlier.closes <= later.opens
        assert earlier.day < later.day
        later = earlier


@calendars
@pytest.mark.parametrize("market", MARKETS)
def test_each_day_has_a_session_or_a_reason(calendar: Calendar, market: str) -> None:
    first, last = calendar.known_days(market)
    holidays = {each.day: each for each in calendar.holidays(market, first, last)}
    assert list(holidays) == sorted(holidays)
    zone = ZoneInfo(calendar.zone(market))
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        session, rest = calendar.session_on(market, day), calendar.rest_on(market, day)
        assert (session is None) == (rest is not None)
        assert (rest if isinstance(rest, Holiday) else None) == holidays.get(day)
        if session is not None:
            assert session.day == day
            assert day - timedelta(days=1) <= session.opens.astimezone(zone).date() <= day
            assert (session.opens.tzinfo, session.closes.tzinfo) == (UTC, UTC)
    assert bool(holidays) == (market in EXCHANGES)
    assert all(each.name and each.name_ko for each in holidays.values())


@calendars
@pytest.mark.parametrize("market", EXCHANGES)
def test_holidays_are_told_with_both_ends_of_the_range(calendar: Calendar, market: str) -> None:
    christmas = date(2026, 12, 25)
    (found,) = calendar.holidays(market, christmas, christmas)
    assert (found.day, found.name, found.name_ko) == (christmas, "Christmas Day", "성탄절")
    noon = datetime(2026, 12, 25, 17, tzinfo=UTC) if market != "KRX" else datetime(2026, 12, 25, 3, tzinfo=UTC)
    opening = calendar.opening(market, noon)
    assert (opening.is_open, opening.reason, opening.holiday) == (False, "holiday", found)
    assert list(calendar.holidays(market, christmas + timedelta(days=1), christmas)) == []


@calendars
def test_short_and_late_days_say_so(calendar: Calendar) -> None:
    exam, eve = date(2026, 11, 19), date(2026, 11, 27)
    late, early = calendar.session_on("KRX", exam), calendar.session_on("NYSE", eve)
    assert late is not None
    assert early is not None
    assert (late.opens, late.is_regular) == (datetime(2026, 11, 19, 1, tzinfo=UTC), False)
    assert (early.closes, early.is_regular) == (datetime(2026, 11, 27, 18, tzinfo=UTC), False)
    usual = calendar.session_on("KRX", exam + timedelta(days=1))
    assert usual is not None
    assert usual.is_regular


@calendars
def test_a_market_that_never_rests_never_changes(calendar: Calendar) -> None:
    opening = calendar.opening("CRYPTO", datetime(2026, 12, 25, tzinfo=UTC))
    assert (opening.is_open, opening.changes_at) == (True, None)
    assert calendar.next_open("CRYPTO", datetime(2026, 12, 25, tzinfo=UTC)) == datetime(2026, 12, 26, tzinfo=UTC)


@calendars
def test_an_unknown_market_is_an_error_that_names_the_known_ones(calendar: Calendar) -> None:
    moment = datetime(2026, 11, 16, tzinfo=UTC)
    for ask in (
        lambda: calendar.zone("XETR"),
        lambda: calendar.opening("XETR", moment),
        lambda: calendar.session_on("XETR", moment.date()),
        lambda: calendar.next_open("XETR", moment),
        lambda: next(calendar.sessions_before("XETR", moment)),
        lambda: calendar.holidays("XETR", moment.date(), moment.date()),
        lambda: calendar.known_days("XETR"),
    ):
        with pytest.raises(ToolError, match="'XETR'; it knows KRX"):
            ask()


@calendars
@given(st.sampled_from(MARKETS), moments)
def test_each_moment_has_one_phase_and_the_regular_one_is_the_session(
    calendar: Calendar, market: str, moment: datetime
) -> None:
    phase, session = calendar.phase_at(market, moment), calendar.session_at(market, moment)
    assert phase.venue == market
    assert phase.begins <= moment < phase.ends
    assert (phase.name == "regular") == (session is not None)
    if session is not None:
        assert (phase.begins, phase.ends) == (session.opens, session.closes)
    assert calendar.phase_at(market, phase.ends) != phase
    day = session.day if session else next(calendar.sessions_before(market, moment)).day
    begins = [each.begins for each in calendar.phases_on(market, day)]
    assert begins == sorted(begins)
    assert begins
