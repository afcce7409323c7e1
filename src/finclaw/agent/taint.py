"""What of a conversation was written by strangers: pages, files, other people's servers, forwarded messages."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

from finclaw.kernel.message import Append, Message, Patch, Replace, ToolEnded
from finclaw.kernel.scope import ConversationView

SOURCES: Final = "sources"
"""The metadata of a message that stands for such words, as a summary does, or holds them: where they came from."""
_MOST: Final = 50
"""That one message remembers. The newest; a card shows fewer, and one is enough to ask."""


def sources_read(messages: Iterable[Message]) -> tuple[str, ...]:
    """Each once, in the order in which the model first saw it."""
    return tuple(dict.fromkeys(source for message in messages for source in sources_of(message)))


def sources_of(message: Message) -> Sequence[str]:
    return (*_kept(message), *(result.origin for result in message.tool_results if result.origin))


def sources_met(conversation: ConversationView) -> tuple[str, ...]:
    """All that the turn began with or has read since, also what was taken out again: it may be heeded all the same."""
    ended = (event.result for event in conversation.events if isinstance(event, ToolEnded))
    read = sources_read((*conversation.base_messages, *_written(conversation)))
    return tuple(dict.fromkeys((*read, *(result.origin for result in ended if result.origin))))


def _written(conversation: ConversationView) -> Iterator[Message]:
    return (event.message for event in conversation.events if isinstance(event, Append | Replace))


def still_to_know(conversation: ConversationView, before: Sequence[str]) -> Patch | None:
    """For when messages have gone: what was answered under their spell stays, so the last one remembers them."""
    left = [message for message in conversation.next_messages if not message.passing]
    known = frozenset(sources_read(left))
    lost = [source for source in before if source not in known]
    if not lost or not left:
        return None
    return Patch(left[-1].id, {SOURCES: [*lost, *_kept(left[-1])][-_MOST:]})


def _kept(message: Message) -> Iterator[str]:
    told: object = message.metadata.get(SOURCES)
    return map(str, cast("Sequence[object]", told)) if isinstance(told, list | tuple) else iter(())
