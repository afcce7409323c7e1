"""An operator's own patterns: plain text with blanks in it, never a regular expression that a text can make slow.

EMP-######      '#' is a digit
@@-????         '@' is a letter, '?' a letter or a digit
key_?+          '+' means one or more of them, at most 32; at most two of these
\\#12            '\\' takes the next character as it is
"""

import re
from functools import cache
from itertools import groupby
from typing import Final

from finclaw.errors import ConfigError

LONGEST: Final = 100
_BLANKS: Final = {"#": "[0-9]", "@": r"[^\W\d_]", "?": r"[^\W_]"}
_BEYOND: Final = "\U00010000-\U0001cfff\U0001d400-\U0001d7cd\U0001e000-\U0001efff\U00020000-\U0003ffff"
"""Scripts beyond the first plane; digits from there have become plain ones before anything is looked for."""
_MOST_REPEATS: Final = 2


@cache
def compile_shape(shape: str) -> re.Pattern[str]:
    """No blank gives back what it took, so that every character of a text is looked at a fixed number of times."""
    parts, position = list[str](), 0
    while position < len(shape):
        part, position = _part(shape, position)
        parts.append(part)
    _check(shape, parts)
    runs = ((part, len(list(run))) for part, run in groupby(parts))
    return re.compile("".join(_written(part, count) for part, count in runs))


def _written(part: str, count: int) -> str:
    """The same blank many times over is asked for once."""
    for blank in ("@", "?"):
        if part.startswith(_BLANKS[blank]):
            part = f"[{_characters(_BLANKS[blank])}]" + part.removeprefix(_BLANKS[blank])
    return part * count if part.endswith("+") else f"{part}{{{count}}}"


@cache
def _characters(blank: str) -> str:
    """All that a blank stands for, as ranges: looked up in a table, which takes a fourth of asking what each one is."""
    plane = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x10000)))
    return "".join(f"{run[0][0]}-{run[0][-1]}" for run in re.finditer(blank + "+", plane)) + _BEYOND


def _part(shape: str, position: int) -> tuple[str, int]:
    mark = shape[position]
    if mark == "\\":
        return _as_it_is(shape[position + 1 : position + 2]), position + 2
    if mark not in _BLANKS:
        return _as_it_is(mark), position + 1
    if shape[position + 1 : position + 2] == "+":
        return _BLANKS[mark] + "{1,32}+", position + 2
    return _BLANKS[mark], position + 1


def _as_it_is(mark: str) -> str:
    """In either case. Only these: a blank knows no case, and to look it up would take most of the time."""
    return f"(?i:{re.escape(mark)})"


def _check(shape: str, parts: list[str]) -> None:
    if not 3 <= len(shape) <= LONGEST:
        raise ConfigError(f"the pattern {shape[:40]!r} must have 3 to {LONGEST} characters")
    if shape.endswith("\\") and not shape.endswith("\\\\"):
        raise ConfigError(f"the pattern {shape!r} ends in a single backslash; write two for one")
    if sum(part.endswith("{1,32}+") for part in parts) > _MOST_REPEATS:
        raise ConfigError(
            f"the pattern {shape!r} has more than {_MOST_REPEATS} '+'; write the blanks out, or use two patterns"
        )
    if all(part in _BLANKS.values() or part.endswith("{1,32}+") for part in parts) and "#" not in shape:
        raise ConfigError(f"the pattern {shape!r} would hide every word; add some letters of its own to it")
