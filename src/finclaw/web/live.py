"""The live stream: what happens to an account's messages, numbered, so that a client goes on where it left off.

Events are kept in one bounded buffer for everybody; a client is a position in it and costs nothing. A position that is
gone (the buffer moved on, or the gateway started anew) is answered with `reset`: forget previews, here is what is open.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

from msgspec import Struct

from finclaw.kernel import event as events
from finclaw.web.principal import CHANNEL

CAPACITY: Final = 10_000
EVERYBODY: Final = ""
"""The account of an event that every follower gets."""


class LiveEvent(Struct, frozen=True):
    """An event of the live stream. `id` is what a client sends back as `after` to go on behind this event."""

    id: str
    type: str
    data: dict[str, Any]


class _Entry(Struct, frozen=True):
    seq: int
    account: str
    conversation: str
    type: str
    data: dict[str, Any]


class _Open(Struct):
    """A message that has not ended, as a client that comes late must be told of it."""

    account: str
    conversation: str
    unasked: bool = False
    turn_id: str = ""
    preview: str = ""


class LiveStream:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._boot = secrets.token_hex(4)
        self._entries: deque[_Entry] = deque(maxlen=capacity)
        self._open: dict[str, _Open] = {}
        self._store: dict[str, Any] = {}
        self._seq = 0
        self._news = asyncio.Event()

    def observe(self, event: events.Event) -> None:
        """An observer of the gateway's events: keeps those that a person at the web channel may see."""
        if isinstance(event, events.MessageAccepted):
            if event.channel == CHANNEL:
                self._open[event.inbound_id] = _Open(event.account, event.conversation, event.unasked)
                self._add(event, "accepted", self._whose(event))
            return
        if isinstance(event, events.SessionsErased):  # whoever follows is told to begin anew, by `reset`
            self._entries.clear()
            return
        if isinstance(event, events.StoreHealthChanged):
            state = {"writable": not event.why, "why": event.why}
            self._store = {"store": state} if event.why else {}
            self._append(EVERYBODY, "", "store", state)
            return
        if isinstance(event, events.ApprovalChanged):  # also of a question whose message has long ended
            self._add_approval(event)
            return
        message = self._open.get(event.inbound_id)
        if message is None:
            return
        message.turn_id = event.turn_id or message.turn_id
        self._add_progress(event, message)

    def _add_progress(self, event: events.Event, message: _Open) -> None:
        match event:
            case events.PreviewUpdated(at=at, text=text):
                message.preview = message.preview[:at] + text
                self._add(event, "preview_update", {"at": at, "text": text})
            case events.ToolStartedEvent(call_id=call_id, tool=tool):
                self._add(event, "tool_progress", {"call_id": call_id, "tool": tool, "state": "started"})
            case events.ToolEndedEvent(call_id=call_id, tool=tool, status=status):
                ended = {"call_id": call_id, "tool": tool, "state": "ended", "status": status}
                self._add(event, "tool_progress", ended)
            case events.QueueChanged(change=change, mode=mode, position=position, other=other, waits_for=waits_for):
                told = {"change": change, "mode": mode, "position": position, "joined_to": other}
                self._add(event, "queue", {**told, "waits_for": waits_for})
            case events.MessageEnded(outcome=outcome, reason=reason, reply=reply, is_markdown=is_markdown):
                ending = {"outcome": outcome, "reason": reason, "reply": reply, "is_markdown": is_markdown}
                self._add(event, "outcome", {**ending, **self._whose(event)})
                del self._open[event.inbound_id]
            case _:
                pass

    def _whose(self, event: events.Event) -> dict[str, Any]:
        """For readers who must know whether this is for them: two people may share a conversation's name."""
        return {"session": event.session, "unasked": self._open[event.inbound_id].unasked}

    def _add(self, event: events.Event, kind: str, data: dict[str, Any]) -> None:
        message = self._open[event.inbound_id]
        about = {"inbound_id": event.inbound_id, "conversation": message.conversation, "turn_id": event.turn_id}
        self._append(message.account, message.conversation, kind, {**about, **data})

    def _append(self, account: str, conversation: str, kind: str, data: dict[str, Any]) -> None:
        self._seq += 1
        self._entries.append(_Entry(self._seq, account, conversation, kind, data))
        self._news.set()
        self._news = asyncio.Event()

    def _add_approval(self, event: events.ApprovalChanged) -> None:
        if event.channel == CHANNEL:
            about = {"inbound_id": event.inbound_id, "conversation": event.conversation, "turn_id": event.turn_id}
            data = {"approval_id": event.approval_id, "tool": event.tool, "change": event.change, "by": event.by}
            self._append(event.account, event.conversation, "approval", {**about, **data})

    def running_turn(self, inbound_id: str) -> str | None:
        """The turn that answers a message; None before it has begun and after it has ended."""
        message = self._open.get(inbound_id)
        return None if message is None else message.turn_id or None

    async def follow(self, account: str, conversation: str | None, after: str | None) -> AsyncGenerator[LiveEvent]:
        """Events of an account, or of one of its conversations, for ever. `after` None: from now on."""
        position = self._seq if after is None else self._position(after)
        while True:
            if position is None or position < self._oldest - 1:
                position = self._seq
                yield self._reset(account, conversation)
            news = self._news
            for entry in self._since(position):
                position = entry.seq
                is_theirs = entry.account == account and conversation in (None, entry.conversation)
                if is_theirs or entry.account == EVERYBODY:
                    yield LiveEvent(self._id(entry.seq), entry.type, entry.data)
            if position >= self._seq:
                await news.wait()

    @property
    def beginning(self) -> str:
        return self._id(0)

    @property
    def _oldest(self) -> int:
        return self._entries[0].seq if self._entries else self._seq + 1

    def _since(self, position: int) -> list[_Entry]:
        if position >= self._seq:
            return []
        skipped = max(0, position + 1 - self._oldest)
        return [self._entries[place] for place in range(skipped, len(self._entries))]

    def _position(self, after: str) -> int | None:
        boot, _, seq = after.partition(".")
        if boot == self._boot and seq.isascii() and seq.isdigit() and len(seq) < 19 and int(seq) <= self._seq:
            return int(seq)
        return None

    def _id(self, seq: int) -> str:
        return f"{self._boot}.{seq}"

    def _reset(self, account: str, conversation: str | None) -> LiveEvent:
        still_open = [
            {"inbound_id": id, "conversation": each.conversation, "turn_id": each.turn_id, "preview": each.preview}
            for id, each in self._open.items()
            if each.account == account and conversation in (None, each.conversation)
        ]
        return LiveEvent(self._id(self._seq), "reset", {"seq": self._seq, "open": still_open, **self._store})
