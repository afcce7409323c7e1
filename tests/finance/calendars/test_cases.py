"""Calendars against published tables, case by case, and against two packages that others keep.

`holidays` is also what the file is made from, so it guards against an edit of the file; `exchange_calendars` is the
independent one. Where it is known to be wrong, scripts/market_hours.toml says on which days and why.
"""

import importlib.util
import tomllib
import warnings
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import holidays
import pytest

from finclaw.errors import ToolError
from finclaw.finance.calendar import TableCalendar, read_tables
from finclaw.kernel.calendar import Session

ROOT = Path(__file__).parents[3]
CASES = [
    line.partition("#")[0].split()
    for line in Path(__file__).with_name("cases.txt").read_text().splitlines()
    if line.partition("#")[0].strip()
]
DAYS = [case for case in CASES if "T" not in case[1]]
MOMENTS = [case for case in CASES if "T" in case[1]]
HOURS = tomllib.loads((ROOT / "scripts" / "market_hours.toml").read_text())
CODES = {"KRX": "XKRX", "NYSE": "XNYS", "NASDAQ": "XNYS"}
FIRST = date(2024, 1, 1)
"""Of what is compared with exchange_calendars, which takes a second to build so much."""


def known_errors() -> dict[date, str]:
    return {day: each["says"] for each in HOURS["oracle_error"] for day in each.get("days") or [each["day"]]}


@pytest.fixture(scope="module")
def oracle() -> Mapping[str, Mapping[date, tuple[datetime, datetime]]]:
    """The sessions of exchange_calendars."""
    with warnings.catch_warnings():  # it uses what pandas is about to drop
        warnings.simplefilter("ignore")
        import exchange_calendars  # pyright: ignore[reportMissingTypeStubs]

        found: dict[str, Mapping[date, tuple[datetime, datetime]]] = {}
        for code in ("XKRX", "XNYS"):
            made: Any = exchange_calendars.get_calendar(code, start=FIRST.isoformat(), end="2027-12-31")
            rows = zip(made.sessions, made.opens, made.closes, strict=True)
            found[code] = {day.date(): (opens.to_pydatetime(), closes.to_pydatetime()) for day, opens, closes in rows}
    return found


def local_hours(session: Session | None, market: str) -> str:
    if session is None:
        return "closed"
    zone = ZoneInfo(TableCalendar().zone(market))
    return f"{session.opens.astimezone(zone):%H:%M} {session.closes.astimezone(zone):%H:%M}"


def test_there_are_enough_cases_and_the_day_of_the_exam_is_one():
    assert len(CASES) >= 80
    assert ["KRX", "2026-11-19", "10:00", "16:30"] in CASES


@pytest.mark.parametrize("case", DAYS, ids=" ".join)
def test_a_day_is_as_published(case: list[str]):
    market, day, *hours = case
    assert local_hours(TableCalendar().session_on(market, date.fromisoformat(day)), market) == " ".join(hours)


def test_days_of_rest_agree_with_the_holidays_package():
    for market, day, *hours in DAYS:
        told = holidays.financial_holidays(CODES[market], years=int(day[:4]))
        assert (date.fromisoformat(day) in told) == (hours == ["closed"]), (market, day)


def test_cases_agree_with_the_other_package_but_where_it_is_known_to_be_wrong(
    oracle: Mapping[str, Mapping[date, tuple[datetime, datetime]]],
):
    errors = known_errors()
    for market, day, *hours in DAYS:
        when = date.fromisoformat(day)
        found = oracle[CODES[market]].get(when)
        said = local_hours(Session(when, *found) if found else None, market)
        if market == "KRX" and when in errors:
            wrong = errors[when].replace("open", "09:00 15:30").replace(" to ", " ")
            assert said == wrong, f"exchange_calendars no longer says so of {day}: take it out of the list"
        else:
            assert said == " ".join(hours), (market, day)


