"""Chats of a bot and names of their messages.

Two things are remembered: groups that became supergroups, and chats that take nothing from us any more.

To the gateway a group that became a supergroup stays the conversation that it was, so that its session, its people
and the allow lists stay too.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct, field

log = logging.getLogger(__name__)


class ChatNotes(Struct):
    """The remembered value, on disk as JSON."""

    moved: dict[str, str] = field(default_factory=dict[str, str])
    """The conversation of a supergroup, by the id of its chat."""
    unreachable: dict[str, str] = field(default_factory=dict[str, str])
    """Why a conversation takes nothing from us."""


class ChatBook:
    """The chats of one bot, between Telegram's ids and our conversations."""

    def __init__(
        self, channel: str, recall: Callable[[], Awaitable[Any]], remember: Callable[[Any], Awaitable[None]]
    ) -> None:
        self._channel = channel
        self._recall = recall
        self._remember = remember
        self._notes: ChatNotes | None = None
        self._chats: dict[str, int] = {}

    async def open(self) -> None:
        if self._notes is None:
            self._notes = msgspec.convert(await self._recall() or {}, ChatNotes)
            self._chats = {conversation: int(chat) for chat, conversation in self._notes.moved.items()}

    @property
    def notes(self) -> ChatNotes:
        return self._notes or ChatNotes()

    def conversation_of(self, chat: int) -> str:
        return self.notes.moved.get(str(chat), str(chat))

    def chat_of(self, conversation: str) -> int | None:
        """The chat where a conversation goes on; None for what is no chat of Telegram."""
        try:
            return self._chats.get(conversation) or int(conversation)
        except ValueError:
            return None

    async def move(self, old: int, new: int) -> None:
        """A group became a supergroup. On disk when it returns."""
        await self.open()
        conversation = self.conversation_of(old)
        if self._chats.get(conversation) == new:
            return
        log.info("channel %s: group %s is now supergroup %s, and stays one conversation", self._channel, old, new)
        moved = {chat: where for chat, where in self.notes.moved.items() if where != conversation}
        if str(old) != conversation:
            moved[str(old)] = conversation
        await self._keep(ChatNotes({**moved, str(new): conversation}, self.notes.unreachable))
        self._chats[conversation] = new

    async def mark_unreachable(self, chat: int, reason: str) -> None:
        """Nothing more arrives there: the bot was blocked, or removed from the group."""
        await self.open()
        conversation = self.conversation_of(chat)
        if conversation not in self.notes.unreachable:
            log.warning("channel %s: chat %s cannot be reached: %s", self._channel, conversation, reason)
            await self._keep(ChatNotes(self.notes.moved, {**self.notes.unreachable, conversation: reason}))

    async def mark_reachable(self, chat: int) -> None:
        conversation = self.conversation_of(chat)
        if conversation in self.notes.unreachable:
            log.info("channel %s: chat %s can be reached again", self._channel, conversation)
            left = {each: why for each, why in self.notes.unreachable.items() if each != conversation}
            await self._keep(ChatNotes(self.notes.moved, left))

    async def _keep(self, notes: ChatNotes) -> None:
        await self._remember(msgspec.to_builtins(notes))
        self._notes = notes


def name_message(chat: int, number: int) -> str:
    """Return a name such as `-1001/45`, because Telegram counts messages in each chat separately. A group that
    becomes a supergroup begins to count again, under another chat: its new messages have other names."""
    return f"{chat}/{number}"


def read_name(name: str | None) -> tuple[int, int] | None:
    """Return the chat and the number; None for anything but a message, such as an update."""
    chat, _, number = (name or "").partition("/")
    try:
        return int(chat), int(number)
    except ValueError:
        return None
