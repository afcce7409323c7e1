"""Options of a compaction, and its result."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from finclaw.kernel.message import SUMMARY, Message, MessageEvent

Strategy = Literal["summarize", "truncate-oldest", "truncate-tools", "hybrid"]

PINNED: Final = "pinned"
"""Metadata that keeps a message in the conversation whatever happens; a layer sets it with a Patch."""


def is_pinned(message: Message) -> bool:
    return bool(message.metadata.get(PINNED))


def is_summary(message: Message) -> bool:
    return SUMMARY in message.metadata


class Options(Struct, frozen=True, kw_only=True):
    """The options of one compaction."""

    target_tokens: int
    """Of the messages alone: system prompt and tools are no part of a conversation, and nothing touches them."""
    strategy: Strategy = "hybrid"
    recent: int = 6
    """Messages at the end that are exempt, as long as they do not fill the target by themselves."""
    input_id: str = ""
    """The person's current input: never touched."""
    summaries: int = 2
    """How many may be asked for. 0: only what needs no model."""


class Compaction(Struct, frozen=True, kw_only=True):
    """The result of a compaction.

    `messages` is what `events` make of the conversation; the very same object when nothing had to be done.
    """

    messages: Sequence[Message]
    before_tokens: int
    after_tokens: int
    strategy: Strategy
    """The one that did it; not always the one asked for."""
    events: tuple[MessageEvent, ...] = ()
    summary: str | None = None
    removed_count: int = 0
    summaries: int = 0
    """How many were asked for, whether or not they came."""
    fits: bool = True
    """False: the input and what is pinned are larger than the target by themselves."""
