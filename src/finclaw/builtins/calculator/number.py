"""Numbers of the calculator: exact while they can be, else sixty digits of which twenty-eight are shown.

A sum, a product or a quotient of what people write is a fraction and stays one. A root or a logarithm is seldom one,
and a fraction may grow beyond all use: these become decimals, and whoever prints them says that they are rounded.
"""

from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from fractions import Fraction
from functools import total_ordering
from math import isqrt
from typing import Final

_LARGEST: Final = 10_000
"""Digits before or behind the point: what is larger or smaller is a mistake, and would take all day."""
_EXACT_BITS: Final = 4_096
"""A fraction with a longer numerator or denominator goes on as a decimal."""
_SURE: Final = 45
"""Digits of a decimal that count when it is compared: the last of the sixty may be wrong."""
_LONGEST_EXACT: Final = 100
"""Digits of a result that are worth printing."""
_ROOT_BITS: Final = 512
"""Of what is larger nobody expects that a root comes out even."""
_LARGEST_EXPONENT: Final = 10**15

WORKING: Final = Context(prec=60, traps=[InvalidOperation, DivisionByZero, Overflow])
_COMPARING: Final = Context(prec=_SURE, rounding=ROUND_HALF_UP)
_SHOWING: Final = Context(prec=28, rounding=ROUND_HALF_UP)


class Impossible(Exception):
    """An expression without a value, or with none that can be computed.

    The words say why; who knows the place adds it.
    """


