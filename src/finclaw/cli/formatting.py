"""Formatting for a terminal: times, costs and tables, where a Korean syllable is two columns wide."""

import shutil
import sys
from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from finclaw.cli.terminal_text import clean, cut, room
from finclaw.kernel.chunk import Usage
from finclaw.tools.guard.redact import redact_for_display

UNKNOWN = "-"


def local_time(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def milliseconds(ms: float | None) -> str:
    if ms is None:
        return UNKNOWN
    if ms < 10:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"


def money(cost: Decimal | None) -> str:
    """US dollars, with as many places as a cheap model's call needs."""
    if cost is None:
        return UNKNOWN
    return f"${cost:f}" if cost.is_zero() or cost >= Decimal("0.01") else f"${cost.normalize():f}"


def tokens(usage: Usage) -> str:
    parts = [f"{usage.input:,} in", f"{usage.output:,} out"]
    if usage.cache_read:
        parts.append(f"{usage.cache_read:,} from cache")
    if usage.cache_write:
        parts.append(f"{usage.cache_write:,} to cache")
    return " + ".join(parts)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# ── room ────────────────────────────────────────────────────────────────────────────────────────────────────


def short(text: str, columns: int) -> str:
    """Somebody's text as one harmless line, without secrets: what a terminal shows is copied to others."""
    return fit_line(" ".join(clean(redact_for_display(text)).split()), columns)


def fit_line(line: str, columns: int | None) -> str:
    """The line, cut where the room ends; with None there is no end."""
    if columns is None or room(line) <= columns:
        return line
    return cut(line, columns - 1) + "…"


def terminal_columns() -> int | None:
    """None where the output goes to a file or another program, which may want all of it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines with their columns under one another; those in `right` stand at their right edge, the last is ragged."""
    widest = [max(map(room, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(_pad(cell, widest[place], at_right=place in right) for place, cell in enumerate(row)).rstrip()
        for row in rows
    ]


def _pad(text: str, columns: int, *, at_right: bool) -> str:
    space = " " * (columns - room(text))
    return space + text if at_right else text + space


def command_name() -> str:
    """Its name where the shell finds it, else the way to it."""
    here = Path(sys.argv[0])
    if here.name == "__main__.py":
        return f"{Path(sys.executable).name} -m finclaw"
    found = shutil.which(here.name)
    if found is not None and Path(found).resolve() == here.resolve():
        return here.name
    try:
        return str(here.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(here)
