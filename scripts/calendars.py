"""Writes src/finclaw/finance/sessions.json: days without trading from the `holidays` package, and hours from
market_hours.toml.

    .venv/bin/python scripts/calendars.py           write the file
    .venv/bin/python scripts/calendars.py --check   fail when the file is not what this would write

Run it in November, when next year's holidays and the hours of the entrance exam are published. Then
tests/finance/calendars/test_cases.py compares the file with `exchange_calendars`.
"""

import json
import sys
import tomllib
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import holidays

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "scripts" / "market_hours.toml"
FILE = ROOT / "src" / "finclaw" / "finance" / "sessions.json"
EXCHANGES = {"KRX": "XKRX", "NYSE": "XNYS"}

NAMES = {
    "New Year's Day": ("New Year's Day", "신정"),
    "Korean New Year": ("Seollal", "설날 연휴"),
    "Independence Movement Day": ("Independence Movement Day", "삼일절"),
    "Workers' Day": ("Workers' Day", "근로자의 날"),
    "KRX Labor Day": ("Labour Day", "노동절"),
    "Children's Day": ("Children's Day", "어린이날"),
    "Buddha's Birthday": ("Buddha's Birthday", "부처님 오신 날"),
    "Election Day": ("Election day", "선거일"),
    "KRX Memorial Day": ("Memorial Day (Korea)", "현충일"),
    "Constitution Day": ("Constitution Day", "제헌절"),
    "Liberation Day": ("Liberation Day", "광복절"),
    "Chuseok": ("Chuseok", "추석 연휴"),
    "National Foundation Day": ("National Foundation Day", "개천절"),
    "Hangul Day": ("Hangul Day", "한글날"),
    "Christmas Day": ("Christmas Day", "성탄절"),
    "End of Year Holiday": ("Last day of the year", "연말 휴장일"),
    "Temporary Public Holiday": ("Temporary holiday", "임시 공휴일"),
    "Armed Forces Day": ("Armed Forces Day", "국군의 날"),
    "National Day of Mourning": ("National day of mourning", "국가 애도의 날"),
    "Martin Luther King Jr. Day": ("Martin Luther King Jr. Day", "마틴 루터 킹의 날"),
    "Washington's Birthday": ("Washington's Birthday", "대통령의 날"),
    "Good Friday": ("Good Friday", "성금요일"),
    "Memorial Day": ("Memorial Day", "메모리얼 데이"),
    "Juneteenth National Independence Day": ("Juneteenth", "노예 해방 기념일"),
    "Independence Day": ("Independence Day", "미국 독립기념일"),
    "Labor Day": ("Labor Day", "미국 노동절"),
    "Thanksgiving Day": ("Thanksgiving Day", "추수감사절"),
}
"""The package's names without what the day is within the feast, and ours. What means two things is told by market."""


def find_names(market: str, told: str) -> tuple[str, str]:
    """Our names of a holiday. Raises SystemExit for one that is new: somebody has to translate it."""
    last = told.rsplit("; ", maxsplit=1)[-1]
    for prefix in ("Alternative holiday for ", "The day preceding ", "The second day of "):
        last = last.removeprefix(prefix)
    last = last.removesuffix(" (observed)")
    last = "Election Day" if last.endswith("Election Day") else last.split(" for former President")[0]
    found = NAMES.get(f"{market} {last}") or NAMES.get(last)
    if found is None:
        sys.exit(f"scripts/calendars.py has no Korean name for {last!r} ({told!r}); add it to NAMES")
    return found


