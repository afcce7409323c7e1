"""The functions of the calculator, on decimals of 260 digits.

Exact results are told from rounded ones by their length: nobody writes figures of 210 digits, and a quotient or a root
that does not end has all 260.
"""

import ast
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, Subnormal, getcontext, localcontext
from functools import partial, reduce
from itertools import pairwise
from statistics import median_high, median_low
from typing import Final

MANY: Final = 1_000  # the most arguments of a function that takes any number of them
CONTEXT: Final = Context(
    prec=260, Emin=-10_000, Emax=10_000, traps=[DivisionByZero, InvalidOperation, Overflow, Subnormal]
)
_RELIABLE: Final = Context(prec=230, rounding="ROUND_HALF_UP")
EXACT: Final = Context(prec=2_000)
_SHORT: Final = 210
_UNRELATED: Final = "these numbers have too many digits, or differ too much in size, for an exact result"
ZERO: Final = Decimal(0)
ONE: Final = Decimal(1)


def settle(value: Decimal) -> Decimal:
    """Return the short number that a value differs from by rounding errors only, as in sqrt(2)^2, or the value."""
    rounded = value.normalize(_RELIABLE)
    return (rounded or ZERO) if is_short(rounded) else value


def is_short(value: Decimal) -> bool:
    return len(value.as_tuple().digits) <= _SHORT


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def add(left: Decimal, right: Decimal) -> Decimal:
    """Return the sum, or zero for the difference of nearly equal numbers, which consists of rounding errors.

    A sum whose lost digits a later difference would miss is refused: 10^300 + 1 - 10^300 is not 0.
    """
    total = left + right
    if not (left and right):
        return total
    high = max(left.adjusted(), right.adjusted())
    if is_short(left) and is_short(right):
        lowest = min(int(number.as_tuple().exponent) for number in (left, right))
        _require(high - lowest <= _SHORT, _UNRELATED)
        return total
    _require(min(left.adjusted(), right.adjusted()) >= high - 200, _UNRELATED)
    if total.adjusted() >= high - 50:
        return total
    _require(high <= 200 and total.adjusted() < high - _RELIABLE.prec, _UNRELATED)
    return ZERO


def subtract(left: Decimal, right: Decimal) -> Decimal:
    return add(left, -right)


def compare(left: Decimal, right: Decimal) -> Decimal:
    """Return a number with the sign of the difference."""
    is_certain = abs(left.adjusted() - right.adjusted()) > 1 or (is_short(left) and is_short(right))
    return left - right if is_certain else subtract(left, right)


def _operate(operation: Callable[[Context, Decimal, Decimal], Decimal], left: Decimal, right: Decimal) -> Decimal:
    """Refuse a result that only looks exact because its last digits stand behind many zeros."""
    result = operation(getcontext(), left, right)
    settled = settle(result)
    if all(map(is_short, (left, right, settled))) and right == right.to_integral_value():
        _require(settled == operation(EXACT, left, right), _UNRELATED)
    return result


multiply: Final = partial(_operate, Context.multiply)
power: Final = partial(_operate, Context.power)


def _exponential(base: Decimal, exponent: Decimal | None = None) -> Decimal:
    """exp(x), and exp(base, exponent) as the programs of financial questions have it."""
    return base.exp() if exponent is None else power(base, exponent)


def _round_half_up(number: Decimal, places: Decimal = ZERO) -> Decimal:
    """Round half a unit away from zero, as in commerce."""
    is_possible = places == places.to_integral_value() and abs(places) <= 100
    _require(is_possible, "the places to round to are a whole number from -100 to 100")
    digits = int(places)
    return number.scaleb(digits).to_integral_value("ROUND_HALF_UP").scaleb(-digits)


def _average(*numbers: Decimal) -> Decimal:
    return reduce(add, numbers) / len(numbers)


def _deviation(numbers: tuple[Decimal, ...], count: int) -> Decimal:
    mean = settle(_average(*numbers))
    return (reduce(add, (subtract(number, mean) ** 2 for number in numbers)) / count).sqrt()


# Money over time, with the signs and arguments of spreadsheets.


def _change(old: Decimal, new: Decimal) -> Decimal:
    return subtract(new, old)


def _growth(old: Decimal, new: Decimal) -> Decimal:
    _require(old > 0, "growth is measured from something above zero; use change(old, new) for the difference")
    return subtract(new, old) / old


def _annual_growth(begin: Decimal, end: Decimal, years: Decimal) -> Decimal:
    is_possible = begin > 0 and end >= 0 and years > 0
    _require(is_possible, "cagr(begin, end, years) needs a begin and years above zero, and an end not below it")
    return subtract((end / begin) ** (1 / years), ONE)


def _compound(principal: Decimal, rate: Decimal, years: Decimal, times_a_year: Decimal = ONE) -> Decimal:
    _require(times_a_year > 0, "interest is credited more than zero times a year")
    return principal * add(ONE, rate / times_a_year) ** settle(times_a_year * years)


def _present_value(rate: Decimal, periods: Decimal, pmt: Decimal, fv: Decimal = ZERO, due: Decimal = ZERO) -> Decimal:
    growth, annuity = _grow(rate, periods, due)
    return -add(fv, pmt * annuity) / growth


def _future_value(rate: Decimal, periods: Decimal, pmt: Decimal, pv: Decimal = ZERO, due: Decimal = ZERO) -> Decimal:
    growth, annuity = _grow(rate, periods, due)
    return -add(pv * growth, pmt * annuity)


