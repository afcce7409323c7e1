"""Reading of updates: what Telegram sends becomes an Inbound."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from aiogram.types import (
    Animation,
    Audio,
    CallbackQuery,
    Chat,
    Document,
    Message,
    MessageReactionUpdated,
    ReactionTypeEmoji,
    Update,
    User,
    Video,
    VideoNote,
    Voice,
)

from finclaw.channels.telegram.chats import ChatBook
from finclaw.channels.telegram.entities import EntityReader
from finclaw.channels.telegram.names import name_message
from finclaw.kernel.envelope import Attachment, AttachmentKind, ChatType, Inbound, Sender

_File = Animation | Audio | Document | Video | VideoNote | Voice
ALLOWED_UPDATES: Final = ["message", "edited_message", "callback_query", "message_reaction", "my_chat_member"]
"""All that is read here. Reactions come only when they are asked for."""
_OTHER_AUTHOR: Final = (
    "forward_origin", "forward_date", "forward_from", "forward_from_chat", "forward_sender_name",
    "via_bot", "sender_business_bot",
)  # fmt: skip
"""Fields of a message that its sender did not write. Bot API servers before 7.0 have no `forward_origin`."""
_TELEGRAM: Final = 777000
"""Telegram's service account, which forwards posts of a linked channel."""


class UpdateReader:
    """A reader of the updates of one bot."""

    def __init__(self, channel: str, account: str, bot: User, chats: ChatBook, commands: frozenset[str]) -> None:
        """`commands`: the names that people may write in a group without naming the bot."""
        self._channel = channel
        self._account = account
        self._bot = bot
        self._chats = chats
        self._commands = commands
        self._entities = EntityReader(bot)

    def read(self, update: Update) -> Inbound | None:
        """None: nobody has said or done anything that concerns us."""
        if update.message is not None:
            return self._read_message(update.message)
        if update.edited_message is not None:
            return self._read_edit(update.edited_message, update.update_id)
        if update.callback_query is not None:
            return self._read_press(update.callback_query)
        if update.message_reaction is not None:
            return self._read_reaction(update.message_reaction, update.update_id)
        return None

    def _read_message(self, message: Message) -> Inbound | None:
        sender = self._author(message)
        text = message.text or message.caption or ""
        entities = message.entities or message.caption_entities or []
        attachments = tuple(_attachments(message))
        if message.sticker is not None:
            text = message.sticker.emoji or ""
        if sender is None or not (text or attachments):
            return None
        answered = _answered(message)
        is_to_us = answered is not None and answered.from_user is not None and answered.from_user.id == self._bot.id
        return Inbound(
            text=self._entities.read(text, entities),
            channel=self._channel,
            account=self._account,
            conversation=self._chats.conversation_of(message.chat.id),
            message_id=name_message(message.chat.id, message.message_id),
            sender=sender,
            chat_type=_chat_type(message.chat),
            thread=_thread(message),
            reply_to=None if answered is None else name_message(message.chat.id, answered.message_id),
            attachments=attachments,
            mentions_us=is_to_us or self._entities.is_addressed(text, entities, self._commands),
            forwarded=_has_other_author(message),
        )

    def _read_edit(self, message: Message, update: int) -> Inbound | None:
        sender = self._author(message)
        if sender is None:
            return None
        text = message.text or message.caption or ""
        entities = message.entities or message.caption_entities or []
        return Inbound(
            text=self._entities.read(text, entities),
            channel=self._channel,
            account=self._account,
            conversation=self._chats.conversation_of(message.chat.id),
            message_id=f"update-{update}",
            sender=sender,
            chat_type=_chat_type(message.chat),
            thread=_thread(message),
            kind="edit",
            target=name_message(message.chat.id, message.message_id),
            forwarded=_has_other_author(message),
            edited=True,
            sent_at=None if message.edit_date is None else datetime.fromtimestamp(message.edit_date, UTC),
        )

    def _read_press(self, press: CallbackQuery) -> Inbound | None:
        """A pressed button. One under a message that was passed on elsewhere belongs to no chat of ours."""
        sender = self._sender(press.from_user)
        if sender is None or press.message is None or not press.data:
            return None
        chat = press.message.chat
        return Inbound(
            text=press.data,
            channel=self._channel,
            account=self._account,
            conversation=self._chats.conversation_of(chat.id),
            message_id=f"callback-{press.id}",
            sender=sender,
            chat_type=_chat_type(chat),
            thread=_thread(press.message) if isinstance(press.message, Message) else None,
            kind="action",
            target=name_message(chat.id, press.message.message_id),
            mentions_us=True,
        )

    def _read_reaction(self, reaction: MessageReactionUpdated, update: int) -> Inbound | None:
        sender = self._sender(reaction.user)
        if sender is None:
            return None
        before = [each.emoji for each in reaction.old_reaction if isinstance(each, ReactionTypeEmoji)]
        now = [each.emoji for each in reaction.new_reaction if isinstance(each, ReactionTypeEmoji)]
        return Inbound(
            text=next((emoji for emoji in now if emoji not in before), ""),
            channel=self._channel,
            account=self._account,
            conversation=self._chats.conversation_of(reaction.chat.id),
            message_id=f"update-{update}",
            sender=sender,
            chat_type=_chat_type(reaction.chat),
            kind="reaction",
            target=name_message(reaction.chat.id, reaction.message_id),
        )

    def _author(self, message: Message) -> Sender | None:
        """None for what a chat has posted: a channel, or a group in whose name an administrator writes anonymously."""
        if message.sender_chat is not None or message.is_automatic_forward:
            return None
        user = message.from_user
        return None if user is not None and user.id == _TELEGRAM else self._sender(user)

    def _sender(self, user: User | None) -> Sender | None:
        if user is None:
            return None
        is_self = user.id == self._bot.id
        language = user.language_code or ""
        return Sender(str(user.id), user.full_name, is_bot=user.is_bot, is_self=is_self, language=language)


def _has_other_author(message: Message) -> bool:
    return any(getattr(message, name) is not None for name in _OTHER_AUTHOR)


def _chat_type(chat: Chat) -> ChatType:
    return "direct" if chat.type == "private" else "channel" if chat.type == "channel" else "group"


def _thread(message: Message) -> str | None:
    """The topic. In groups without topics a chain of answers has such a number too."""
    return str(message.message_thread_id) if message.is_topic_message and message.message_thread_id else None


def _answered(message: Message) -> Message | None:
    """What it answers. A message in a topic that answers nothing refers to the beginning of the topic."""
    answered = message.reply_to_message
    return None if answered is None or answered.forum_topic_created is not None else answered


def _attachments(message: Message) -> Iterator[Attachment]:
    if message.photo:
        largest = max(message.photo, key=lambda size: size.width * size.height)
        yield Attachment(id=largest.file_id, kind="image", mime="image/jpeg", size=largest.file_size)
    if message.document is not None and message.animation is None:  # an animation is a document too, for old programs
        mime = message.document.mime_type or "application/octet-stream"
        yield _attach(message.document, "image" if mime.startswith("image/") else "file", mime)
    for sound in (message.voice, message.audio):
        if sound is not None:
            yield _attach(sound, "audio", sound.mime_type or "audio/ogg")
    for film in (message.video, message.video_note, message.animation):
        if film is not None:
            yield _attach(film, "video", "video/mp4")


def _attach(file: _File, kind: AttachmentKind, mime: str) -> Attachment:
    name = "" if isinstance(file, Voice | VideoNote) else file.file_name or ""
    return Attachment(id=file.file_id, kind=kind, mime=mime, name=name, size=file.file_size)