@pytest.mark.parametrize("market", ["KRX", "NYSE", "NASDAQ"])
def test_every_day_agrees_with_the_other_package(
    market: str, oracle: Mapping[str, Mapping[date, tuple[datetime, datetime]]]
):
    errors, calendar = known_errors() if market == "KRX" else {}, TableCalendar()
    differing: list[date] = []
    for number in range((date(2027, 12, 31) - FIRST).days + 1):
        day = FIRST + timedelta(days=number)
        session, other = calendar.session_on(market, day), oracle[CODES[market]].get(day)
        if (session and (session.opens, session.closes)) != other:
            differing.append(day)
    assert differing == sorted(day for day in errors if day >= FIRST)


@pytest.mark.parametrize("case", MOMENTS, ids=" ".join)
def test_a_moment_is_in_its_phase(case: list[str]):
    venue, moment, phase = case
    market = "KRX" if venue == "NXT" else venue
    calendar = TableCalendar()
    when = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(calendar.zone(market)))
    if venue == market:
        found = calendar.phase_at(market, when)
        assert found.begins <= when < found.ends
        assert found.name == phase
        return
    running = [each for each in calendar.phases_on(market, when.date()) if each.venue == venue]
    assert [each.name for each in running if each.begins <= when < each.ends] == ([] if phase == "closed" else [phase])


def test_a_closed_phase_ends_when_the_next_begins():
    calendar, friday = TableCalendar(), datetime(2026, 11, 14, 1, 30, tzinfo=UTC)  # 20:30 in New York
    closed = calendar.phase_at("NYSE", friday)
    assert (closed.name, closed.begins) == ("closed", datetime(2026, 11, 14, 1, tzinfo=UTC))
    assert closed.ends == datetime(2026, 11, 16, 9, tzinfo=UTC)  # 04:00, before the market
    assert calendar.phase_at("NYSE", closed.ends).name == "pre"


def test_phases_beyond_the_table_are_unknown():
    phases = TableCalendar().phases_on("KRX", date(2028, 2, 1))
    assert {(each.venue, each.name) for each in phases} == {("KRX", "regular"), ("KRX", "unknown"), ("NXT", "unknown")}


@pytest.mark.parametrize(
    ("market", "day", "before"),
    [
        ("KRX", "2026-07-20", "2026-07-16"),  # a holiday on Friday
        ("KRX", "2027-05-04", "2027-04-30"),
        ("KRX", "2027-07-20", "2027-07-16"),
        ("KRX", "2026-06-04", "2026-06-02"),
        ("KRX", "2026-11-20", "2026-11-19"),
        ("NYSE", "2026-11-30", "2026-11-27"),
    ],
)
def test_the_session_before_skips_what_stale_tables_miss(market: str, day: str, before: str):
    """A previous close is that of the session before: a missing holiday makes it a day that never was."""
    calendar, zone = TableCalendar(), ZoneInfo(TableCalendar().zone(market))
    noon = datetime.combine(date.fromisoformat(day), datetime.min.time(), zone) + timedelta(hours=12)
    past = calendar.sessions_before(market, noon)
    assert (next(past).day.isoformat(), next(past).day.isoformat()) == (day, before)


def load_script() -> ModuleType:
    """scripts/ is no package; the script is loaded from its path."""
    found = importlib.util.spec_from_file_location("finclaw_calendars", ROOT / "scripts" / "calendars.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_file_is_what_the_script_writes_and_small():
    script = load_script()
    assert script.main(["--check"]) == 0
    assert script.FILE.stat().st_size < 20_000


def test_names_are_told_in_both_languages():
    tables = read_tables()
    for table in tables.closed.values():
        assert all(tables.names[name] != name for name in table.values())
        assert all(day.weekday() < 5 for day in table)


def test_another_market_is_not_guessed():
    with pytest.raises(ToolError, match="does not know the market 'XETR'"):
        TableCalendar().phase_at("XETR", datetime(2026, 11, 16, tzinfo=UTC))
