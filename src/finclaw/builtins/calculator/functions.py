"""Numbers and functions of the calculator. Results are exact fractions as long as possible, else sixty digits."""

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from fractions import Fraction
from functools import total_ordering
from itertools import pairwise
from math import ceil, floor
from typing import Final

MANY: Final = 1_000
"""The most arguments of a function that takes any number of them."""
_LARGEST: Final = 10_000
"""The most digits before or after the point. Anything beyond is a mistake and would take too long."""
_EXACT_BITS: Final = 4_096
"""A fraction with a longer numerator or denominator becomes a decimal."""
_SHORT: Final = 20
"""A decimal with at most so many of its reliable digits is exact: the rest is a rounding error, as in sqrt(6.25)."""

WORKING: Final = Context(prec=60, traps=[InvalidOperation, DivisionByZero, Overflow])
_RELIABLE: Final = Context(prec=45, rounding=ROUND_HALF_UP)
"""The digits of a decimal that decisions use, because the last of the sixty may be wrong."""


class Impossible(Exception):
    """An operation that has no value, or none that can be computed. The evaluator adds the position."""


@total_ordering
class Number:
    """A fraction, or a decimal that is correct to about sixty digits."""

    __slots__ = ("value",)

    def __init__(self, value: Fraction | Decimal | int) -> None:
        near = value if isinstance(value, Decimal) else to_decimal(Fraction(value), WORKING)
        _require(not near or abs(near.adjusted()) <= _LARGEST, "the result is too large or too small")
        self.value: Fraction | Decimal = near
        if not isinstance(value, Decimal):
            fraction = Fraction(value)
            if _bits(fraction) <= _EXACT_BITS:
                self.value = fraction
        elif abs(near.adjusted()) < _LARGEST / 10:
            rounded = near.normalize(_RELIABLE)
            if len(rounded.as_tuple().digits) <= _SHORT:
                self.value = Fraction(rounded)

    @property
    def near(self) -> Decimal:
        return self.value if isinstance(self.value, Decimal) else to_decimal(self.value, WORKING)

    @property
    def reliable(self) -> Fraction:
        """The value for decisions such as rounding: a decimal a hair below five is five."""
        return Fraction(_RELIABLE.plus(self.value)) if isinstance(self.value, Decimal) else self.value

    def __add__(self, other: "Number") -> "Number":
        if isinstance(self.value, Fraction) and isinstance(other.value, Fraction):
            return Number(self.value + other.value)
        result = WORKING.add(self.near, other.near)
        # The difference of two nearly equal numbers consists of rounding errors.
        is_noise = result.adjusted() < max(self.near.adjusted(), other.near.adjusted()) - _RELIABLE.prec
        return ZERO if is_noise else Number(result)

    def __sub__(self, other: "Number") -> "Number":
        return self + -other

    def __mul__(self, other: "Number") -> "Number":
        if isinstance(self.value, Fraction) and isinstance(other.value, Fraction):
            return Number(self.value * other.value)
        return Number(WORKING.multiply(self.near, other.near))

    def __truediv__(self, other: "Number") -> "Number":
        _require(bool(other.value), "division by zero")
        if isinstance(self.value, Fraction) and isinstance(other.value, Fraction):
            return Number(self.value / other.value)
        return Number(WORKING.divide(self.near, other.near))

    def __pow__(self, exponent: "Number") -> "Number":
        power = exponent.reliable
        is_whole = power.denominator == 1
        _require(bool(self.value) or power > 0, "zero to a power of zero or less has no value")
        _require(self.value >= 0 or is_whole, "a negative number has no power that is not whole")
        if not self.value or abs(self.value) == 1:
            return self if power.numerator % 2 else abs(self)
        if isinstance(self.value, Fraction) and is_whole and _bits(self.value) * abs(power) <= _EXACT_BITS:
            return Number(self.value**power.numerator)
        count = Decimal(power.numerator) if is_whole else exponent.near
        is_possible = abs(count) <= 10**15 and abs(WORKING.log10(abs(self.near)) * count) <= _LARGEST
        _require(is_possible, "the power is too large or too small")
        return Number(WORKING.power(self.near, count))

    def __neg__(self) -> "Number":
        return Number(-self.value)

    def __abs__(self) -> "Number":
        return -self if self.value < 0 else self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and not (self - other).value

    def __lt__(self, other: "Number") -> bool:
        return (self - other).value < 0

    __hash__ = None  # pyright: ignore[reportAssignmentType] - nearly equal numbers are equal, so there is no hash


