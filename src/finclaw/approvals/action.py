"""An action that needs approval, and whether its quote has drifted since a person saw it."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Tool


def definition_of(tool: Tool) -> str:
    """The digest of a tool that a server defines; empty for our own. A yes counts for this definition only."""
    return str(getattr(tool, "digest", ""))


class Action(Struct, frozen=True, kw_only=True):
    """What is to be done, and in whose turn. `args` are final: checked, and with their defaults."""

    tool: str
    args: Mapping[str, Any]
    inbound: Inbound
    session: str
    inbound_id: str
    turn_id: str
    call_id: str
    moves_money: bool = True
    quote: Mapping[str, Any] | None = None
    sources: tuple[str, ...] = ()
    definition: str = ""


def has_drifted(shown: Mapping[str, Any] | None, now: Mapping[str, Any] | None, percent: Decimal) -> bool:
    """Numbers, written as such or as text, may move by so many percent of what was shown; all else must be the same."""
    before = shown or {}
    after = now or {}
    return before.keys() != after.keys() or any(_has_moved(before[key], after[key], percent) for key in before)


def _has_moved(before: Any, after: Any, percent: Decimal) -> bool:
    old = _read_number(before)
    new = _read_number(after)
    if old is None or new is None:
        return before != after
    return abs(new - old) * 100 > abs(old) * percent


def _read_number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
