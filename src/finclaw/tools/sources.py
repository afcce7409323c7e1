"""What of a conversation was written by strangers: pages, files, other people's servers, forwarded messages."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from finclaw.kernel.message import Append, Message, Patch, Replace, Text, ToolEnded, TurnEvent
from finclaw.kernel.scope import ConversationView

SOURCES: Final = "sources"
"""The metadata of a message that stands for such words, as a summary does, or holds them: where they came from."""

QUOTED: Final = "words that the person quoted"
_QUOTE: Final = re.compile(
    r"^[ \t]*(?:>[ \t]*\S|-{2,}[ \t]*(?:(?:original|forwarded) message|(?:원본|전달된) ?(?:메일|메시지)))",
    re.MULTILINE | re.IGNORECASE,
)
"""How people quote. Whoever does it without a sign has made the words their own."""


def sources_read(messages: Iterable[Message]) -> tuple[str, ...]:
    """Each once, in the order in which the model first saw it."""
    return tuple(dict.fromkeys(source for message in messages for source in sources_of(message)))


def sources_of(message: Message) -> Sequence[str]:
    said = (QUOTED,) if message.source.kind == "user" and _QUOTE.search(message.text) else ()
    if len(message.blocks) == 1 and isinstance(message.blocks[0], Text) and SOURCES not in message.metadata:
        return said  # as most are, and there may be ten thousand
    return (*kept_sources(message), *said, *(result.origin for result in message.tool_results if result.origin))


def sources_met(conversation: ConversationView) -> tuple[str, ...]:
    """All that the turn began with or has read since, also what was taken out again: it may be heeded all the same."""
    since = (source for event in conversation.events for source in _in_event(event))
    return tuple(dict.fromkeys((*sources_read(conversation.base_messages), *since)))


def kept_sources(message: Message) -> Iterator[str]:
    """Those that stand beside it, and not in its results."""
    return _told(message.metadata)


def _in_event(event: TurnEvent) -> Iterable[str]:
    match event:
        case Append(message) | Replace(_, message):
            return sources_of(message)
        case Patch(_, metadata):
            return _told(metadata)
        case ToolEnded(result) if result.origin:
            return (result.origin,)
        case _:
            return ()


def _told(metadata: Mapping[str, Any]) -> Iterator[str]:
    told: object = metadata.get(SOURCES)
    return map(str, cast("Sequence[object]", told)) if isinstance(told, list | tuple) else iter(())
