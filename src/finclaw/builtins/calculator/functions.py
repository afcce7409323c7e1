"""The functions of the calculator, on decimals of 260 digits.

Exact results are told from rounded ones by their length: nobody writes figures of 210 digits, and a quotient or a root
that does not end has all 260.
"""

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, Subnormal
from functools import reduce
from itertools import pairwise
from math import ceil, floor
from statistics import median
from typing import Final

MANY: Final = 1_000  # the most arguments of a function that takes any number of them
CONTEXT: Final = Context(
    prec=260, Emin=-10_000, Emax=10_000, traps=[DivisionByZero, InvalidOperation, Overflow, Subnormal]
)
_RELIABLE: Final = Context(prec=230, rounding=ROUND_HALF_UP)
_SHORT: Final = 210
ZERO: Final = Decimal(0)
ONE: Final = Decimal(1)


def settle(value: Decimal) -> Decimal:
    """Return the short number that a value differs from by rounding errors only, as in sqrt(2)^2, or the value."""
    rounded = value.normalize(_RELIABLE)
    return (rounded or ZERO) if len(rounded.as_tuple().digits) <= _SHORT else value


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def add(left: Decimal, right: Decimal) -> Decimal:
    """Return the sum, or zero for the difference of nearly equal numbers, which consists of rounding errors."""
    total = left + right
    is_noise = left and right and total.adjusted() < max(left.adjusted(), right.adjusted()) - _RELIABLE.prec
    return ZERO if is_noise else total


def subtract(left: Decimal, right: Decimal) -> Decimal:
    return add(left, -right)


def _exponential(base: Decimal, exponent: Decimal | None = None) -> Decimal:
    """exp(x), and exp(base, exponent) as the programs of financial questions have it."""
    return base.exp() if exponent is None else base**exponent


def _round_half_up(number: Decimal, places: Decimal = ZERO) -> Decimal:
    """Round half a unit away from zero, as in commerce."""
    is_possible = places == places.to_integral_value() and abs(places) <= 100
    _require(is_possible, "the places to round to are a whole number from -100 to 100")
    return number.scaleb(places).to_integral_value(ROUND_HALF_UP).scaleb(-places)


def _average(*numbers: Decimal) -> Decimal:
    return reduce(add, numbers) / len(numbers)


def _deviation(numbers: tuple[Decimal, ...], count: int) -> Decimal:
    mean = settle(_average(*numbers))
    return (reduce(add, (subtract(number, mean) ** 2 for number in numbers)) / count).sqrt()


# Money over time, with the signs and arguments of spreadsheets.


def _growth(old: Decimal, new: Decimal) -> Decimal:
    _require(old > 0, "growth is measured from something above zero; use change(old, new) for the difference")
    return subtract(new, old) / old


def _annual_growth(begin: Decimal, end: Decimal, years: Decimal) -> Decimal:
    is_possible = begin > 0 and end >= 0 and years > 0
    _require(is_possible, "cagr(begin, end, years) needs a begin and years above zero, and an end not below it")
    return subtract((end / begin) ** (1 / years), ONE)


def _compound(principal: Decimal, rate: Decimal, years: Decimal, times_a_year: Decimal = ONE) -> Decimal:
    _require(times_a_year > 0, "interest is credited more than zero times a year")
    return principal * (1 + rate / times_a_year) ** settle(times_a_year * years)


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
    growth = (1 + rate) ** periods
    if not rate:
        return growth, periods
    return growth, (1 + rate * due) * subtract(growth, ONE) / rate


def _net_present_value(rate: Decimal, *flows: Decimal) -> Decimal:
    """The first flow comes after one period."""
    factor = 1 / _grow(rate, ONE)[0]
    return factor * _discount(flows, factor)[0]


def _internal_rate(*flows: Decimal) -> Decimal:
    """The first flow is today. With one change of sign there is exactly one rate."""
    signs = [flow > 0 for flow in flows if flow]
    changes = sum(before != after for before, after in pairwise(signs))
    rates = "perhaps more than one rate" if changes else "no rate"
    _require(
        changes == 1,
        "irr needs flows that change their sign once, such as -100, 60, 60; "
        f"these change it {changes} times, so there is {rates}",
    )
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
    return subtract(1 / factor, ONE)


def _discount(flows: tuple[Decimal, ...], factor: Decimal) -> tuple[Decimal, Decimal]:
    """Return the value of the flows and its derivative by the factor."""
    value = ZERO
    slope = ZERO
    for flow in reversed(flows):
        slope = slope * factor + value
        value = value * factor + flow
    return value, slope


_OF_ONE: Final[Mapping[str, Callable[[Decimal], Decimal]]] = {
    "abs": Decimal.copy_abs,
    "floor": lambda number: Decimal(floor(number)),
    "ceil": lambda number: Decimal(ceil(number)),
    "sqrt": Decimal.sqrt,
    "ln": Decimal.ln,
    "log10": Decimal.log10,
}
_OF_TWO: Final[Mapping[str, Callable[[Decimal, Decimal], Decimal | bool]]] = {
    "add": add,
    "subtract": subtract,
    "multiply": Decimal.__mul__,
    "divide": Decimal.__truediv__,
    "power": Decimal.__pow__,
    "greater": lambda left, right: subtract(left, right) > 0,
    "less": lambda left, right: subtract(left, right) < 0,
    "pct": Decimal.__truediv__,
    "change": lambda old, new: subtract(new, old),
    "growth": _growth,
}
FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Decimal | bool], int, int]]] = {
    **{name: (function, 1, 1) for name, function in _OF_ONE.items()},
    **{name: (function, 2, 2) for name, function in _OF_TWO.items()},
    **dict.fromkeys(("sum", "table_sum"), (lambda *numbers: reduce(add, numbers), 1, MANY)),
    **dict.fromkeys(("average", "table_average"), (_average, 1, MANY)),
    **dict.fromkeys(("max", "table_max"), (lambda *numbers: max(numbers), 1, MANY)),
    **dict.fromkeys(("min", "table_min"), (lambda *numbers: min(numbers), 1, MANY)),
    "count": (lambda *numbers: Decimal(len(numbers)), 1, MANY),
    "median": (lambda *numbers: median(numbers), 1, MANY),
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
RATIOS: Final = frozenset(("pct", "growth", "cagr", "irr"))
"""Functions whose result is a part of one, which people say in percent."""
