"""A number that may be shown to a person, because it says where it comes from."""

from datetime import datetime
from decimal import Decimal

from msgspec import Struct


class Fact(Struct, frozen=True, kw_only=True):
    """One figure with its provenance. `source` names the tool, feed or address that gave it."""

    subject: str
    field: str
    value: Decimal
    as_of: datetime
    source: str
    venue: str = ""
    """Of a price: where it was traded."""
    phase: str = ""
    """Of a price: the part of the trading day it is of, as `regular` or `after`; `closed` for a regular close."""
    unit: str = ""
    currency: str | None = None
    stale: bool = False
    inputs: tuple[str, ...] = ()
    """Of a calculated one: the names of the facts that went into it."""

    @property
    def name(self) -> str:
        return f"{self.subject} {self.field} @ {self.as_of:%Y-%m-%dT%H:%M:%S%z}"


class SessionFact(Struct, frozen=True, kw_only=True):
    """A fact that a session has been told, with the turn whose tool gave it."""

    turn_id: str
    """Empty for one that came with a copy of the conversation."""
    fact: Fact
