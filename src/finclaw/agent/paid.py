"""What one model call was paid for: kept with the answer it gave, or beside the turn's log where it gave none."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct, convert, to_builtins

from finclaw.kernel.chunk import Model, Usage
from finclaw.kernel.message import Message


class Paid(Struct, frozen=True):
    at: datetime
    model: str
    usage: Usage
    cost: Decimal
    saved: Decimal
    """By the cache."""

    @property
    def day(self) -> date:
        return self.at.astimezone(UTC).date()


def paid_for(model: Model, usage: Usage, at: datetime) -> Paid:
    return Paid(at, f"{model.provider}/{model.name}", usage, model.cost(usage), model.saved(usage))


def to_metadata(model: Model, tries: list[Paid]) -> dict[str, Any]:
    """For the answer of `model`: its own call and those before it that failed, each at the price of its model."""
    metadata: dict[str, Any] = {"usage": to_builtins(sum((each.usage for each in tries), Usage()))}
    metadata["model"] = f"{model.provider}/{model.name}"
    if cost := sum((each.cost for each in tries), Decimal(0)):
        metadata["cost"] = str(cost)
    if saved := sum((each.saved for each in tries), Decimal(0)):
        metadata["saved"] = str(saved)
    return metadata


def from_metadata(message: Message) -> Paid:
    told = message.metadata
    return Paid(
        message.created_at,
        str(told.get("model", "")),
        convert(told.get("usage", {}), Usage),
        Decimal(str(told.get("cost", "0"))),
        Decimal(str(told.get("saved", "0"))),
    )
