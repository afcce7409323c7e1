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
    unit: str = ""
    currency: str | None = None
    stale: bool = False
