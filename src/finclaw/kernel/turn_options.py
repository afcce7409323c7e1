"""Options of turns: by which model, how much thinking, how many words. What is left open is None."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

ThinkingLevel = Literal["off", "low", "medium", "high"]
Verbosity = Literal["low", "medium", "high"]
QueueMode = Literal["auto", "followup", "steer", "queue", "collect", "interrupt", "steer-backlog"]
"""What a message does while another of its session is being answered."""

THOUGHTS: Final[dict[ThinkingLevel, int]] = {"off": 0, "low": 4_096, "medium": 10_240, "high": 24_576}
"""Tokens that a model may think with, beside those of its answer."""


class TurnOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """They hold for one turn, or for all turns of a session where somebody has set them for it."""

    model: str | None = None
    """A model or an alias. It alone answers then, or nobody does: no fallback is asked in its place."""
    thinking: ThinkingLevel | None = None
    verbosity: Verbosity | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    queue: QueueMode | None = None

    def fill_from(self, other: "TurnOptions") -> "TurnOptions":
        """These options, and where they leave something open, what the other says."""
        if other == NO_OPTIONS:
            return self
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return TurnOptions(**{**asdict(other), **given})


NO_OPTIONS: Final = TurnOptions()
OPTIONS: Final = "options"
"""The key of a message's metadata under which the options of its turn are kept."""
