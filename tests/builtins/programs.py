"""Generated expressions and their exact values."""

from fractions import Fraction as F

from finclaw.builtins.calculator.evaluate import Value, evaluate
from finclaw.builtins.calculator.number import Number
from finclaw.builtins.calculator.parser import parse
from finclaw.builtins.calculator.word import read_words


def last(expression: str) -> Value:
    return evaluate(parse(read_words(expression)))[-1].value


def exact(expression: str) -> F:
    value = last(expression)
    assert isinstance(value, Number)
    assert value.exact is not None, f"{expression} was rounded"
    return value.exact
