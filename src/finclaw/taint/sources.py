"""Authorship and taint: decides whether a text is the person's own or untrusted, and names the untrusted sources.

Every other module asks here: for an inbound message, a conversation, a quoted line or the fields of a turn's context.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.message import Append, Message, Patch, Replace, Text, ToolEnded, TurnEvent
from finclaw.kernel.scope import ConversationView
from finclaw.redaction.clean import INVISIBLE

SOURCES: Final = "sources"
"""The metadata of a message that stands for such words, as a summary does, or holds them: where they came from."""
AUTHOR: Final = "author"
"""The metadata of a person's message in a shared chat: the id of who wrote it. To everybody else it is a stranger's."""
_BY: Final = "message by "
QUOTED: Final = "words that the person quoted"
_BREAKS: Final = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_BEGIN: Final = rf"(?:^|(?<=[{_BREAKS}]))(?:[^\S{_BREAKS}]|[{INVISIBLE}])*+"
_LETTER: Final = (
    r"(?:-{2,}[ \t]*(?:(?:original|forwarded) message|(?:원본|전달된) ?(?:메일|메시지))"
    r"|begin forwarded message:|전달된 메시지(?: 시작)?:)"
)
_QUOTE: Final = re.compile(rf"{_BEGIN}(?:[>＞][^\S\n]*\S|{_LETTER})", re.MULTILINE | re.IGNORECASE)
_QUOTED_PART: Final = re.compile(rf"{_BEGIN}(?:[>＞].*$|{_LETTER}(?s:.*))", re.MULTILINE | re.IGNORECASE)
"""How people quote. Whoever does it without a sign has made the words their own.

A quotation begins behind any line break, and ends only at `\\n`: the quoted text can contain the others.
"""


def describe_author(inbound: Inbound, accepted: Inbound) -> dict[str, Any]:
    """Return the metadata of a message's text that says who wrote it.

    `inbound` is the message as layers changed it: a layer can add a source, and cannot remove one of `accepted`.
    """
    metadata: dict[str, Any] = {}
    sources = list(_handed_down(accepted))
    if inbound.forwarded or accepted.forwarded:
        sources.append(passed_on_by(inbound.sender.id))
    if sources:
        metadata[SOURCES] = sources
    if accepted.chat_type != "direct" and not accepted.is_internal:
        metadata[AUTHOR] = accepted.sender.id
    return metadata


def _handed_down(inbound: Inbound) -> Sequence[str]:
    """The sources that a turn had read when it gave this task to a helper."""
    return inbound.limits.sources if inbound.limits else ()


def is_typed(inbound: Inbound) -> bool:
    """Return whether the sender typed this as a new message, so that it can be a command."""
    return not (inbound.is_internal or inbound.forwarded or inbound.kind == "edit")


def context_sources(provided: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the sources of the untrusted text among the fields of a turn's context."""
    return ("news headlines",) if provided.get("news_context") else ()


def sources_read(messages: Iterable[Message]) -> tuple[str, ...]:
    """Each once, in the order in which the model first saw it."""
    return tuple(dict.fromkeys(source for message in messages for source in sources_of(message)))


def sources_of(message: Message) -> Sequence[str]:
    quoted: Sequence[str] = ()
    if message.source.kind == "user" and _QUOTE.search(message.text):
        quoted = (QUOTED,)
    is_text = len(message.blocks) == 1 and isinstance(message.blocks[0], Text)
    if is_text and SOURCES not in message.metadata and AUTHOR not in message.metadata:
        return quoted  # as most are, and there may be ten thousand
    sources = list(kept_sources(message))
    author: object = message.metadata.get(AUTHOR)
    if isinstance(author, str):
        sources.append(written_by(author))
    return (*sources, *quoted, *(result.origin for result in message.tool_results if result.origin))


def sources_met(conversation: ConversationView, asked_by: Inbound | None = None) -> tuple[str, ...]:
    """All that the turn began with or has read since, also what was taken out again: it may be heeded all the same.

    `asked_by` is the message that the turn answers: what its sender wrote in a shared chat is no stranger's.
    """
    since = (source for event in conversation.events for source in sources_in(event))
    met = dict.fromkeys((*sources_read(conversation.base_messages), *since))
    if asked_by is not None:
        met.update(dict.fromkeys(others_heard(conversation, asked_by)))
        met.pop(written_by(asked_by.sender.id), None)
    return tuple(met)


