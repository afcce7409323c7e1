"""Options of one turn: by which model, how much thinking, how many words. What is left open is None."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

ThinkingLevel = Literal["off", "low", "medium", "high"]
Verbosity = Literal["low", "medium", "high"]

THOUGHTS: Final[dict[ThinkingLevel, int]] = {"off": 0, "low": 4_096, "medium": 10_240, "high": 24_576}
"""Tokens that a model may think with, beside those of its answer."""


class TurnOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """They hold for one turn; the next one begins with the settings again."""

    model: str | None = None
    """A model or an alias. It alone answers then, or nobody does: no fallback is asked in its place."""
    thinking: ThinkingLevel | None = None
    verbosity: Verbosity | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