def _payment(rate: Decimal, periods: Decimal, pv: Decimal, fv: Decimal = ZERO, due: Decimal = ZERO) -> Decimal:
    growth, annuity = _grow(rate, periods, due)
    return -add(pv * growth, fv) / annuity


def _grow(rate: Decimal, periods: Decimal, due: Decimal = ZERO) -> tuple[Decimal, Decimal]:
    """Return the final values of one unit today and of one unit a period, at its beginning if `due` is 1."""
    _require(rate > -1, "the rate is above -1, that is -100%")
    _require(due in (0, 1), "the last argument is 0 for payments at the end of a period, or 1 for the beginning")
    growth = power(add(ONE, rate), periods)
    if not rate:
        return growth, periods
    return growth, (1 + rate * due) * (growth - 1) / rate


def _net_present_value(rate: Decimal, *flows: Decimal) -> Decimal:
    """The first flow comes after one period."""
    factor = 1 / _grow(rate, ONE)[0]
    return factor * _discount(flows, factor)[0]


def _internal_rate(*flows: Decimal) -> Decimal:
    """The first flow is today. With one change of sign there is exactly one rate."""
    signs = [flow > 0 for flow in flows if flow]
    changes = sum(before != after for before, after in pairwise(signs))
    rates = "perhaps more than one rate" if changes else "no rate"
    advice = f"these change it {changes} times, so there is {rates}"
    _require(changes == 1, f"irr needs flows that change their sign once, such as -100, 60, 60; {advice}")
    with localcontext(Emin=-100_000, Emax=100_000):  # for powers of the factor
        low = ZERO
        factor = high = Decimal(10**12)
        is_found = (_discount(flows, high)[0] > 0) is signs[-1]
        _require(is_found, "no rate above -100% makes these flows worth nothing")
        for _ in range(260):  # enough for sixty digits, wherever the root is
            factor = (low + high) / 2
            if (_discount(flows, factor)[0] > 0) is signs[-1]:
                high = factor
            else:
                low = factor
        for _ in range(4):  # by Newton's method, which doubles the digits
            value, slope = _discount(flows, factor)
            factor -= value / slope
    return subtract(settle(1 / factor), ONE)


def _discount(flows: tuple[Decimal, ...], factor: Decimal) -> tuple[Decimal, Decimal]:
    """Return the value of the flows and its derivative by the factor."""
    value = ZERO
    slope = ZERO
    for flow in reversed(flows):
        slope = slope * factor + value
        value = value * factor + flow
    return value, slope


OPERATORS: Final[Mapping[type[ast.AST], Callable[[Decimal, Decimal], Decimal | bool]]] = {
    **{ast.Add: add, ast.Sub: subtract, ast.Mult: multiply, ast.Div: Decimal.__truediv__, ast.Pow: power},
    ast.Lt: lambda left, right: compare(left, right) < 0,
    ast.LtE: lambda left, right: compare(left, right) <= 0,
    ast.Gt: lambda left, right: compare(left, right) > 0,
    ast.GtE: lambda left, right: compare(left, right) >= 0,
    ast.Eq: lambda left, right: not compare(left, right),
    ast.NotEq: lambda left, right: bool(compare(left, right)),
}
FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Decimal | bool], int, int]]] = {
    "add": (add, 2, 2),
    "subtract": (subtract, 2, 2),
    "multiply": (multiply, 2, 2),
    "divide": (Decimal.__truediv__, 2, 2),
    "power": (power, 2, 2),
    "greater": (OPERATORS[ast.Gt], 2, 2),
    "less": (OPERATORS[ast.Lt], 2, 2),
    "abs": (Decimal.copy_abs, 1, 1),
    "floor": (partial(Decimal.to_integral_value, rounding="ROUND_FLOOR"), 1, 1),
    "ceil": (partial(Decimal.to_integral_value, rounding="ROUND_CEILING"), 1, 1),
    "sqrt": (Decimal.sqrt, 1, 1),
    "ln": (Decimal.ln, 1, 1),
    "log10": (Decimal.log10, 1, 1),
    "pct": (Decimal.__truediv__, 2, 2),
    "change": (_change, 2, 2),
    "growth": (_growth, 2, 2),
    **dict.fromkeys(("sum", "table_sum"), (lambda *numbers: reduce(add, numbers), 1, MANY)),
    **dict.fromkeys(("average", "table_average"), (_average, 1, MANY)),
    **dict.fromkeys(("max", "table_max"), (lambda *numbers: max(numbers), 1, MANY)),
    **dict.fromkeys(("min", "table_min"), (lambda *numbers: min(numbers), 1, MANY)),
    "count": (lambda *numbers: Decimal(len(numbers)), 1, MANY),
    "median": (lambda *numbers: _average(median_low(numbers), median_high(numbers)), 1, MANY),
    "stdev": (lambda *numbers: _deviation(numbers, len(numbers) - 1), 2, MANY),
    "stdevp": (lambda *numbers: _deviation(numbers, len(numbers)), 1, MANY),
    "round": (_round_half_up, 1, 2),
    "exp": (_exponential, 1, 2),
    "cagr": (_annual_growth, 3, 3),
    "compound": (_compound, 3, 4),
    "pv": (_present_value, 3, 5),
    "fv": (_future_value, 3, 5),
    "pmt": (_payment, 3, 5),
    "npv": (_net_present_value, 2, MANY),
    "irr": (_internal_rate, 2, MANY),
}
"""Each function with the fewest and the most arguments."""
RATIOS: Final = frozenset(("pct", "growth", "cagr", "irr"))  # parts of one, which people say in percent