def to_decimal(value: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise Impossible(problem)


ZERO: Final = Number(0)
ONE: Final = Number(1)


# ── one number ──────────────────────────────────────────────────────────────────────────────────────────────


def _square_root(number: Number) -> Number:
    _require(number.value >= 0, "a negative number has no square root")
    return number ** Number(Fraction(1, 2))


def _natural_logarithm(number: Number) -> Number:
    _require(number.value > 0, "only a positive number has a logarithm")
    return Number(WORKING.ln(number.near))


def _decimal_logarithm(number: Number) -> Number:
    _require(number.value > 0, "only a positive number has a logarithm")
    return Number(WORKING.log10(number.near))


def _exponential(base: Number, exponent: Number | None = None) -> Number:
    """exp(x), and exp(base, exponent) as the programs of financial questions have it."""
    if exponent is not None:
        return base**exponent
    _require(abs(base.near) <= 2.3 * _LARGEST, "the result is too large or too small")
    return Number(WORKING.exp(base.near))


def _floor(number: Number) -> Number:
    return Number(floor(number.reliable))


def _ceil(number: Number) -> Number:
    return Number(ceil(number.reliable))


def _round_half_up(number: Number, places: Number = ZERO) -> Number:
    """Round half a unit away from zero, as in commerce."""
    digits = places.reliable
    is_possible = digits.denominator == 1 and abs(digits) <= 100
    _require(is_possible, "the places to round to are a whole number from -100 to 100")
    scale = Fraction(10) ** digits.numerator
    size = Number(floor(abs(number.reliable) * scale + Fraction(1, 2)) / scale)
    return -size if number.value < 0 else size


# ── many numbers ────────────────────────────────────────────────────────────────────────────────────────────


def _total(*numbers: Number) -> Number:
    return sum(numbers, start=ZERO)


def _average(*numbers: Number) -> Number:
    return _total(*numbers) / Number(len(numbers))


def _median(*numbers: Number) -> Number:
    ordered = sorted(numbers)
    return _average(ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2])


def _sample_deviation(*numbers: Number) -> Number:
    return _square_root(_sum_squares(numbers) / Number(len(numbers) - 1))


def _population_deviation(*numbers: Number) -> Number:
    return _square_root(_sum_squares(numbers) / Number(len(numbers)))


def _sum_squares(numbers: tuple[Number, ...]) -> Number:
    mean = _average(*numbers)
    return _total(*((number - mean) * (number - mean) for number in numbers))


# ── growth, and money over time, with the signs and arguments of spreadsheets ───────────────────────────────


def _change(old: Number, new: Number) -> Number:
    return new - old


def _growth(old: Number, new: Number) -> Number:
    _require(old.value > 0, "growth is measured from something above zero; use change(old, new) for the difference")
    return (new - old) / old


def _annual_growth(begin: Number, end: Number, years: Number) -> Number:
    is_possible = begin.value > 0 and end.value >= 0 and years.value > 0
    _require(is_possible, "cagr(begin, end, years) needs a begin and years above zero, and an end not below it")
    return (end / begin) ** (ONE / years) - ONE


def _compound(principal: Number, rate: Number, years: Number, times_a_year: Number = ONE) -> Number:
    _require(times_a_year.value > 0, "interest is credited more than zero times a year")
    return principal * (ONE + rate / times_a_year) ** (times_a_year * years)


def _present_value(rate: Number, periods: Number, pmt: Number, fv: Number = ZERO, due: Number = ZERO) -> Number:
    return -(fv + pmt * _annuity(rate, periods, due)) / _grow(rate, periods)