def others_heard(conversation: ConversationView, asked_by: Inbound) -> tuple[str, ...]:
    """In a shared chat: who wrote there beside the one who asks, as sources. Also what a summary knows of them, and of
    a helper's task what the turn that gave it knew.
    """
    own = written_by(asked_by.sender.id)
    if asked_by.chat_type == "direct":
        return tuple(source for source in _handed_down(asked_by) if source.startswith(_BY) and source != own)
    added = (event.message for event in conversation.events if isinstance(event, Append | Replace))
    messages = (*conversation.base_messages, *added)
    wrote = (written_by(each.source.id) for each in messages if each.source.kind == "user")
    kept = (source for each in messages for source in sources_of(each) if source.startswith(_BY))
    return tuple(dict.fromkeys(source for source in (*wrote, *kept) if source != own))


def limit_sources(sources: Sequence[str], most: int) -> list[str]:
    """As many as may be kept: people first, for what they wish is judged by that, and of the others the newest."""
    people = [source for source in sources if source.startswith(_BY)][-most:]
    others = [source for source in sources if not source.startswith(_BY)]
    return [*people, *others[max(0, len(others) - most + len(people)) :]]


def written_by(sender_id: str) -> str:
    return f"{_BY}{sender_id}"


def own_words(message: Message) -> str:
    """What a person typed. Behind it the gateway may have put a note, such as the names of what they attached."""
    return next((block.text for block in message.blocks if isinstance(block, Text)), "")


def unquoted_part(text: str, mark: str = "") -> str:
    """What of a message its writer does not quote, with `mark` in the place of each quotation."""
    return _QUOTED_PART.sub(mark, text)


def is_passed_on(message: Message) -> bool:
    """Return whether the message was forwarded or contains quoted text."""
    return not {passed_on_by(message.source.id), QUOTED}.isdisjoint(kept_sources(message))


def passed_on_by(sender_id: str) -> str:
    return f"a message that {sender_id} passed on"


def kept_sources(message: Message) -> Iterator[str]:
    """Return the sources of the message itself, without those of its results."""
    return _read_sources(message.metadata)


def sources_in(event: TurnEvent) -> Iterable[str]:
    """Return the sources that an event adds to a conversation."""
    match event:
        case Append(message) | Replace(_, message):
            return sources_of(message)
        case Patch(_, metadata):
            return _read_sources(metadata)
        case ToolEnded(result) if result.origin:
            return (result.origin,)
        case _:
            return ()


def _read_sources(metadata: Mapping[str, Any]) -> Iterator[str]:
    sources: object = metadata.get(SOURCES)
    if isinstance(sources, list | tuple):
        yield from map(str, cast("Sequence[object]", sources))


_MOST_SOURCES: Final = 50
"""That one message remembers. The newest; a card shows fewer, and one is enough to ask."""


def remember_taint(conversation: ConversationView, before: Sequence[str]) -> Patch | None:
    """For when messages have gone: what was answered under their spell stays, so the last one remembers them."""
    left = [message for message in conversation.next_messages if not message.passing]
    return _add_sources(left[-1], before, frozenset(sources_read(left))) if left else None


def remember_note(conversation: ConversationView, sources: Sequence[str], input_id: str) -> Patch | None:
    """Keep the sources of a transient message with the turn's input, or with the last message if that is gone."""
    turn_input = next((each for each in reversed(conversation.next_messages) if each.id == input_id), None)
    if turn_input is None or turn_input.passing:
        return remember_taint(conversation, sources)
    return _add_sources(turn_input, sources, frozenset(sources_of(turn_input)))


def _add_sources(message: Message, sources: Sequence[str], known: Collection[str]) -> Patch | None:
    lost = [source for source in sources if source not in known]
    if not lost:
        return None
    return Patch(message.id, {SOURCES: limit_sources([*lost, *kept_sources(message)], _MOST_SOURCES)})
