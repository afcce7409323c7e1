"""Formatting for a terminal: untrusted text without control characters, lines cut and wrapped, times, costs, tables.

A reply is untrusted text: it must not move the cursor or repaint anything. A line is measured in columns: Hangul is
two columns wide, a combining mark none.
"""

import os
import re
import shutil
import sys
import unicodedata
from argparse import Namespace
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

from finclaw.kernel.chunk import Usage
from finclaw.kernel.record import TurnRecord
from finclaw.redaction import hide_known_secrets
from finclaw.redaction.redact import redact_for_display
from finclaw.text import escape_json, shorten

UNKNOWN = "-"
_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erasing
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC: titles, links, clipboards
    r"|\x1b[ -/]*[0-~]"  # two or three characters: charsets, resets
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI again, as one C1 character
)
_BREAKS: Final = re.compile("\r\n|[\r\x0b\x0c\u0085\u2028\u2029]")
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 and C1, but for tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks that turn the direction, so that 100 could read 001
)


def clean(text: str) -> str:
    """The text as it may be shown: newline and tab are the only controls left."""
    return _HIDDEN.sub("", _SEQUENCES.sub("", _BREAKS.sub("\n", text)))


def json_line(value: object) -> str:
    """JSON without known secrets and with nothing in its strings that a terminal obeys."""
    return escape_json(hide_known_secrets(msgspec.json.encode(value).decode()))


def print_result(args: Namespace, view: object, lines: Iterable[str]) -> None:
    print(json_line(view) if args.json else "\n".join(lines))


def one_line(text: str, limit: int = 40) -> str:
    """A short form for a line of ours: cleaned, without line breaks, cut at the limit."""
    return shorten(" ".join(clean(hide_known_secrets(text)).split()), limit)


def width(char: str) -> int:
    if char.isascii():
        return 1
    # The vowels and finals of a syllable spelled in parts stand in the room of its first consonant.
    if "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff":
        return 0
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def wrap(text: str, columns: int) -> str:
    """Lines that are too long are broken between words, so that no figure is torn in two. Columns: at least 2."""
    return "\n".join("\n".join(_rows(line, columns)) for line in text.split("\n"))


def _rows(line: str, columns: int) -> list[str]:
    rows = [""]
    for word in re.findall(r"\s*\S+|\s+$", line):
        if text_columns(rows[-1] + word) <= columns:
            rows[-1] += word
            continue
        rest = word
        if rows[-1]:
            rows.append("")
            rest = word.lstrip()  # the break stands for the space
        while len(head := cut(rest, columns)) < len(rest):
            rows[-1] = head
            rest = rest[len(head) :]
            rows.append("")
        rows[-1] = rest
    return rows


def text_columns(text: str) -> int:
    return len(text) if text.isascii() else sum(map(width, text))


def cut(text: str, columns: int) -> str:
    taken = 0
    for place, char in enumerate(text):
        taken += width(char)
        if taken > columns:
            return text[:place]
    return text


def local_time(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def milliseconds(ms: float | None) -> str:
    if ms is None:
        return UNKNOWN
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 10_000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s"


def turn_ms(turn: TurnRecord) -> float | None:
    """None while it runs."""
    return turn.ended_at and (turn.ended_at - turn.started_at).total_seconds() * 1000


def money(cost: Decimal | None) -> str:
    """US dollars, with as many places as a cheap model's call needs."""
    if cost is None:
        return UNKNOWN
    if cost < Decimal("0.01") and not cost.is_zero():
        cost = cost.normalize()
    return f"${cost:f}"


def tokens(usage: Usage) -> str:
    cached = {"from cache": usage.cache_read, "to cache": usage.cache_write}
    parts = (f"{count:,} {name}" for name, count in cached.items() if count)
    return " + ".join((f"{usage.input:,} in", f"{usage.output:,} out", *parts))


def yes_or_no(is_so: bool) -> str:
    return "yes" if is_so else "no"


def colored(text: str, code: str) -> str:
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        return f"\x1b[{code}m{text}\x1b[0m"
    return text


def plural(count: int, noun: str, spec: str = "") -> str:
    return f"{count:{spec}} {noun}" if count == 1 else f"{count:{spec}} {noun}s"


def short(text: str, columns: int) -> str:
    """Somebody's text as one harmless line, without secrets: what a terminal shows is copied to others."""
    return fit_line(" ".join(clean(redact_for_display(text)).split()), columns)


def fit_line(line: str, columns: int | None) -> str:
    """The line, cut where the room ends; with None there is no end."""
    if columns is None or text_columns(line) <= columns:
        return line
    return cut(line, columns - 1) + "…"


def terminal_columns() -> int | None:
    """None where the output goes to a file or another program, which may want all of it."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Lines with their columns under one another; those in `right` stand at their right edge, the last is ragged."""
    widest = [max(map(text_columns, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        cells = list(row)
        for place, cell in enumerate(row):
            space = " " * (widest[place] - text_columns(cell))
            cells[place] = space + cell if place in right else cell + space
        lines.append("  ".join(cells).rstrip())
    return lines


def fit_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    columns = terminal_columns()
    return [fit_line(line, columns) for line in table(rows, right)]


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
