"""The functions of the calculator, by name. Rows among the arguments are already unrolled."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final

from finclaw.builtins.calculator.number import (
    ZERO,
    Impossible,
    Number,
    decimal_logarithm,
    exponential,
    natural_logarithm,
    square_root,
    whole,
)
from finclaw.builtins.calculator.returns import (
    annual_growth,
    compound,
    future_value,
    growth,
    internal_rate,
    net_present_value,
    payment,
    present_value,
)

MANY: Final = 1_000
"""Arguments of a function that takes any number of them."""


@dataclass(frozen=True, slots=True)
class Function:
    run: Callable[..., Number | bool]
    fewest: int
    most: int
    ratio: bool = False
    """Its result is a part of one, which people say in percent."""


def greater(one: Number, other: Number) -> bool:
    return other < one


def change(old: Number, new: Number) -> Number:
    return new - old


def below(number: Number) -> Number:
    return Number(floor(number.sure()))


def above(number: Number) -> Number:
    return Number(ceil(number.sure()))


def count(*numbers: Number) -> Number:
    return Number(len(numbers))


def total(*numbers: Number) -> Number:
    return sum(numbers, start=ZERO)


def average(*numbers: Number) -> Number:
    return total(*numbers) / Number(len(numbers))


def median(*numbers: Number) -> Number:
    ordered, half = sorted(numbers), len(numbers) // 2
    return ordered[half] if len(numbers) % 2 else (ordered[half - 1] + ordered[half]) / Number(2)


def sample_deviation(*numbers: Number) -> Number:
    return square_root(_squares(numbers) / Number(len(numbers) - 1))


def population_deviation(*numbers: Number) -> Number:
    return square_root(_squares(numbers) / Number(len(numbers)))


def largest(*numbers: Number) -> Number:
    return max(numbers)


def smallest(*numbers: Number) -> Number:
    return min(numbers)


def round_half_up(number: Number, places: Number = ZERO) -> Number:
    """Half a unit goes up, away from zero, as in commerce."""
    digits = whole(places)
    if digits is None or abs(digits) > 100:
        raise Impossible("the places to round to are a whole number from -100 to 100")
    scale = Fraction(10) ** digits
    size = floor(abs(number.sure()) * scale + Fraction(1, 2)) / scale
    return Number(size if number.value >= 0 else -size)


def exponential_or_power(base: Number, exponent: Number | None = None) -> Number:
    """exp(x), and exp(base, exponent) as the programs of financial questions have it."""
    return exponential(base) if exponent is None else base**exponent


def _squares(numbers: Sequence[Number]) -> Number:
    middle = average(*numbers)
    return total(*((each - middle) * (each - middle) for each in numbers))


def _over_many(*names: str) -> Mapping[str, Function]:
    by_kind: Mapping[str, Callable[..., Number]] = {"sum": total, "average": average, "max": largest, "min": smallest}
    return {name: Function(by_kind[name.removeprefix("table_")], 1, MANY) for name in names}


FUNCTIONS: Final[Mapping[str, Function]] = {
    # arithmetic by name
    "add": Function(Number.__add__, 2, 2),
    "subtract": Function(Number.__sub__, 2, 2),
    "multiply": Function(Number.__mul__, 2, 2),
    "divide": Function(Number.__truediv__, 2, 2),
    "power": Function(Number.__pow__, 2, 2),
    "greater": Function(greater, 2, 2),
    "less": Function(Number.__lt__, 2, 2),
    # one number
    "abs": Function(Number.__abs__, 1, 1),
    "round": Function(round_half_up, 1, 2),
    "floor": Function(below, 1, 1),
    "ceil": Function(above, 1, 1),
    "sqrt": Function(square_root, 1, 1),
    "ln": Function(natural_logarithm, 1, 1),
    "log10": Function(decimal_logarithm, 1, 1),
    "exp": Function(exponential_or_power, 1, 2),
    # many numbers
    **_over_many("sum", "average", "max", "min", "table_sum", "table_average", "table_max", "table_min"),
    "count": Function(count, 1, MANY),
    "median": Function(median, 1, MANY),
    "stdev": Function(sample_deviation, 2, MANY),
    "stdevp": Function(population_deviation, 1, MANY),
    # parts and changes
    "pct": Function(Number.__truediv__, 2, 2, ratio=True),
    "change": Function(change, 2, 2),
    "growth": Function(growth, 2, 2, ratio=True),
    "cagr": Function(annual_growth, 3, 3, ratio=True),
    # money over time
    "compound": Function(compound, 3, 4),
    "pv": Function(present_value, 3, 5),
    "fv": Function(future_value, 3, 5),
    "pmt": Function(payment, 3, 5),
    "npv": Function(net_present_value, 2, MANY),
    "irr": Function(internal_rate, 2, MANY, ratio=True),
}
