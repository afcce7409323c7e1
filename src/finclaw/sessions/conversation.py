"""A conversation is base plus events: messages change only through events, and the base only when a turn ends."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from finclaw.errors import SessionError
from finclaw.kernel.event import Emit, MessageTargetMissing
from finclaw.kernel.message import (
    Append,
    Message,
    MessageEvent,
    Patch,
    Remove,
    Replace,
    ToolStarted,
    Truncate,
    TurnEvent,
)


class Conversation:
    """The messages of one session during one turn. `next_messages` always equals base plus events."""

    def __init__(self, base: Sequence[Message], events: Iterable[TurnEvent] = (), emit: Emit | None = None) -> None:
        self.base_messages: tuple[Message, ...] = tuple(base)
        self._events: list[TurnEvent] = []
        self._next: list[Message] = list(base)
        self._emit = emit
        for event in events:
            self.push(event)

    @property
    def events(self) -> Sequence[TurnEvent]:
        return tuple(self._events)

    @property
    def next_messages(self) -> Sequence[Message]:
        return tuple(self._next)

    def push(self, event: TurnEvent) -> None:
        """Count an event in, at once. One whose target is missing changes nothing and is told to observers."""
        if not isinstance(event, ToolStarted) and not self._apply(event):
            return
        self._events.append(event)

    def _apply(self, event: MessageEvent) -> bool:
        match event:
            case Append(message):
                self._must_be_new(message.id)
                self._next.append(message)
            case Truncate(keep_last):
                self._next = self._next[-keep_last:] if keep_last > 0 else []
            case Replace(target, message):
                return self._at(target, "replace", message)
            case Remove(target):
                return self._at(target, "remove", None)
            case Patch(target, metadata):
                old = next((each for each in self._next if each.id == target), None)
                fresh = None if old is None else replace(old, metadata={**old.metadata, **metadata})
                return self._at(target, "patch", fresh)
            case _:
                assert_never(event)
        return True

    def _at(self, target: str, action: str, message: Message | None) -> bool:
        place = next((place for place, each in enumerate(self._next) if each.id == target), None)
        if place is None:
            if self._emit is not None:
                self._emit(MessageTargetMissing(target=target, action=action))
            return False
        if message is not None and message.id != target:
            self._must_be_new(message.id)
        self._next[place : place + 1] = [] if message is None else [message]
        return True

    def _must_be_new(self, message_id: str) -> None:
        if any(each.id == message_id for each in self._next):
            raise SessionError(f"message id {message_id!r} is in the conversation already; ids are unique")


class RecentConversations:
    """Conversations kept in memory between turns. Any of them may be dropped; the store has them all."""

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[str, tuple[int, tuple[Message, ...]]] = OrderedDict()

    def get(self, session: str) -> tuple[int, tuple[Message, ...]] | None:
        kept = self._kept.get(session)
        if kept is not None:
            self._kept.move_to_end(session)
        return kept

    def keep(self, session: str, version: int, messages: tuple[Message, ...]) -> None:
        self.forget(session)
        self._kept[session] = (version, messages)
        self._size += len(messages)
        while self._size > self._limit and self._kept:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._size -= len(dropped)

    def forget(self, session: str) -> None:
        kept = self._kept.pop(session, None)
        if kept is not None:
            self._size -= len(kept[1])
