"""The syntax tree of an expression. Chains are flat: many summands are not deep."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Operator = Literal["+", "-", "*", "/", "of"]
Relation = Literal["<", "<=", ">", ">=", "==", "!="]


@dataclass(frozen=True, slots=True)
class Literally:
    value: Fraction
    at: int


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    at: int


@dataclass(frozen=True, slots=True)
class StepReference:
    """The result of an earlier statement, by its number from zero."""

    number: int
    at: int


@dataclass(frozen=True, slots=True)
class Percent:
    operand: "Expression"
    at: int


@dataclass(frozen=True, slots=True)
class Negation:
    operand: "Expression"
    at: int


@dataclass(frozen=True, slots=True)
class Link:
    operator: Operator
    operand: "Expression"
    at: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Sums or products, from left to right; never both in one."""

    first: "Expression"
    links: tuple[Link, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Power:
    base: "Expression"
    exponent: "Expression"
    at: int


@dataclass(frozen=True, slots=True)
class ListExpression:
    items: tuple["Expression", ...]
    at: int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    name: str
    arguments: tuple["Expression", ...]
    at: int


@dataclass(frozen=True, slots=True)
class Comparison:
    left: "Expression"
    relation: Relation
    right: "Expression"
    at: int


Expression = (
    Literally | Name | StepReference | Percent | Negation | Chain | Power | ListExpression | FunctionCall | Comparison
)


@dataclass(frozen=True, slots=True)
class Statement:
    """`name = expression`, or an expression alone."""

    name: str
    expression: Expression
    at: int


def figures_in(expression: Expression) -> Iterator[Fraction]:
    """The figures as they were given. An expression is as deep as the parser allows, which is not much."""
    match expression:
        case Literally(value):
            yield value
        case Name() | StepReference():
            pass
        case Percent(operand) | Negation(operand):
            yield from figures_in(operand)
        case Chain(first, links):
            for each in (first, *(link.operand for link in links)):
                yield from figures_in(each)
        case Power(one, other) | Comparison(left=one, right=other):
            yield from figures_in(one)
            yield from figures_in(other)
        case ListExpression(items) | FunctionCall(arguments=items):
            for each in items:
                yield from figures_in(each)


def is_percent(expression: Expression) -> bool:
    """15% or -15%, and nothing that was calculated from it: `a + 15%` takes these of a."""
    return isinstance(expression, Percent) or (isinstance(expression, Negation) and is_percent(expression.operand))


def percents_of_the_whole(chain: Chain) -> tuple[bool, ...]:
    """For each link, whether it adds or takes away a part of all that stands before it.

    After percents alone there is nothing to take a part of: 10% + 5% is 15%.
    """
    only_percents, found = is_percent(chain.first), list[bool]()
    for link in chain.links:
        percent = link.operator in ("+", "-") and is_percent(link.operand)
        found.append(percent and not only_percents)
        only_percents = only_percents and percent
    return tuple(found)
