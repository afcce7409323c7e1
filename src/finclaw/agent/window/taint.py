"""Taint: that strangers' words were read is not forgotten when the words are removed."""

from collections.abc import Sequence
from typing import Final

from finclaw.kernel.message import Patch
from finclaw.kernel.scope import ConversationView
from finclaw.tools.sources import SOURCES, kept_sources, limit_sources, sources_read

_MOST: Final = 50
"""That one message remembers. The newest; a card shows fewer, and one is enough to ask."""


def remember_taint(conversation: ConversationView, before: Sequence[str]) -> Patch | None:
    """For when messages have gone: what was answered under their spell stays, so the last one remembers them."""
    left = [message for message in conversation.next_messages if not message.passing]
    known = frozenset(sources_read(left))
    lost = [source for source in before if source not in known]
    if not lost or not left:
        return None
    return Patch(left[-1].id, {SOURCES: limit_sources([*lost, *kept_sources(left[-1])], _MOST)})
