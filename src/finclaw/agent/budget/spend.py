"""The cost of one model call: kept with the answer it gave, or beside the turn's log where it gave none."""

import sys
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, cast

from msgspec import Struct, convert
from msgspec.structs import astuple

from finclaw.clock import local_day
from finclaw.kernel.chunk import Model, Usage
from finclaw.kernel.message import Message

_NOTHING: Final = Decimal(0)
_AS_WRITTEN: Final[list[type]] = [int] * 4
"""The four numbers of a usage, as we write it."""


class CallCost(Struct, frozen=True):
    """The cost of one call."""

    at: datetime
    model: str
    usage: Usage
    cost: Decimal
    saved: Decimal
    """By the cache."""
    cut_off: bool = False
    """We left before the answer had come to its end."""
    overstated: bool = False
    """The server reported more than the call can have cost; the most that was reserved for it is booked."""

    @property
    def day(self) -> date:
        return local_day(self.at)


def to_metadata(model: Model, tries: list[CallCost]) -> dict[str, Any]:
    """For the answer of `model`: its own call and those before it that failed, each at the price of its model."""
    usage, cost, saved = Usage(), _NOTHING, _NOTHING
    for each in tries:
        usage, cost, saved = usage + each.usage, cost + each.cost, saved + each.saved
    # Kept with every answer in memory and on disk, so as little as will do.
    metadata: dict[str, Any] = {"usage": list(astuple(usage)), "model": sys.intern(model.id)}
    if cost:
        metadata["cost"] = str(cost)
    if saved:
        metadata["saved"] = str(saved)
    return metadata


def from_metadata(message: Message) -> CallCost:
    told = message.metadata
    return CallCost(
        message.created_at, str(told.get("model", "")), usage_of(message), _amount(told, "cost"), _amount(told, "saved")
    )


def usage_of(message: Message) -> Usage:
    """What this answer cost in tokens: its four numbers, or by name, as they were once written."""
    told = message.metadata.get("usage", ())
    if isinstance(told, list) and list(map(type, cast("list[Any]", told))) == _AS_WRITTEN:
        return Usage(*cast("list[int]", told))
    return convert(told, Usage) if isinstance(told, dict) else Usage(*convert(told, tuple[int, ...])[:4])


def measured_size(answer: Message) -> int:
    """The size of the conversation up to and with this answer, by the model's own count; 0 where it gave none."""
    if answer.source.kind != "assistant":
        return 0
    told = answer.metadata.get("context")
    return told if isinstance(told, int) else usage_of(answer).total


def _amount(told: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(str(told[name])) if name in told else _NOTHING
