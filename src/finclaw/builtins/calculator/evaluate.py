"""Evaluation of expressions. All work is counted, so that no expression takes long."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeVar

from finclaw.builtins.calculator.expression import (
    Chain,
    Comparison,
    Expression,
    FunctionCall,
    Link,
    ListExpression,
    Literally,
    Name,
    Negation,
    Percent,
    Power,
    Relation,
    Statement,
    StepReference,
    percents_of_the_whole,
)
from finclaw.builtins.calculator.functions import FUNCTIONS, MANY, Function
from finclaw.builtins.calculator.number import Impossible, Number
from finclaw.builtins.calculator.problem import CannotCalculate

T = TypeVar("T")
Value = Number | tuple[Number, ...] | bool

_MOST_WORK: Final = 20_000
_DEAR: Final = {"irr": 18}
"""Functions that do more for an argument than one operation."""
_HUNDRED: Final = Number(100)
_NOTHING: Final = "none"
"""A word that table functions are given for an argument they do not have."""

_COMPARE: Final[Mapping[Relation, Callable[[Number, Number], bool]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    """As it was called, or `#` and its number."""
    value: Value
    ratio: bool
    """People say it in percent."""


def evaluate(statements: Sequence[Statement]) -> tuple[Result, ...]:
    """One result for each statement. Raises CannotCalculate."""
    evaluation = _Evaluation()
    return tuple(evaluation.run(statement) for statement in statements)


class _Evaluation:
    def __init__(self) -> None:
        self._work = 0
        self._named: dict[str, Value] = {}
        self._steps: list[Value] = []

    def run(self, statement: Statement) -> Result:
        if statement.name.lower() in FUNCTIONS or statement.name.lower() in (_NOTHING, "of"):
            raise CannotCalculate(statement.at, f"{statement.name!r} has a meaning already; choose another name")
        value = self._value(statement.expression)
        name = statement.name or f"#{len(self._steps)}"
        self._steps.append(value)
        self._named[name] = value
        return Result(name, value, _is_ratio(statement.expression) and isinstance(value, Number))

    def _value(self, expression: Expression) -> Value:
        self._spend(1, expression.at)
        match expression:
            case Literally(value=value):
                return self._at(expression.at, Number, value)
            case Name() | StepReference():
                return self._look_up(expression)
            case ListExpression(items=items):
                return tuple(self._numbers(items, expression.at))
            case FunctionCall():
                return self._call(expression)
            case Comparison(left=left, relation=relation, right=right, at=at):
                return self._at(at, _COMPARE[relation], self._number(left), self._number(right))
            case _:
                return self._number(expression)

    def _number(self, expression: Expression) -> Number:
        match expression:
            case Chain():
                return self._chain(expression)
            case Percent(operand=operand, at=at):
                return self._at(at, Number.__truediv__, self._number(operand), _HUNDRED)
            case Negation(operand=operand):
                return -self._number(operand)
            case Power(base=base, exponent=exponent, at=at):
                return self._at(at, Number.__pow__, self._number(base), self._number(exponent))
            case _:
                value = self._value(expression)
        if isinstance(value, Number):
            return value
        what = "yes or no" if isinstance(value, bool) else "a row of numbers"
        raise CannotCalculate(expression.at, f"this is {what}, where one number is needed")

    def _chain(self, chain: Chain) -> Number:
        value = self._number(chain.first)
        for link, of_the_whole in zip(chain.links, percents_of_the_whole(chain), strict=True):
            self._spend(1, link.at)
            operand = self._number(link.operand)
            value = self._at(link.at, _apply_link, link, value, operand, of_the_whole)
        return value

    def _call(self, call: FunctionCall) -> Value:
        function = _function(call)
        is_table = call.name.startswith("table_")
        given = [each for each in call.arguments if not (is_table and _is_nothing(each))]
        numbers = list(self._numbers(given, call.at))
        if not function.fewest <= len(numbers) <= function.most:
            raise CannotCalculate(call.at, f"{call.name} takes {_range(function)}, and was given {len(numbers)}")
        self._spend(len(numbers) * _DEAR.get(call.name, 1), call.at)
        return self._at(call.at, function.run, *numbers)

    def _numbers(self, items: Iterable[Expression], at: int) -> Iterator[Number]:
        count = 0
        for item in items:
            value = (
                self._value(item)
                if isinstance(item, Name | StepReference | ListExpression | FunctionCall)
                else self._number(item)
            )
            if isinstance(value, bool):
                raise CannotCalculate(item.at, "this is yes or no, where a number is needed")
            unrolled = (value,) if isinstance(value, Number) else value
            count += len(unrolled)
            if count > MANY:
                raise CannotCalculate(at, f"at most {MANY} numbers; calculate in several calls")
            self._spend(len(unrolled), at)
            yield from unrolled

    def _look_up(self, place: Name | StepReference) -> Value:
        if isinstance(place, StepReference):
            if place.number >= len(self._steps):
                raise CannotCalculate(place.at, f"there is no step #{place.number} before this one")
            return self._steps[place.number]
        if place.name in self._named:
            return self._named[place.name]
        known = ", ".join(name for name in self._named if not name.startswith("#")) or "none yet"
        raise CannotCalculate(place.at, f"{place.name[:40]!r} has no value; named so far: {known[:200]}")

    def _at(self, at: int, run: Callable[..., T], *operands: object) -> T:
        try:
            return run(*operands)
        except Impossible as impossible:
            raise CannotCalculate(at, str(impossible)) from None

    def _spend(self, work: int, at: int) -> None:
        self._work += work
        if self._work > _MOST_WORK:
            raise CannotCalculate(at, "this is too much work for one call; calculate in several")


def _apply_link(link: Link, left: Number, right: Number, of_the_whole: bool) -> Number:
    right = left * right if of_the_whole else right
    match link.operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "/":
            return left / right
        case "*" | "of":
            return left * right


def _function(call: FunctionCall) -> Function:
    if call.name in FUNCTIONS:
        return FUNCTIONS[call.name]
    near = ", ".join(get_close_matches(call.name[:40], FUNCTIONS, n=3)) or None
    meant = near or ", ".join(FUNCTIONS)
    raise CannotCalculate(call.at, f"there is no function {call.name[:40]!r}; there is {meant}", suggestion=near)


def _is_nothing(expression: Expression) -> bool:
    return isinstance(expression, Name) and expression.name.lower() == _NOTHING


def _is_ratio(expression: Expression) -> bool:
    return isinstance(expression, FunctionCall) and expression.name in FUNCTIONS and FUNCTIONS[expression.name].ratio


def _range(function: Function) -> str:
    if function.fewest == function.most:
        return f"{function.most} numbers" if function.most != 1 else "one number"
    return f"{function.fewest} to {function.most} numbers"
