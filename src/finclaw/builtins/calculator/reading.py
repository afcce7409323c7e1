"""An expression written back in plain arithmetic, so that nobody wonders how it was understood.

What comes out can be calculated again and gives the same: percents are divisions, units are zeros, signs are gone.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from finclaw.builtins.calculator.expression import (
    Chain,
    Comparison,
    Expression,
    FunctionCall,
    ListExpression,
    Literally,
    Name,
    Negation,
    Percent,
    Power,
    Statement,
    StepReference,
    percents_of_the_whole,
)
from finclaw.builtins.calculator.number import finite

_LONGEST: Final = 4_000
"""Digits that a number can have that was written down: all of them are finite."""

_RELATION, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(6)
"""How tightly a text holds together."""


class _Text(NamedTuple):
    text: str
    strength: int

    def at_least(self, strength: int) -> str:
        return self.text if self.strength >= strength else f"({self.text})"


def reading(statements: Sequence[Statement]) -> str:
    return "; ".join(_statement(each) for each in statements)


def _statement(statement: Statement) -> str:
    text = _write(statement.expression).text
    return f"{statement.name} = {text}" if statement.name else text


def _write(expression: Expression) -> _Text:
    match expression:
        case Percent(operand=operand):
            return _Text(f"{_write(operand).at_least(_ATOM)}/100", _PRODUCT)
        case Negation(operand=operand):
            return _Text(f"-{_write(operand).at_least(_ATOM)}", _SIGN)
        case Power(base=base, exponent=exponent):
            return _Text(f"{_write(base).at_least(_ATOM)}^{_write(exponent).at_least(_ATOM)}", _POWER)
        case Comparison(left=left, relation=relation, right=right):
            return _Text(f"{_write(left).text} {relation} {_write(right).text}", _RELATION)
        case Chain():
            return _chain(expression)
        case _:
            return _Text(_atom(expression), _ATOM)


def _atom(expression: Literally | Name | StepReference | ListExpression | FunctionCall) -> str:
    match expression:
        case Literally(value=value):
            return _digits(value)
        case Name(name=name):
            return name
        case StepReference(number=number):
            return f"#{number}"
        case ListExpression(items=items):
            return f"[{_list(items)}]"
        case FunctionCall(name=name, arguments=arguments):
            return f"{name}({_list(arguments)})"


def _chain(chain: Chain) -> _Text:
    so_far = _write(chain.first)
    for link, of_the_whole in zip(chain.links, percents_of_the_whole(chain), strict=True):
        operand = _write(link.operand)
        if of_the_whole:
            factor = f"(1 {link.operator} {operand.at_least(_PRODUCT)})"
            so_far = _Text(f"{so_far.at_least(_PRODUCT)} * {factor}", _PRODUCT)
        elif link.operator in ("+", "-"):
            so_far = _Text(f"{so_far.text} {link.operator} {operand.at_least(_PRODUCT)}", _SUM)
        else:
            sign = "*" if link.operator == "of" else link.operator
            so_far = _Text(f"{so_far.at_least(_PRODUCT)} {sign} {operand.at_least(_SIGN)}", _PRODUCT)
    return so_far


def _digits(value: Fraction) -> str:
    digits = finite(value, _LONGEST)
    text = str(value) if digits is None else format(digits, "f")
    return f"({text})" if value < 0 else text


def _list(items: Sequence[Expression]) -> str:
    return ", ".join(_write(each).text for each in items)
