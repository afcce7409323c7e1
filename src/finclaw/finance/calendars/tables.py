"""The tables of `sessions.json`: days without trading, days with other hours, and hours around the regular session.

The file ends. `judge_expiry` says so in time, at the start and in `finclaw doctor`: after its last day a holiday would
be taken for a trading day.
"""

from collections.abc import Mapping
from datetime import date, time
from functools import cache
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, json

from finclaw.kernel.extension import Finding

_FILE: Final = Path(__file__).with_name("sessions.json")
WARN_DAYS: Final = 60
"""How long before its end the file is called old. Exchanges publish the next year's holidays by then."""

ExtendedPhase = Literal["pre", "regular", "after", "unknown"]


class PhaseRow(Struct, frozen=True, kw_only=True):
    """Hours of a phase from one day to another. `venue` is empty for the market itself.

    Hours that begin later than they end begin on the evening before.
    """

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
    names: Mapping[str, str]
    """Korean names of holidays by their English ones."""
    closed: Mapping[str, Mapping[date, str]]
    hours: Mapping[str, Mapping[date, tuple[time, time]]]
    phases: tuple[PhaseRow, ...]
    phases_on: tuple[PhaseOnDay, ...]


@cache
def read_tables() -> SessionTables:
    return json.decode(_FILE.read_bytes(), type=SessionTables)


def judge_expiry(today: date) -> Finding:
    """Whether the file still reaches far enough."""
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
