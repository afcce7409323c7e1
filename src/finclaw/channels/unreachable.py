"""Chats that take nothing from us any more, as their channels remember them."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from finclaw.gateway import UnreachableChat

FIELD = "unreachable"
"""Of the object that a channel remembers: why, by conversation. A channel that has no such field has no such chats."""


def memory_key(channel: str) -> str:
    return f"channel:{channel}"


def read_unreachable(remembered: Iterable[tuple[str, Any]]) -> Iterator[UnreachableChat]:
    """Those of each channel, from what it remembers. It may be a stranger's: what does not fit is left out."""
    for channel, kept in remembered:
        chats = cast("dict[str, object]", kept).get(FIELD) if isinstance(kept, dict) else None
        if isinstance(chats, dict):
            for conversation, reason in cast("dict[str, object]", chats).items():
                yield UnreachableChat(channel=channel, conversation=conversation, reason=str(reason))
