"""Settings of what is shown early."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class AckSettings:
    """Settings of the signs that work goes on: a reaction to the message, and typing."""

    scope: Literal["off", "direct", "group-mentions", "all"] = "all"
    """Where they are shown: nowhere, in private chats, in groups where we are mentioned, or everywhere."""
    done: str = ""
    """The reaction when the answer is ready, such as 👍; empty: none is left."""
    failed: str = "😢"
    """The reaction when there will be no answer; empty: none is left. A platform may have few emoji to choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSettings:
    """Settings of blocks: how much of an answer becomes a message of its own while the model still writes the rest."""

    gather: bool = True
    """Gather small pieces into blocks; else each is sent as it comes."""
    shortest: Annotated[int, Meta(ge=1)] = 800
    """Characters of a block, unless nothing is added to it for a while."""
    longest: Annotated[int, Meta(ge=1)] = 1_200
    """Characters after which it is cut, at the end of a paragraph where there is one."""
    idle_ms: Annotated[int, Meta(ge=0)] = 1_000
    """After this long without a new piece, what has been gathered is sent."""
