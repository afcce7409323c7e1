"""Whether prices are still what a person saw when they agreed. What has moved too far is asked for anew."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any


def has_drifted(shown: Mapping[str, Any] | None, now: Mapping[str, Any] | None, percent: Decimal) -> bool:
    """Numbers, written as such or as text, may move by so many percent of what was shown; all else must be the same."""
    before, after = shown or {}, now or {}
    return before.keys() != after.keys() or any(_moved(before[key], after[key], percent) for key in before)


def _moved(before: Any, after: Any, percent: Decimal) -> bool:
    old, new = _number(before), _number(after)
    if old is None or new is None:
        return before != after
    return abs(new - old) * 100 > abs(old) * percent


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
