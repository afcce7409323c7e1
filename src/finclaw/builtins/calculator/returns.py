"""Growth, and money over time. Signs and order of arguments are those of spreadsheets: what is paid out is negative."""

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Final

from finclaw.builtins.calculator.number import ONE, WORKING, ZERO, Impossible, Number

_HALVINGS: Final = 220
"""Enough for sixty digits, wherever the root lies."""
_TWO: Final = Decimal(2)


def growth(old: Number, new: Number) -> Number:
    if old <= ZERO:
        raise Impossible("growth is measured from something above zero; use change(old, new) for the difference")
    return (new - old) / old


def annual_growth(begin: Number, end: Number, years: Number) -> Number:
    if begin <= ZERO or end < ZERO or years <= ZERO:
        raise Impossible("cagr(begin, end, years) needs a begin and years above zero, and an end not below it")
    return (end / begin) ** (ONE / years) - ONE if end > ZERO else -ONE


def compound(principal: Number, rate: Number, years: Number, times_a_year: Number = ONE) -> Number:
    """`rate` is of a year, and credited so many times in it."""
    if times_a_year <= ZERO:
        raise Impossible("interest is credited more than zero times a year")
    return principal * (ONE + rate / times_a_year) ** (times_a_year * years)


def present_value(rate: Number, periods: Number, each: Number, at_the_end: Number = ZERO, due: Number = ZERO) -> Number:
    grown = _growth(rate, periods)
    return -(at_the_end + each * _annuity(rate, periods, due)) / grown


def future_value(rate: Number, periods: Number, each: Number, at_once: Number = ZERO, due: Number = ZERO) -> Number:
    return -(at_once * _growth(rate, periods) + each * _annuity(rate, periods, due))


def payment(rate: Number, periods: Number, at_once: Number, at_the_end: Number = ZERO, due: Number = ZERO) -> Number:
    return -(at_once * _growth(rate, periods) + at_the_end) / _annuity(rate, periods, due)


def net_present_value(rate: Number, *flows: Number) -> Number:
    """The first of them comes after one period: what is paid today is added outside."""
    by_one, discount, value = _growth(rate, ONE), ONE, ZERO
    for flow in flows:
        discount = discount / by_one
        value = value + flow * discount
    return value


def internal_rate(*flows: Number) -> Number:
    """The first of them is today. With one change of sign there is exactly one rate; else nobody could say which."""
    signs = [flow > ZERO for flow in flows if flow != ZERO]
    changes = sum(before != after for before, after in pairwise(signs))
    if changes != 1:
        raise Impossible(
            "irr needs flows that change their sign once, such as -100, 60, 60; "
            f"these change it {changes} times, so there is {'no rate' if not changes else 'perhaps more than one rate'}"
        )
    near = ONE / _discount(flows) - ONE
    if abs(near) > Number(10**6):
        return near
    short = Number(Fraction(near.near.quantize(Decimal("1e-12"))))  # a rate such as 10% is meant to come out even
    return short if short > -ONE and _is_worth_nothing(flows, ONE / (ONE + short)) else near


def _discount(flows: tuple[Number, ...]) -> Number:
    """The factor for one period at which all flows together are worth nothing, by halving."""
    nearly = [flow.near for flow in reversed(flows)]
    last_is_positive = next(flow for flow in nearly if flow) > 0
    low, high = Decimal(0), Decimal(1)
    while (_worth(nearly, high) > 0) is not last_is_positive:
        low, high = high, high * 2
        if high > 10**12:
            raise Impossible("no rate above -100% makes these flows worth nothing")
    for _ in range(_HALVINGS):
        middle = WORKING.divide(WORKING.add(low, high), _TWO)
        if (_worth(nearly, middle) > 0) is last_is_positive:
            high = middle
        else:
            low = middle
    return Number(high)


def _worth(last_first: list[Decimal], factor: Decimal) -> Decimal:
    value = Decimal(0)
    for flow in last_first:
        value = WORKING.fma(value, factor, flow)
    return value


def _is_worth_nothing(flows: tuple[Number, ...], factor: Number) -> bool:
    """Exactly nothing, as far as fractions go."""
    value = ZERO
    for flow in reversed(flows):
        value = value * factor + flow
    return value.exact == 0


def _growth(rate: Number, periods: Number) -> Number:
    if rate <= -ONE:
        raise Impossible("the rate is above -1, that is -100%")
    return (ONE + rate) ** periods


def _annuity(rate: Number, periods: Number, due: Number) -> Number:
    """What one unit a period has become at the end; `due` is 1 when it is paid at the beginning of each period."""
    if due not in (ZERO, ONE):
        raise Impossible("the last argument is 0 for payments at the end of a period, or 1 for the beginning")
    if rate == ZERO:
        return periods
    return (ONE + rate * due) * (_growth(rate, periods) - ONE) / rate