def _future_value(rate: Number, periods: Number, pmt: Number, pv: Number = ZERO, due: Number = ZERO) -> Number:
    return -(pv * _grow(rate, periods) + pmt * _annuity(rate, periods, due))


def _payment(rate: Number, periods: Number, pv: Number, fv: Number = ZERO, due: Number = ZERO) -> Number:
    return -(pv * _grow(rate, periods) + fv) / _annuity(rate, periods, due)


def _grow(rate: Number, periods: Number) -> Number:
    _require(rate.value > -1, "the rate is above -1, that is -100%")
    return (ONE + rate) ** periods


def _annuity(rate: Number, periods: Number, due: Number) -> Number:
    """Return the final value of one unit a period; `due` is 1 for payments at the beginning of each period."""
    is_known = due in (ZERO, ONE)
    _require(is_known, "the last argument is 0 for payments at the end of a period, or 1 for the beginning")
    if rate == ZERO:
        return periods
    return (ONE + rate * due) * (_grow(rate, periods) - ONE) / rate


def _net_present_value(rate: Number, *flows: Number) -> Number:
    """The first flow comes after one period."""
    factor = ONE / _grow(rate, ONE)
    value = ZERO
    for flow in reversed(flows):
        value = (value + flow) * factor
    return value


def _internal_rate(*flows: Number) -> Number:
    """The first flow is today. With one change of sign there is exactly one rate, which halving finds."""
    signs = [flow.value > 0 for flow in flows if flow.value]
    changes = sum(before != after for before, after in pairwise(signs))
    rates = "perhaps more than one rate" if changes else "no rate"
    _require(
        changes == 1,
        "irr needs flows that change their sign once, such as -100, 60, 60; "
        f"these change it {changes} times, so there is {rates}",
    )
    is_positive = signs[-1]
    low = Decimal(0)
    high = Decimal(10**12)
    is_found = (_sum_discounted(flows, high) > 0) is is_positive
    _require(is_found, "no rate above -100% makes these flows worth nothing")
    for _ in range(260):  # enough for sixty digits, wherever the root is
        middle = WORKING.divide(WORKING.add(low, high), Decimal(2))
        if (_sum_discounted(flows, middle) > 0) is is_positive:
            high = middle
        else:
            low = middle
    return ONE / Number(high) - ONE


def _sum_discounted(flows: tuple[Number, ...], factor: Decimal) -> Decimal:
    value = Decimal(0)
    for flow in reversed(flows):
        value = WORKING.fma(value, factor, flow.near)
    return value


FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Number | bool], int, int]]] = {
    "add": (Number.__add__, 2, 2),
    "subtract": (Number.__sub__, 2, 2),
    "multiply": (Number.__mul__, 2, 2),
    "divide": (Number.__truediv__, 2, 2),
    "power": (Number.__pow__, 2, 2),
    "greater": (Number.__gt__, 2, 2),
    "less": (Number.__lt__, 2, 2),
    "abs": (Number.__abs__, 1, 1),
    "round": (_round_half_up, 1, 2),
    "floor": (_floor, 1, 1),
    "ceil": (_ceil, 1, 1),
    "sqrt": (_square_root, 1, 1),
    "ln": (_natural_logarithm, 1, 1),
    "log10": (_decimal_logarithm, 1, 1),
    "exp": (_exponential, 1, 2),
    **dict.fromkeys(("sum", "table_sum"), (_total, 1, MANY)),
    **dict.fromkeys(("average", "table_average"), (_average, 1, MANY)),
    **dict.fromkeys(("max", "table_max"), (lambda *numbers: max(numbers), 1, MANY)),
    **dict.fromkeys(("min", "table_min"), (lambda *numbers: min(numbers), 1, MANY)),
    "count": (lambda *numbers: Number(len(numbers)), 1, MANY),
    "median": (_median, 1, MANY),
    "stdev": (_sample_deviation, 2, MANY),
    "stdevp": (_population_deviation, 1, MANY),
    "pct": (Number.__truediv__, 2, 2),
    "change": (_change, 2, 2),
    "growth": (_growth, 2, 2),
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
