"""The profile of a person as an investor, and how strict the rules are for whom."""

from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

ComplianceLevel = Literal["retail", "professional", "institutional"]
RiskTolerance = Literal["conservative", "moderate", "aggressive"]

_STRICTEST_FIRST: Final[tuple[ComplianceLevel, ...]] = get_args(ComplianceLevel)


class InvestmentProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The investment profile of a person."""

    risk_tolerance: RiskTolerance | None = None
    preferred_markets: tuple[str, ...] = ()
    compliance_level: ComplianceLevel = "retail"
    """Only ever makes the rules stricter than the operator has set them."""


def read_profile(value: Any) -> InvestmentProfile:
    """A mapping with these fields, or the thing itself. Raises msgspec.ValidationError."""
    return msgspec.convert(value, InvestmentProfile)


def is_stricter(level: ComplianceLevel, than: ComplianceLevel) -> bool:
    return _STRICTEST_FIRST.index(level) < _STRICTEST_FIRST.index(than)


def strictest_level(one: ComplianceLevel, other: str) -> ComplianceLevel:
    """The stricter of the two; a word that is no level, such as an empty one, changes nothing."""
    levels: tuple[ComplianceLevel, ...] = _STRICTEST_FIRST
    return next(level for level in levels if level in (one, other))
