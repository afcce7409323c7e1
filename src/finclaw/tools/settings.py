"""Settings of tools: rules, what models see, and the options of the result guard with the operator's own patterns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Final

from finclaw.errors import ConfigError
from finclaw.policy.rule import Rule, compile_pattern

_READER: Final = "read_result"
"""This tool gives what a guard has stored, in parts of its own size; cut again, they would have no end."""


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """The limits and switches of the guard; a tool may have its own."""

    shown: int = 10_000
    """The most characters the model is given."""
    stored: int = 100_000
    """The most characters kept aside for `read_result` when the model is given less."""
    allow_html: bool = False
    """Leave markup in, for a tool whose markup is wanted."""
    redact_finance: bool = True
    """Hide card, account and personal numbers; keys and passwords are hidden in any case."""
    patterns: tuple[str, ...] = ()
    """More to hide, as plain text with blanks: '#' is a digit, '@' a letter, '?' either, '+' more of them."""

    def __post_init__(self) -> None:
        if not 0 <= self.shown <= self.stored:
            raise ConfigError(f"shown ({self.shown}) must be between 0 and stored ({self.stored})")
        for pattern in self.patterns:
            compile_operator_pattern(pattern)


DEFAULT: Final = GuardOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFor:
    """Overrides for the results of some tools; a value left out is as for all tools."""

    tool: str
    """A tool's name, or a pattern such as `market__*`."""
    shown: int | None = None
    """The most characters the model is given."""
    stored: int | None = None
    """The most characters kept aside for `read_result`."""
    allow_html: bool | None = None
    """Leave markup in."""
    redact_finance: bool | None = None
    """Hide card, account and personal numbers."""

    def __post_init__(self) -> None:
        compile_pattern(self.tool)

    def over(self, usual: GuardOptions) -> GuardOptions:
        names = ("shown", "stored", "allow_html", "redact_finance")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return replace(usual, **given)


class GuardChoice:
    def __init__(self, usual: GuardOptions = DEFAULT, special: Sequence[GuardFor] = ()) -> None:
        """The last of several overrides that fit a tool wins. Raises ConfigError for limits that contradict."""
        self._usual = usual
        self._special = [(compile_pattern(each.tool), each) for each in special]
        self._chosen: dict[str, GuardOptions] = {}
        for each in special:
            each.over(usual)

    def of(self, tool: str) -> GuardOptions:
        if tool not in self._chosen:
            options = self._usual
            for pattern, special in self._special:
                if pattern.matches(tool):
                    options = special.over(options)
            if tool == _READER and options.shown < DEFAULT.shown:
                options = replace(options, shown=DEFAULT.shown, stored=max(options.stored, DEFAULT.shown))
            self._chosen[tool] = options
        return self._chosen[tool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsSettings:
    """Which tools may run for whom, and which the model sees."""

    rules: tuple[Rule, ...] = ()
    """The policy, such as `{pattern: "order__*", verdict: deny, scope: channel, who: [telegram]}`. `finclaw explain
    tool NAME` shows what it comes to. A tool that moves money needs a person whatever stands here."""
    show: tuple[str, ...] = ()
    """Tools that the model always sees though their group is shown on demand only, by name or pattern."""
    guard: GuardOptions = field(default_factory=GuardOptions)
    """What is done to every result before the model reads it."""
    guards: tuple[GuardFor, ...] = ()
    """What is otherwise for some tools, such as `{tool: "market__history", shown: 30000}`; later ones win."""

    def __post_init__(self) -> None:
        try:
            for each in self.show:
                compile_pattern(each)
        except ConfigError as error:
            raise ConfigError(f"show is wrong: {error}") from error
        try:
            GuardChoice(self.guard, self.guards)
        except ConfigError as error:
            raise ConfigError(f"guards is wrong: {error}") from error


# ── the operator's own patterns ───────────────────────────────────────────────────────────────────────────

# An operator's own pattern is plain text with blanks in it, never a regular expression that a text can make slow.
#
# EMP-######      '#' is a digit
# @@-????         '@' is a letter, '?' a letter or a digit
# key_?+          '+' means one or more of them, at most 32; at most two of these
# \#12            '\' takes the next character as it is

_LONGEST: Final = 100
_BLANKS: Final = {"#": "[0-9]", "@": r"[^\W\d_]", "?": r"[^\W_]"}
_BEYOND: Final = "\U00010000-\U0001cfff\U0001d400-\U0001d7cd\U0001e000-\U0001efff\U00020000-\U0003ffff"
"""Scripts beyond the first plane; digits from there have become plain ones before anything is looked for."""
_MOST_REPEATS: Final = 2


@cache
def compile_operator_pattern(shape: str) -> re.Pattern[str]:
    """No blank gives back what it took, so that every character of a text is looked at a fixed number of times."""
    parts: list[str] = []
    position = 0
    while position < len(shape):
        part, position = _read_part(shape, position)
        parts.append(part)
    _check_pattern(shape, parts)
    runs = ((part, len(list(run))) for part, run in groupby(parts))
    return re.compile("".join(_write_run(part, count) for part, count in runs))


def _write_run(part: str, count: int) -> str:
    """The same blank many times over is asked for once."""
    for blank in ("@", "?"):
        if part.startswith(_BLANKS[blank]):
            part = f"[{_list_characters(_BLANKS[blank])}]" + part.removeprefix(_BLANKS[blank])
    return part * count if part.endswith("+") else f"{part}{{{count}}}"


@cache
def _list_characters(blank: str) -> str:
    """All that a blank stands for, as ranges: looked up in a table, which takes a fourth of asking what each one is."""
    plane = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x10000)))
    return "".join(f"{run[0][0]}-{run[0][-1]}" for run in re.finditer(blank + "+", plane)) + _BEYOND


def _read_part(shape: str, position: int) -> tuple[str, int]:
    mark = shape[position]
    if mark == "\\":
        return _write_literal(shape[position + 1 : position + 2]), position + 2
    if mark not in _BLANKS:
        return _write_literal(mark), position + 1
    if shape[position + 1 : position + 2] == "+":
        return _BLANKS[mark] + "{1,32}+", position + 2
    return _BLANKS[mark], position + 1


def _write_literal(mark: str) -> str:
    """In either case. Only these: a blank knows no case, and to look it up would take most of the time."""
    return f"(?i:{re.escape(mark)})"


def _check_pattern(shape: str, parts: list[str]) -> None:
    if not 3 <= len(shape) <= _LONGEST:
        raise ConfigError(f"the pattern {shape[:40]!r} must have 3 to {_LONGEST} characters")
    if shape.endswith("\\") and not shape.endswith("\\\\"):
        raise ConfigError(f"the pattern {shape!r} ends in a single backslash; write two for one")
    if sum(part.endswith("{1,32}+") for part in parts) > _MOST_REPEATS:
        raise ConfigError(
            f"the pattern {shape!r} has more than {_MOST_REPEATS} '+'; write the blanks out, or use two patterns"
        )
    if all(part in _BLANKS.values() or part.endswith("{1,32}+") for part in parts) and "#" not in shape:
        raise ConfigError(f"the pattern {shape!r} would hide every word; add some letters of its own to it")
