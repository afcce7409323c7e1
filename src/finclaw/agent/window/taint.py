"""Taint: that strangers' words were read is not forgotten when the words are removed."""

from collections.abc import Sequence
from typing import Final

from finclaw.kernel.message import Message, Patch
from finclaw.kernel.scope import ConversationView
from finclaw.taint.sources import SOURCES, kept_sources, limit_sources, sources_of, sources_read

_MOST: Final = 50
"""That one message remembers. The newest; a card shows fewer, and one is enough to ask."""


def remember_taint(conversation: ConversationView, before: Sequence[str]) -> Patch | None:
    """For when messages have gone: what was answered under their spell stays, so the last one remembers them."""
    left = [message for message in conversation.next_messages if not message.passing]
    known = frozenset(sources_read(left))
    lost = [source for source in before if source not in known]
    if not lost or not left:
        return None
    return _add_sources(left[-1], lost)


def remember_note(conversation: ConversationView, sources: Sequence[str], input_id: str) -> Patch | None:
    """Keep the sources of a transient message with the turn's input, or with the last message if that is gone."""
    turn_input = next((each for each in reversed(conversation.next_messages) if each.id == input_id), None)
    if turn_input is None or turn_input.passing:
        return remember_taint(conversation, sources)
    known = frozenset(sources_of(turn_input))
    lost = [source for source in sources if source not in known]
    return _add_sources(turn_input, lost) if lost else None


def _add_sources(message: Message, sources: Sequence[str]) -> Patch:
    return Patch(message.id, {SOURCES: limit_sources([*sources, *kept_sources(message)], _MOST)})
