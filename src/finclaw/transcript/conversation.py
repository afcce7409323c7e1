"""The conversation of a turn: base plus events, and the recent conversations that are kept in memory. Messages change
only through events, and the base only when a turn ends."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from sys import getsizeof
from typing import Any, Final, NamedTuple, TypeVar, assert_never, cast

import msgspec
from msgspec.structs import replace

from finclaw.errors import SessionError
from finclaw.ids import drawn_after
from finclaw.kernel.event import Emit, MessageTargetMissing
from finclaw.kernel.message import (
    Append,
    Block,
    Image,
    LlmMessage,
    Message,
    MessageEvent,
    Patch,
    Remove,
    Replace,
    Text,
    Thinking,
    ToolCall,
    ToolEnded,
    ToolResult,
    ToolStarted,
    Truncate,
    TurnEvent,
)
from finclaw.transcript.fold import patch_message
from finclaw.transcript.history import Messages, Page, as_messages, behind_pages, pages_of, with_pages

E = TypeVar("E", bound=MessageEvent)

A_MESSAGE: Final = 400
"""Bytes of a message without content: its id, time and source."""
A_BLOCK: Final = 100
A_FACT: Final = 600
OF_JSON: Final = 2
"""The approximate size of objects in memory, as a multiple of their JSON."""

_encode: Final = msgspec.json.Encoder().encode


class Conversation:
    """The messages of one session during one turn. `next_messages` always equals base plus events.

    Events are applied one at a time, not by `fold()`: it would open every page (`us_per_history_message` in
    docs/performance.md), and it does not know passing messages.

    `since` is an id drawn before the turn's first one: what was drawn after it cannot be in the base.
    """

    def __init__(
        self,
        base: Sequence[Message],
        events: Iterable[TurnEvent] = (),
        emit: Emit | None = None,
        since: str | None = None,
    ) -> None:
        self.base_messages: Messages = as_messages(base)
        self._events: list[TurnEvent] = []
        self._pages: tuple[Page, ...] = pages_of(self.base_messages)
        """Of the base, as long as no event reaches them; `_next` is what stands behind."""
        self._next: list[Message] = list(behind_pages(self.base_messages))
        self._seen: Messages | None = self.base_messages
        self._ids: set[str] | None = None
        self._since = since
        self._new: set[str] = set()
        """Ids that came with this turn."""
        self._passing: set[str] = set()
        """Keys of messages that pass; those came with this turn, so they stand behind the base."""
        self._emit = emit
        for event in events:
            self.push(event)

    @property
    def events(self) -> Sequence[TurnEvent]:
        return tuple(self._events)

    @property
    def length(self) -> int:
        return len(self._events)

    def events_from(self, place: int) -> tuple[TurnEvent, ...]:
        return tuple(self._events[place:])

    @property
    def next_messages(self) -> Messages:
        if self._seen is None:
            self._seen = with_pages(self._pages, tuple(self._next))
        return self._seen

    @property
    def lasting_messages(self) -> Messages:
        """What the fold will keep: everything but the passing ones."""
        if not self._passing:
            return self.next_messages
        base = len(self.base_messages) - sum([page.length for page in self._pages])
        if not base or len(self._next) < base or self._next[base - 1] is not self.base_messages[-1]:
            base = 0  # something of it was taken away
        kept = (*self._next[:base], *[message for message in self._next[base:] if not message.passing])
        return with_pages(self._pages, kept)

    def to_llm_messages(self) -> Sequence[LlmMessage]:
        return tuple(LlmMessage(message.role, message.blocks) for message in self.next_messages)

    def push(self, event: TurnEvent) -> None:
        """Count an event in, at once. One whose target is missing changes nothing and is told to observers."""
        counted: TurnEvent | None = event
        if not isinstance(event, ToolStarted | ToolEnded):
            counted = self._apply(event)
        if counted is not None:
            self._events.append(counted)
            self._seen = None

    def _apply(self, event: MessageEvent) -> MessageEvent | None:
        """The event as it goes into the log; None when its target is missing."""
        match event:
            case Append(message):
                self._append(message)
                return event
            case Truncate(keep_last):
                self._truncate(max(0, keep_last))
                return event
            case Replace(target, message):
                return self._replace(target, message)
            case Remove(target):
                place = self._place(target, "remove")
                return None if place is None else self._put(place, None, event)
            case Patch(target, metadata):
                place = self._place(target, "patch")
                if place is None:
                    return None
                old = self._next[place]
                return self._put(place, patch_message(old, metadata), event)
            case _:
                assert_never(event)

    def _append(self, message: Message) -> None:
        former = self._passing_place(message.passing)
        if former is None or self._next[former].id != message.id:  # a note may be written anew under its own name
            self._must_be_new(message.id)
        if message.passing:
            self._passing.add(message.passing)
        if former is None:
            self._next.append(message)
            self._note(message.id)
        else:  # in the same place, so that what a model has read before it stays as it was
            self._put(former, message, Append(message))

    def _truncate(self, keep_last: int) -> None:
        """Passing messages are not counted and stay: the fold does not know them."""
        self._open_pages()
        lasting = sum(1 for message in self._next if not message.passing)
        leave = max(0, lasting - keep_last)
        kept: list[Message] = []
        for message in self._next:
            if message.passing or leave == 0:
                kept.append(message)
            else:
                leave -= 1
        self._next = kept
        self._ids = None
        self._new &= self._known_ids

    def _replace(self, target: str, message: Message) -> Replace | None:
        place = self._place(target, "replace")
        if place is None:
            return None
        old = self._next[place]
        if message.role != old.role:
            raise SessionError(f"message {target!r} is the {old.role}'s; a replacement keeps the role")
        if message.id != target:
            self._must_be_new(message.id)
        if message.passing != old.passing:  # whether a message lasts was decided when it was appended
            message = replace(message, passing=old.passing)
        event = Replace(target, message)
        self._put(place, message, event)
        return event

    def _put(self, place: int, message: Message | None, event: E) -> E:
        former = self._next[place].id
        self._new.discard(former)
        if self._ids is not None:
            self._ids.discard(former)
        if message is None:
            del self._next[place]
        else:
            self._next[place] = message
            self._note(message.id)
        return event

    def _note(self, message_id: str) -> None:
        self._new.add(message_id)
        if self._ids is not None:
            self._ids.add(message_id)

    def _place(self, target: str, action: str) -> int | None:
        if target not in self._new:
            if target not in self._known_ids:
                if self._emit is not None:
                    self._emit(MessageTargetMissing(target=target, action=action))
                return None
            self._open_pages()  # it may stand on one of them
        # Mostly one of the last.
        return next(place for place in range(len(self._next) - 1, -1, -1) if self._next[place].id == target)

    def _passing_place(self, key: str) -> int | None:
        if key not in self._passing:
            return None
        return next((place for place in range(len(self._next) - 1, -1, -1) if self._next[place].passing == key), None)

    @property
    def _known_ids(self) -> set[str]:
        """Made when first asked for: walking a long history has to be worth it."""
        if self._ids is None:
            self._ids = {message.id for message in with_pages(self._pages, tuple(self._next))}
        return self._ids

    def _open_pages(self) -> None:
        """An event reaches what is on them: from here on they are messages like the others, and places count anew."""
        self._next[:0] = (message for page in self._pages for message in page.messages)
        self._pages = ()

    def _must_be_new(self, message_id: str) -> None:
        ours = self._since is not None and drawn_after(self._since, message_id)
        if message_id in (self._new if ours else self._known_ids):
            raise SessionError(f"message id {message_id!r} is in the conversation already; ids are unique")


class _Kept(NamedTuple):
    version: int
    messages: Messages
    weight: int
    behind: int
    """What of it the messages behind the pages weigh: those never change, and a page is heavier when it is open."""


class RecentConversations:
    """Conversations kept in memory between turns. Any of them may be dropped; the store has them all.

    `limit` is in messages and `weight` in bytes, for all together. The one that was kept last stays in any case: it is
    the one that is spoken in, and reading it anew for each turn would be dearer the longer it is.
    """

    def __init__(self, limit: int = 100_000, weight: int = 64_000_000) -> None:
        self._limit = limit
        self._heaviest = weight
        self._size = 0
        self._weight = 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def get(self, session: str) -> tuple[int, Messages] | None:
        kept = self._kept.get(session)
        if kept is None:
            return None
        self._kept.move_to_end(session)
        return kept.version, kept.messages

    def keep(self, session: str, version: int, messages: Messages) -> None:
        behind = _weight(behind_pages(messages), self.forget(session))
        weight = behind + sum(map(weigh_page, pages_of(messages)))
        self._kept[session] = _Kept(version, messages, weight, behind)
        self._size += len(messages)
        self._weight += weight
        while len(self._kept) > 1 and (self._size > self._limit or self._weight > self._heaviest):
            self.forget(next(iter(self._kept)))

    def clear(self) -> None:
        self._kept.clear()
        self._size = self._weight = 0

    def forget(self, session: str) -> _Kept | None:
        kept = self._kept.pop(session, None)
        if kept is not None:
            self._size -= len(kept.messages)
            self._weight -= kept.weight
        return kept


def _weight(messages: tuple[Message, ...], former: _Kept | None) -> int:
    """Of a conversation that went on where it stood only what is new is weighed, and all of any other."""
    if former is None:
        return sum(map(weigh, messages))
    before = behind_pages(former.messages)
    if messages[: len(before)] != before:  # nearly always the very same, which is quickly seen
        return sum(map(weigh, messages))
    return former.behind + sum(map(weigh, messages[len(before) :]))


def weigh(message: Message) -> int:
    """Estimate the memory of a message in bytes, near enough to keep a limit by. A text knows its own size, so that
    nothing long is walked, copied or written for it."""
    total = A_MESSAGE
    if message.metadata:
        total += _json_weight(message.metadata)
    for block in message.blocks:
        if type(block) is Text:
            total += getsizeof(block.text)
        else:
            total += A_BLOCK + _of(block)
    return total


def weigh_page(page: Page) -> int:
    """In bytes: what is written, or about what it became."""
    return page.size * OF_JSON if page.is_open else page.size


def _of(block: Block) -> int:
    match block:
        case ToolResult():
            weight = getsizeof(block.content) + A_FACT * len(block.facts)
            if block.error is not None:
                weight += getsizeof(block.error.message)
            return weight
        case ToolCall():
            weight = _json_weight(block.args)
            if block.bad_args is not None:
                weight += getsizeof(block.bad_args)
            return weight
        case Thinking():
            return getsizeof(block.text) + getsizeof(block.signature)
        case Image():
            return len(block.data)
        case Text(text):
            return getsizeof(text)


def _json_weight(value: Any) -> int:
    """Of what JSON can hold."""
    try:
        return OF_JSON * len(_encode(value))
    except (TypeError, ValueError, RecursionError):  # as a layer or a model may have it: half characters, far too deep
        return _walked_weight(value)


def _walked_weight(value: Any) -> int:
    total = 0
    left = [value]
    while left:
        item = left.pop()
        total += getsizeof(item)
        if isinstance(item, dict):
            left.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, list | tuple):
            left.extend(cast("list[Any]", item))
    return total
