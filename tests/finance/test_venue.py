"""Sessions, holidays and the hours between, by the calendar that is shipped."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import ConfigError
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.venue import VENUES, zone


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("venue", "now", "reason", "changes"),
    [
        ("KRX", "2026-11-16T00:00", "open", "2026-11-16T06:30"),
        ("KRX", "2026-11-15T23:59", "before_open", "2026-11-16T00:00"),
        ("KRX", "2026-11-16T06:30", "after_close", "2026-11-17T00:00"),
        ("KRX", "2026-11-14T03:00", "weekend", "2026-11-16T00:00"),
        ("KRX", "2026-09-24T03:00", "holiday", "2026-09-28T00:00"),
        ("KRX", "2026-11-19T00:30", "before_open", "2026-11-19T01:00"),  # the day of the entrance exam
        ("KRX", "2026-11-19T07:00", "open", "2026-11-19T07:30"),
        ("KRX", "2026-12-31T03:00", "holiday", "2027-01-04T01:00"),  # and the year begins an hour late
        ("NYSE", "2026-03-06T14:30", "open", "2026-03-06T21:00"),
        ("NYSE", "2026-03-09T13:30", "open", "2026-03-09T20:00"),  # the Monday after the clocks changed
        ("NASDAQ", "2026-11-26T15:00", "holiday", "2026-11-27T14:30"),
        ("NASDAQ", "2026-11-27T15:00", "open", "2026-11-27T18:00"),
        ("FX", "2026-11-18T03:00", "open", "2026-11-20T22:00"),
        ("FX", "2026-11-20T22:00", "weekend", "2026-11-22T22:00"),
        ("FX", "2026-11-22T21:59", "weekend", "2026-11-22T22:00"),
    ],
)
def test_open_or_closed_and_until_when(venue: str, now: str, reason: str, changes: str):
    state = TableCalendar().opening(venue, utc(now))
    assert (state.reason, state.changes_at) == (reason, utc(changes))


def test_crypto_never_rests():
    state = TableCalendar().opening("CRYPTO", utc("2026-12-25T00:00"))
    assert (state.is_open, state.changes_at) == (True, None)


@given(st.sampled_from(sorted(VENUES)), st.integers(0, 3 * 365 * 1_440))
def test_past_and_coming_sessions_meet_at_the_moment(code: str, minutes: int):
    calendar, moment = TableCalendar(), utc("2025-01-10T00:00") + timedelta(minutes=minutes)
    latest, coming = next(calendar.sessions_before(code, moment)), calendar.opening(code, moment).session
    assert latest.opens <= moment < coming.closes
    assert (latest == coming) == calendar.opening(code, moment).is_open
    assert latest == coming or latest.closes <= moment < coming.opens


def test_a_machine_without_time_zones_is_told_what_to_do():
    with pytest.raises(ConfigError, match="install the system package tzdata"):
        zone("Mars/Olympus")
