"""Generated expressions and their exact values."""

from fractions import Fraction as F

from finclaw.builtins.calculator.evaluate import Result, Value, evaluate
from finclaw.builtins.calculator.functions import Number
from finclaw.builtins.calculator.steps import read_steps


def results(expression: str) -> list[Result]:
    return evaluate(read_steps(expression)[0])


def last(expression: str) -> Value:
    return results(expression)[-1].value


def exact(expression: str) -> F:
    value = last(expression)
    assert isinstance(value, Number)
    assert isinstance(value.value, F), f"{expression} was rounded"
    return value.value


def reading(expression: str) -> str:
    return "; ".join(result.reading for result in results(expression))
