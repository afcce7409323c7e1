"""Conditions of a rule on a call's arguments: a path, an operator and a value. Every condition has an answer.

An answer is yes, no or "nobody can tell" (None): the path leads nowhere, a text is not a plain number, two texts
differ only in case, width or space around them, or two things are of different kinds. Where nobody can tell, the
stricter side wins: a deny or an approval applies, an allow does not. So a model gets around no limit by writing
"1,000,000 USD" or "aapl", and through no gap by leaving an argument out.
"""

import operator
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import translate
from functools import lru_cache
from typing import Any, Final, Literal, assert_never, cast

from finclaw.errors import ConfigError

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "matches-glob", "exists"]
Scalar = str | int | float | bool | None
Answer = bool | None
Question = Callable[[Mapping[str, Any]], Answer]

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,60}(\.[0-9]{1,60})?")
_LONGEST: Final = 122  # characters of a text that such a number can have
_LARGEST: Final = 512  # bits of a whole number that is still compared; nobody trades more
_ORDER: Final[Mapping[str, Callable[[Decimal, Decimal], bool]]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One question about the arguments."""

    path: str
    """Where to look, such as `amount`, `order.amount` or `legs.0.amount`."""
    op: Operator
    """How to compare: `lt` to `ge` compare numbers, exactly; `in` takes a list; `exists` takes true or false."""
    value: Scalar | tuple[Scalar, ...] = None
    """What to compare with."""

    def __post_init__(self) -> None:
        if not all(self.path.split(".")):
            raise ConfigError(f"path {self.path!r} has an empty step; write names with dots between them")
        if problem := _problem(self.op, self.value):
            raise ConfigError(f"op {self.op} of {self.path}: {problem}")

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.path} {self.op}"
        return f"{self.path} {self.op} {self.value}".rstrip()


def _problem(op: Operator, value: Scalar | tuple[Scalar, ...]) -> str:
    if op in _ORDER and number(value) is None:
        return "its value must be a plain number, without currency or separators"
    if op == "in" and not (isinstance(value, tuple) and value):
        return "its value must be a list"
    if op == "matches-glob" and not isinstance(value, str):
        return "its value must be a pattern, such as KRX-*"
    if op == "exists" and not (value is None or isinstance(value, bool)):
        return "its value must be true or false"
    if op in ("eq", "ne") and isinstance(value, tuple):
        return "its value must be a single one; a list belongs to `in`"
    return ""


def question(condition: Condition) -> Question:
    steps = tuple(condition.path.split("."))
    ask = _asked_of_value(condition)
    if condition.op == "exists":
        wanted = condition.value is not False
        return lambda args: (_at(args, steps) is not _NOTHING) == wanted
    return lambda args: None if (found := _at(args, steps)) is _NOTHING else ask(found)


def every(questions: tuple[Question, ...]) -> Question:
    """All of them: one no is a no; without one, a single doubt is a doubt."""
    if len(questions) == 1:
        return questions[0]

    def answer(args: Mapping[str, Any]) -> Answer:
        answers = [ask(args) for ask in questions]
        if False in answers:
            return False
        if None in answers:
            return None
        return True

    return answer


def _asked_of_value(condition: Condition) -> Callable[[object], Answer]:
    value = condition.value
    match condition.op:
        case "eq":
            return lambda found: same(value, found)
        case "ne":
            return lambda found: {True: False, False: True, None: None}[same(value, found)]
        case "lt" | "le" | "gt" | "ge":
            return _build_comparison(_ORDER[condition.op], cast("Decimal", number(value)))
        case "in":
            return _among(cast("tuple[Scalar, ...]", value))
        case "matches-glob":
            return _fits(str(value))
        case "exists":
            return lambda _: True
        case _:
            assert_never(condition.op)


def _build_comparison(holds: Callable[[Decimal, Decimal], bool], limit: Decimal) -> Callable[[object], Answer]:
    return lambda found: None if (figure := number(found)) is None else holds(figure, limit)


def _among(values: tuple[Scalar, ...]) -> Callable[[object], Answer]:
    def answer(found: object) -> Answer:
        answers = [same(value, found) for value in values]
        if True in answers:
            return True
        if None in answers:
            return None
        return False

    return answer


def _fits(pattern: str) -> Callable[[object], Answer]:
    exact = re.compile(translate(pattern))
    loose = re.compile(translate(_fold_text(pattern)))

    def answer(found: object) -> Answer:
        if not isinstance(found, str):
            return None
        if exact.match(found):
            return True
        if loose.match(_fold_text(found)):
            return None
        return False

    return answer


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────

_NOTHING: Final = object()


def _at(args: Mapping[str, Any], steps: tuple[str, ...]) -> object:
    node: object = args
    for step in steps:
        if type(node) is dict:  # nearly always, and quicker to tell than a mapping
            node = cast("dict[str, object]", node).get(step, _NOTHING)
        elif isinstance(node, Mapping) and step in node:
            node = cast("Mapping[str, object]", node)[step]
        elif isinstance(node, list) and (place := _place(step)) < len(cast("list[object]", node)):
            node = cast("list[object]", node)[place]
        else:
            return _NOTHING
    return node


def _place(step: str) -> int:
    if step.isascii() and step.isdigit() and len(step) <= 9:
        return int(step)
    return sys.maxsize


def same(wanted: object, found: object) -> Answer:
    if isinstance(wanted, str) and isinstance(found, str):
        return _same_text(wanted, found)
    if isinstance(wanted, bool | None) or isinstance(found, bool | None):
        if type(wanted) is not type(found):
            return None
        return wanted is found
    left = number(wanted)
    right = number(found)
    if left is None or right is None:
        return None
    return left == right


def _same_text(left: str, right: str) -> Answer:
    """None for different texts of which a tool might take one for the other."""
    if left == right:
        return True
    if _fold_text(left) == _fold_text(right):
        return None
    figure = number(left)
    if figure is not None and figure == number(right):
        return None
    return False


def _fold_text(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def number(value: object) -> Decimal | None:
    """Exactly what was written; None for everything that is not a plain, finite number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) <= _LONGEST:
        return _read(value)
    if isinstance(value, int) and value.bit_length() <= _LARGEST:
        return Decimal(value)
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal) and value.is_finite():
        return value
    return None


@lru_cache(maxsize=256)
def _read(text: str) -> Decimal | None:
    """A thousand rules may ask for the same amount of the same call."""
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    return None