def build_calendars() -> dict[str, Any]:
    """What the file holds."""
    table = tomllib.loads(TABLE.read_text())
    first, last = table["first_day"], table["last_day"]
    years = range(first.year, last.year + 1)
    names: dict[str, str] = {}
    closed: dict[str, dict[str, str]] = {}
    for market, code in EXCHANGES.items():
        told = holidays.financial_holidays(code, years=years, language="en_US")
        closed[market] = {}
        for day in sorted(day for day in told if first <= day <= last and day.weekday() < 5):
            name, name_ko = find_names(market, told[day])
            names[name] = name_ko
            closed[market][day.isoformat()] = name
    hours = {market: dict(sorted(_other_hours(market, table, years, closed[market]))) for market in EXCHANGES}
    return {
        "about": "Written by scripts/calendars.py from the sources below. Do not edit it: edit market_hours.toml.",
        "sources": [f"holidays {holidays.__version__} (MIT): days without trading, US half days", TABLE.name],
        "first_day": first.isoformat(),
        "last_day": last.isoformat(),
        "names": names,
        "closed": closed,
        "hours": hours,
        "phases": [_plain(each) for each in table["phase"]],
        "phases_on": list(_phases_on(table, hours)),
    }


def _other_hours(
    market: str, table: dict[str, Any], years: range, closed: dict[str, str]
) -> Iterator[tuple[str, list[str]]]:
    if market == "NYSE":
        halves = holidays.financial_holidays("XNYS", years=years, categories="half_day")
        for day, name in halves.items():
            if "close at 1:00pm" not in name:
                sys.exit(f"the half day {day} ends at an hour that this script does not know: {name}")
            yield day.isoformat(), ["09:30:00", "13:00:00"]
    rule = table["first_session"]
    if market == rule["market"]:
        for year in years:
            day = date(year, 1, 1)
            while day.weekday() >= 5 or day.isoformat() in closed:
                day += timedelta(days=1)
            yield day.isoformat(), [rule["opens"].isoformat(), rule["closes"].isoformat()]
    for each in table["hours"]:
        if each["market"] == market:
            hours = [each["opens"].isoformat(), each["closes"].isoformat()]
            yield from ((day.isoformat(), hours) for day in each["days"])


def _phases_on(table: dict[str, Any], hours: dict[str, dict[str, list[str]]]) -> Iterator[dict[str, str]]:
    for each in table["phase_on"]:
        row = _plain(each)
        on, first, last = row.pop("on"), row.pop("first", ""), row.pop("last", "9999")
        days = hours[each["market"]] if on == "early close" else (on,)
        yield from ({"day": day, **row} for day in days if first <= day <= last)


def _plain(row: dict[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else value.isoformat() for key, value in row.items()}


def format_calendars(content: dict[str, Any]) -> str:
    """JSON with a line a year or a row, so that a diff shows what changed."""
    lines = [f'  "{key}": {json.dumps(content[key], ensure_ascii=False)}' for key in ("about", "sources")]
    lines += [f'  "{key}": "{content[key]}"' for key in ("first_day", "last_day")]
    lines.append('  "names": ' + json.dumps(content["names"], ensure_ascii=False))
    for key in ("closed", "hours"):
        tables = [f'    "{market}": {{\n{_by_year(rows)}\n    }}' for market, rows in content[key].items()]
        lines.append(f'  "{key}": {{\n' + ",\n".join(tables) + "\n  }")
    for key in ("phases", "phases_on"):
        rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in content[key])
        lines.append(f'  "{key}": [\n{rows}\n  ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _by_year(rows: dict[str, Any]) -> str:
    years: dict[str, list[str]] = {}
    for day, value in rows.items():
        years.setdefault(day[:4], []).append(f'"{day}": {json.dumps(value)}')
    return ",\n".join("      " + ", ".join(days) for days in years.values())


def main(arguments: list[str]) -> int:
    text = format_calendars(build_calendars())
    if "--check" not in arguments:
        FILE.write_text(text)
        print(f"{FILE.relative_to(ROOT)}: {len(text.encode()):,} bytes")
        return 0
    if FILE.read_text() == text:
        return 0
    print(f"{FILE.relative_to(ROOT)} is not what scripts/calendars.py writes; run it without --check")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
