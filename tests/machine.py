"""How slow this machine is just now, so that a bound in seconds of processor time means the same on any; and how many
examples a property is tried with."""

from typing import Final

from benchmarks.meter import measure_slowness
from hypothesis import settings


def slowness() -> float:
    """By this factor everything takes longer here and now than where the bounds were chosen; at least 1."""
    return measure_slowness()


def is_quick(seconds: float, limit: float) -> bool:
    """Whether so much processor time is within the limit. This machine is measured, which takes long, only in doubt."""
    return seconds < limit or seconds < limit * slowness()


def examples(number: int) -> int:
    """So many in `make chaos` and `make soak`; a third of them in every other run, which has thousands of tests."""
    return number if settings.get_current_profile_name() == LONG else max(20, number // 3)


SHORT: Final = "short"
LONG: Final = "long"
"""The profiles of property tests, chosen by `--chaos` before any test is imported."""
