"""How slow this machine is just now, so that a bound in seconds of processor time means the same on any; and how many
examples a property is tried with."""

import re
import time
from typing import Final

from hypothesis import settings

_ORDINARY: Final = 0.0065
"""Seconds of the work below on the machine on which the bounds were chosen, with nothing else to do."""
_WORDS: Final = "The market closed higher on Monday; volume was 1,234,567 shares at $187.44. " * 1_000


def slowness() -> float:
    """How many times as long the same work takes here and now as it did there, and at least 1.

    Only what runs on this processor at this moment counts: other processes share its caches, another machine may be
    slower, and both make what a test measures just as much longer.
    """
    return max(1.0, min(_once() for _ in range(3)) / _ORDINARY)


def _once() -> float:
    began = time.process_time()
    found = [word.lower() for word in re.findall(r"[A-Za-z]+|[\d,.]+", _WORDS)]
    counted = dict[str, int]()
    for word in found * 5:
        counted[word] = counted.get(word, 0) + len(word)
    sorted(found)
    return time.process_time() - began


def examples(number: int) -> int:
    """So many in `make chaos` and `make soak`; a third of them in every other run, which has thousands of tests."""
    return number if settings.get_current_profile_name() == LONG else max(20, number // 3)


SHORT: Final = "short"
LONG: Final = "long"
"""The profiles of property tests, chosen by `--chaos` before any test is imported."""
