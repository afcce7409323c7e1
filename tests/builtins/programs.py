"""Generated expressions and their exact values."""

from decimal import Decimal
from fractions import Fraction as F

from finclaw.builtins.calculator.evaluate import Result, Value, evaluate
from finclaw.builtins.calculator.steps import read_tokens


def results(expression: str) -> list[Result]:
    return evaluate(read_tokens(expression)[0])


def last(expression: str) -> Value:
    return results(expression)[-1].value


def exact(expression: str) -> F:
    """Return the only fraction of reasonable length that the 260 digits of the result can stand for."""
    value = last(expression)
    assert isinstance(value, Decimal)
    if len(value.as_tuple().digits) <= 200:
        return F(value)
    found = F(value).limit_denominator(10**120)
    assert abs(found - F(value)) <= abs(found) / 10**225, f"{expression} was rounded"
    return found


def reading(expression: str) -> str:
    return "; ".join(result.reading for result in results(expression))
