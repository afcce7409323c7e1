"""The demo market's own calendar: days without trading and days with other hours, 2025 to 2027.

A sample for the demo market, written from public knowledge and not fetched from any exchange. It is no promise about
a real trading day, and every answer made from it says that it comes from the demo market.
"""

from collections.abc import Mapping
from datetime import date, time

FIRST_DAY, LAST_DAY = date(2025, 1, 1), date(2027, 12, 31)
"""Outside of them only weekends are known."""

_NAMES_KO = {
    "New Year's Day": "신정",
    "Seollal": "설날 연휴",
    "Independence Movement Day": "삼일절",
    "Labour Day": "근로자의 날",
    "Children's Day": "어린이날",
    "Buddha's Birthday": "부처님 오신 날",
    "Election day": "선거일",
    "Memorial Day (Korea)": "현충일",
    "Constitution Day": "제헌절",
    "Liberation Day": "광복절",
    "Chuseok": "추석 연휴",
    "National Foundation Day": "개천절",
    "Hangul Day": "한글날",
    "Christmas Day": "성탄절",
    "Last day of the year": "연말 휴장일",
    "Temporary holiday": "임시 공휴일",
    "National day of mourning": "국가 애도의 날",
    "Martin Luther King Jr. Day": "마틴 루터 킹의 날",
    "Washington's Birthday": "대통령의 날",
    "Good Friday": "성금요일",
    "Memorial Day": "메모리얼 데이",
    "Juneteenth": "노예 해방 기념일",
    "Independence Day": "미국 독립기념일",
    "Labor Day": "미국 노동절",
    "Thanksgiving Day": "추수감사절",
}

_KRX = """
2025-01-01 New Year's Day
2025-01-27 Temporary holiday
2025-01-28 Seollal
2025-01-29 Seollal
2025-01-30 Seollal
2025-03-03 Independence Movement Day
2025-05-01 Labour Day
2025-05-05 Children's Day
2025-05-06 Buddha's Birthday
2025-06-03 Election day
2025-06-06 Memorial Day (Korea)
2025-08-15 Liberation Day
2025-10-03 National Foundation Day
2025-10-06 Chuseok
2025-10-07 Chuseok
2025-10-08 Chuseok
2025-10-09 Hangul Day
2025-12-25 Christmas Day
2025-12-31 Last day of the year
2026-01-01 New Year's Day
2026-02-16 Seollal
2026-02-17 Seollal
2026-02-18 Seollal
2026-03-02 Independence Movement Day
2026-05-01 Labour Day
2026-05-05 Children's Day
2026-05-25 Buddha's Birthday
2026-06-03 Election day
2026-07-17 Constitution Day
2026-08-17 Liberation Day
2026-09-24 Chuseok
2026-09-25 Chuseok
2026-10-05 National Foundation Day
2026-10-09 Hangul Day
2026-12-25 Christmas Day
2026-12-31 Last day of the year
2027-01-01 New Year's Day
2027-02-08 Seollal
2027-02-09 Seollal
2027-03-01 Independence Movement Day
2027-05-03 Labour Day
2027-05-05 Children's Day
2027-05-13 Buddha's Birthday
2027-07-19 Constitution Day
2027-08-16 Liberation Day
2027-09-14 Chuseok
2027-09-15 Chuseok
2027-09-16 Chuseok
2027-10-04 National Foundation Day
2027-10-11 Hangul Day
2027-12-27 Christmas Day
2027-12-31 Last day of the year
"""

_NEW_YORK = """
2025-01-01 New Year's Day
2025-01-09 National day of mourning
2025-01-20 Martin Luther King Jr. Day
2025-02-17 Washington's Birthday
2025-04-18 Good Friday
2025-05-26 Memorial Day
2025-06-19 Juneteenth
2025-07-04 Independence Day
2025-09-01 Labor Day
2025-11-27 Thanksgiving Day
2025-12-25 Christmas Day
2026-01-01 New Year's Day
2026-01-19 Martin Luther King Jr. Day
2026-02-16 Washington's Birthday
2026-04-03 Good Friday
2026-05-25 Memorial Day
2026-06-19 Juneteenth
2026-07-03 Independence Day
2026-09-07 Labor Day
2026-11-26 Thanksgiving Day
2026-12-25 Christmas Day
2027-01-01 New Year's Day
2027-01-18 Martin Luther King Jr. Day
2027-02-15 Washington's Birthday
2027-03-26 Good Friday
2027-05-31 Memorial Day
2027-06-18 Juneteenth
2027-07-05 Independence Day
2027-09-06 Labor Day
2027-11-25 Thanksgiving Day
2027-12-24 Christmas Day
"""

# On the first trading day of the year Seoul opens an hour late; on the day of the university entrance exam it opens
# and closes an hour late. New York closes early on the eve of a feast.
_OTHER_HOURS = """
KRX 2025-01-02 10:00 15:30
KRX 2025-11-13 10:00 16:30
KRX 2026-01-02 10:00 15:30
KRX 2026-11-19 10:00 16:30
KRX 2027-01-04 10:00 15:30
KRX 2027-11-18 10:00 16:30
NYSE 2025-07-03 09:30 13:00
NYSE 2025-11-28 09:30 13:00
NYSE 2025-12-24 09:30 13:00
NYSE 2026-11-27 09:30 13:00
NYSE 2026-12-24 09:30 13:00
NYSE 2027-11-26 09:30 13:00
"""


def _table(text: str) -> dict[date, str]:
    rows = (line.split(" ", 1) for line in text.split("\n") if line)
    return {date.fromisoformat(day): name for day, name in rows}


def _hours(text: str) -> dict[tuple[str, date], tuple[time, time]]:
    rows = (line.split() for line in text.split("\n") if line)
    return {
        (table, date.fromisoformat(day)): (time.fromisoformat(opens), time.fromisoformat(closes))
        for table, day, opens, closes in rows
    }


HOLIDAYS: Mapping[str, Mapping[date, str]] = {"KRX": _table(_KRX), "NYSE": _table(_NEW_YORK)}
OTHER_HOURS: Mapping[tuple[str, date], tuple[time, time]] = _hours(_OTHER_HOURS)


def korean_name(holiday: str) -> str:
    return _NAMES_KO.get(holiday, holiday)