@total_ordering
class Number:
    """A fraction, or a decimal that is nearly right. Arithmetic on it raises Impossible."""

    __slots__ = ("value",)

    def __init__(self, value: Fraction | Decimal | int) -> None:
        self.value: Fraction | Decimal = _check_size(Fraction(value) if isinstance(value, int) else value)

    @property
    def exact(self) -> Fraction | None:
        return self.value if isinstance(self.value, Fraction) else None

    @property
    def near(self) -> Decimal:
        if isinstance(self.value, Decimal):
            return self.value
        return WORKING.divide(Decimal(self.value.numerator), Decimal(self.value.denominator))

    def __add__(self, other: "Number") -> "Number":
        if isinstance(self.value, Fraction) and isinstance(other.value, Fraction):
            return Number(self.value + other.value)
        return Number(_without_noise(WORKING.add(self.near, other.near), self.near, other.near))

    def __sub__(self, other: "Number") -> "Number":
        return self + -other

    def __mul__(self, other: "Number") -> "Number":
        if isinstance(self.value, Fraction) and isinstance(other.value, Fraction):
            return Number(self.value * other.value)
        return Number(WORKING.multiply(self.near, other.near))

    def __truediv__(self, other: "Number") -> "Number":
        if not other.value:
            raise Impossible("division by zero")
        if isinstance(self.value, Fraction) and isinstance(other.value, Fraction):
            return Number(self.value / other.value)
        return Number(WORKING.divide(self.near, other.near))

    def __pow__(self, exponent: "Number") -> "Number":
        return _power(self, exponent)

    def __neg__(self) -> "Number":
        return Number(-self.value)

    def __abs__(self) -> "Number":
        return Number(abs(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and not (self - other).value

    def __lt__(self, other: "Number") -> bool:
        return (self - other).value < 0

    __hash__ = None  # pyright: ignore[reportAssignmentType] - nearly equal numbers are equal, so there is no hash

    def sure(self) -> Fraction:
        """The value where one must decide: a decimal a hair below five is five."""
        return self.value if isinstance(self.value, Fraction) else Fraction(_COMPARING.plus(self.value))

    def to_decimal(self) -> tuple[Decimal, bool]:
        """As a decimal, and whether it is the exact one."""
        if isinstance(self.value, Fraction):
            digits = finite(self.value)
            if digits is not None:
                return digits, True
        return _SHOWING.plus(self.near).normalize(_SHOWING), False


def whole(number: Number) -> int | None:
    exact = number.sure()
    return exact.numerator if exact.denominator == 1 else None


def square_root(number: Number) -> Number:
    if number.value < 0:
        raise Impossible("a negative number has no square root")
    root = _exact_root(number.value, 2) if isinstance(number.value, Fraction) else None
    return Number(WORKING.sqrt(number.near)) if root is None else Number(root)


def natural_logarithm(number: Number) -> Number:
    if number.value <= 0:
        raise Impossible("only a positive number has a logarithm")
    return Number(0) if number.value == 1 else Number(WORKING.ln(number.near))


def decimal_logarithm(number: Number) -> Number:
    if number.value <= 0:
        raise Impossible("only a positive number has a logarithm")
    logarithm = WORKING.log10(number.near)
    power = Number(int(logarithm.to_integral_value()))
    return power if Number(10) ** power == number else Number(logarithm)


def exponential(number: Number) -> Number:
    if abs(number.value) > 2.3 * _LARGEST:
        raise Impossible("the result is too large or too small")
    return Number(1) if not number.value else Number(WORKING.exp(number.near))


def format_number(number: Number) -> str:
    """In plain digits; `≈` stands before what is rounded."""
    value, exact = number.to_decimal()
    plain = format(value, "f") if exact or -12 <= value.adjusted() <= 40 else f"{value:E}"
    return plain if exact else f"≈ {plain}"


# ── keeping it small ────────────────────────────────────────────────────────────────────────────────────────


def _check_size(value: Fraction | Decimal) -> Fraction | Decimal:
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) <= _EXACT_BITS:
            return value
        value = WORKING.divide(Decimal(value.numerator), Decimal(value.denominator))
    if value and abs(value.adjusted()) > _LARGEST:
        raise Impossible("the result is too large or too small")
    return value or Decimal(0)


def _without_noise(result: Decimal, *summands: Decimal) -> Decimal:
    """Two that are nearly the same leave only the errors of their last digits: that is nothing."""
    largest = max(each.adjusted() for each in summands)
    return result if result and result.adjusted() >= largest - _SURE else Decimal(0)


def finite(value: Fraction, longest: int = _LONGEST_EXACT) -> Decimal | None:
    """All its digits, if they end soon enough."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    places = max(twos, fives)
    if rest != 1 or places > longest:
        return None
    digits = str(abs(value.numerator) * 10**places // value.denominator)
    if len(digits) > longest:
        return None
    return Decimal((0 if value >= 0 else 1, tuple(map(int, digits)), -places))


# ── powers ──────────────────────────────────────────────────────────────────────────────────────────────────


def _power(base: Number, exponent: Number) -> Number:
    if not base.value:
        if exponent.value <= 0:
            raise Impossible("zero to a power of zero or less has no value")
        return Number(0)
    count = whole(exponent)
    if base.value < 0 and count is None:
        raise Impossible("a negative number has no power that is not whole")
    if base.exact is not None and exponent.exact is not None:
        exact = _exact_power(base.exact, exponent.exact)
        if exact is not None:
            return Number(exact)
    return Number(_near_power(base.near, exponent.near if count is None else Decimal(count)))


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator > 1_000:
        return None
    root = base if exponent.denominator == 1 else _exact_root(base, exponent.denominator)
    if root is None:
        return None
    if abs(root) == 1:
        return root if exponent.numerator % 2 else Fraction(1)
    size = max(root.numerator.bit_length(), root.denominator.bit_length())
    return root**exponent.numerator if size * abs(exponent.numerator) <= _EXACT_BITS else None


def _near_power(base: Decimal, exponent: Decimal) -> Decimal:
    if abs(exponent) > _LARGEST_EXPONENT or abs(WORKING.multiply(WORKING.log10(abs(base)), exponent)) > _LARGEST:
        raise Impossible("the power is too large or too small")
    return WORKING.power(base, exponent)


def _exact_root(value: Fraction, degree: int) -> Fraction | None:
    if value < 0 or max(value.numerator, value.denominator).bit_length() > _ROOT_BITS:
        return None
    above, below = _whole_root(value.numerator, degree), _whole_root(value.denominator, degree)
    return None if above is None or below is None else Fraction(above, below)


def _whole_root(value: int, degree: int) -> int | None:
    if degree == 2:
        root = isqrt(value)
        return root if root * root == value else None
    low, high = 0, 1 << -(-value.bit_length() // degree)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low if low**degree == value else None


ZERO: Final = Number(0)
ONE: Final = Number(1)
