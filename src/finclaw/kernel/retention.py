"""How long things are kept."""

from datetime import datetime, timedelta
from typing import Final

DEDUPE_DAYS: Final = 30
"""A platform may deliver a message again within this time; it is recognised by the record of the first."""


def prunable(before: datetime, now: datetime) -> datetime:
    """The latest time before which anything may be removed, if removing up to `before` was asked for."""
    return min(before, now - timedelta(days=DEDUPE_DAYS))
