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
_LONGEST: Final = 122
"""Characters of a text that such a number can have."""
_LARGEST: Final = 512
"""Bits of a whole number that is still compared; nobody trades more."""
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
        return f"{self.path} {self.op} {'' if self.value is None else self.value}".rstrip()


def _problem(op: Operator, value: Scalar | tuple[Scalar, ...]) -> str:
    match op:
        case "lt" | "le" | "gt" | "ge":
            return (
                "" if number(value) is not None else "its value must be a plain number, without currency or separators"
            )
        case "in":
            return "" if isinstance(value, tuple) and value else "its value must be a list"
        case "matches-glob":
            return "" if isinstance(value, str) else "its value must be a pattern, such as KRX-*"
        case "exists":
            return "" if value is None or isinstance(value, bool) else "its value must be true or false"
        case "eq" | "ne":
            return "" if not isinstance(value, tuple) else "its value must be a single one; a list belongs to `in`"
        case _:
            assert_never(op)


def question(condition: Condition) -> Question:
    """The condition, prepared once."""
    steps, ask = tuple(condition.path.split(".")), _asked_of_value(condition)
    if condition.op == "exists":
        wanted = condition.value is not False
        return lambda args: (_at(args, steps) is not _NOTHING) == wanted

    def answer(args: Mapping[str, Any]) -> Answer:
        found = _at(args, steps)
        return None if found is _NOTHING else ask(found)

    return answer


def every(questions: tuple[Question, ...]) -> Question:
    """All of them: one no is a no; without one, a single doubt is a doubt."""
    if len(questions) == 1:
        return questions[0]

    def answer(args: Mapping[str, Any]) -> Answer:
        answers = [ask(args) for ask in questions]
        return False if False in answers else None if None in answers else True

    return answer


def _asked_of_value(condition: Condition) -> Callable[[object], Answer]:
    value = condition.value
    match condition.op:
        case "eq":
            return lambda found: same(value, found)
        case "ne":
            return lambda found: None if (answer := same(value, found)) is None else not answer
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
        return True if True in answers else None if None in answers else False

    return answer


def _fits(pattern: str) -> Callable[[object], Answer]:
    exact, loose = re.compile(translate(pattern)), re.compile(translate(_fold_text(pattern)))

    def answer(found: object) -> Answer:
        if not isinstance(found, str):
            return None
        return True if exact.match(found) else None if loose.match(_fold_text(found)) else False

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
    return int(step) if step.isascii() and step.isdigit() and len(step) <= 9 else sys.maxsize


def same(wanted: object, found: object) -> Answer:
    if isinstance(wanted, str) and isinstance(found, str):
        return True if wanted == found else None if _alike(wanted, found) else False
    if isinstance(wanted, bool) or isinstance(found, bool) or wanted is None or found is None:
        return wanted is found if type(wanted) is type(found) else None
    left, right = number(wanted), number(found)
    return None if left is None or right is None else left == right


def _alike(left: str, right: str) -> bool:
    """Different, but a tool might take one for the other."""
    if _fold_text(left) == _fold_text(right):
        return True
    figure = number(left)
    return figure is not None and figure == number(right)


def _fold_text(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def number(value: object) -> Decimal | None:
    """Exactly what was written; None for everything that is not a plain, finite number."""
    if isinstance(value, str):
        return _read(value) if len(value) <= _LONGEST else None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Decimal(value) if value.bit_length() <= _LARGEST else None
    if isinstance(value, float | Decimal):
        figure = Decimal(repr(value)) if isinstance(value, float) else value
        return figure if figure.is_finite() else None
    return None


@lru_cache(maxsize=256)
def _read(text: str) -> Decimal | None:
    """A thousand rules may ask for the same amount of the same call."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None
