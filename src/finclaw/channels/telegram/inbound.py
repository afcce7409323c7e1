"""Updates: each is read as an Inbound and is on disk, in Telegram's order, before Telegram is told that we have it."""

import asyncio
import logging
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

from aiogram import Bot, types
from aiogram.exceptions import AiogramError
from pydantic import ValidationError

from finclaw.channels.telegram.chats import ChatBook, name_message
from finclaw.channels.telegram.failures import describe
from finclaw.errors import InboundConflict, StoreFailed
from finclaw.kernel.envelope import Attachment, AttachmentKind, ChatType, Inbound, Sender
from finclaw.kernel.port import Accept, Clock

log = logging.getLogger(__name__)

_File = types.Animation | types.Audio | types.Document | types.Video | types.VideoNote | types.Voice
ALLOWED_UPDATES: Final = ["message", "edited_message", "callback_query", "message_reaction", "my_chat_member"]
"""All that is read here. Reactions come only when they are asked for."""
_OTHER_AUTHOR: Final = (
    "forward_origin", "forward_date", "forward_from", "forward_from_chat", "forward_sender_name",
    "via_bot", "sender_business_bot",
)  # fmt: skip
"""Fields of a message that its sender did not write. Bot API servers before 7.0 have no `forward_origin`."""
_CHAT_TYPES: Final[dict[str, ChatType]] = {"private": "direct", "channel": "channel"}
"""Every other chat is a group."""
_TELEGRAM: Final = 777000
"""Telegram's service account, which forwards posts of a linked channel."""


class UpdateReader:
    def __init__(self, channel: str, account: str, bot: types.User, chats: ChatBook, commands: frozenset[str]) -> None:
        """`commands`: the names that people may write in a group without naming the bot."""
        self._channel = channel
        self._account = account
        self._bot = bot
        self._chats = chats
        self._commands = commands
        self._entities = EntityReader(bot)

    def read(self, update: types.Update) -> Inbound | None:
        """Return None if nobody has said or done anything that concerns us."""
        if update.message is not None:
            return self._read_message(update.message)
        if update.edited_message is not None:
            return self._read_edit(update.edited_message, update.update_id)
        if update.callback_query is not None:
            return self._read_press(update.callback_query)
        if update.message_reaction is not None:
            return self._read_reaction(update.message_reaction, update.update_id)
        return None

    def _read_message(self, message: types.Message) -> Inbound | None:
        sender = self._author(message)
        text, entities = _text_of(message)
        attachments = tuple(_attachments(message))
        if message.sticker is not None:
            text = message.sticker.emoji or ""
        if sender is None or not (text or attachments):
            return None
        reply_to = None
        mentions_us = self._entities.is_addressed(text, entities, self._commands)
        answered = message.reply_to_message
        # A message in a topic that answers nothing refers to the beginning of the topic.
        if answered is not None and answered.forum_topic_created is None:
            reply_to = name_message(message.chat.id, answered.message_id)
            mentions_us |= answered.from_user is not None and answered.from_user.id == self._bot.id
        return self._inbound(
            message.chat,
            sender,
            text=self._entities.read(text, entities),
            message_id=name_message(message.chat.id, message.message_id),
            thread=_thread(message),
            reply_to=reply_to,
            attachments=attachments,
            mentions_us=mentions_us,
            forwarded=_has_other_author(message),
        )

    def _read_edit(self, message: types.Message, update: int) -> Inbound | None:
        sender = self._author(message)
        if sender is None:
            return None
        edited_at = message.edit_date
        return self._inbound(
            message.chat,
            sender,
            text=self._entities.read(*_text_of(message)),
            message_id=f"update-{update}",
            thread=_thread(message),
            kind="edit",
            target=name_message(message.chat.id, message.message_id),
            forwarded=_has_other_author(message),
            edited=True,
            sent_at=None if edited_at is None else datetime.fromtimestamp(edited_at, UTC),
        )

    def _read_press(self, press: types.CallbackQuery) -> Inbound | None:
        """Read a pressed button. One under a message that was passed on elsewhere belongs to no chat of ours."""
        sender = self._sender(press.from_user)
        if sender is None or press.message is None or not press.data:
            return None
        chat = press.message.chat
        return self._inbound(
            chat,
            sender,
            text=press.data,
            message_id=f"callback-{press.id}",
            thread=_thread(press.message),
            kind="action",
            target=name_message(chat.id, press.message.message_id),
            mentions_us=True,
        )

    def _read_reaction(self, reaction: types.MessageReactionUpdated, update: int) -> Inbound | None:
        sender = self._sender(reaction.user)
        if sender is None:
            return None
        before = [each.emoji for each in reaction.old_reaction if isinstance(each, types.ReactionTypeEmoji)]
        now = [each.emoji for each in reaction.new_reaction if isinstance(each, types.ReactionTypeEmoji)]
        return self._inbound(
            reaction.chat,
            sender,
            text=next((emoji for emoji in now if emoji not in before), ""),
            message_id=f"update-{update}",
            kind="reaction",
            target=name_message(reaction.chat.id, reaction.message_id),
        )

    def _inbound(self, chat: types.Chat, sender: Sender, **fields: Any) -> Inbound:
        return Inbound(
            channel=self._channel,
            account=self._account,
            conversation=self._chats.conversation_of(chat.id),
            sender=sender,
            chat_type=_CHAT_TYPES.get(chat.type, "group"),
            **fields,
        )

    def _author(self, message: types.Message) -> Sender | None:
        """None for what a chat has posted: a channel, or a group in whose name an administrator writes anonymously."""
        if message.sender_chat is not None or message.is_automatic_forward:
            return None
        return self._sender(message.from_user)

    def _sender(self, user: types.User | None) -> Sender | None:
        if user is None or user.id == _TELEGRAM:
            return None
        is_self = user.id == self._bot.id
        language = user.language_code or ""
        return Sender(str(user.id), user.full_name, is_bot=user.is_bot, is_self=is_self, language=language)


def _has_other_author(message: types.Message) -> bool:
    return any(getattr(message, name) is not None for name in _OTHER_AUTHOR)


def _text_of(message: types.Message) -> tuple[str, list[types.MessageEntity]]:
    return message.text or message.caption or "", message.entities or message.caption_entities or []


def _thread(message: types.MaybeInaccessibleMessageUnion) -> str | None:
    """Return the topic. In groups without topics a chain of answers has such a number too."""
    if isinstance(message, types.Message) and message.is_topic_message and message.message_thread_id:
        return str(message.message_thread_id)
    return None


def _attachments(message: types.Message) -> Iterator[Attachment]:
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
    name: str | None = getattr(file, "file_name", None)  # voice and video notes have none
    return Attachment(id=file.file_id, kind=kind, mime=mime, name=name or "", size=file.file_size)


STORE_PAUSE: Final = 1.0
"""Seconds after the store refused an update, before Telegram is asked for it again."""
GONE: Final = ("kicked", "left")
"""What we are in a chat that has blocked us or put us out."""


class UpdateIntake:
    """Puts the updates of one bot on disk, from a poll or from a webhook."""

    def __init__(self, channel: str, bot: Bot, chats: ChatBook, clock: Clock) -> None:
        self._channel = channel
        self._bot = bot
        self._chats = chats
        self._clock = clock
        self._answers: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for task in tuple(self._answers):
            task.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)

    async def take_all(
        self, updates: Sequence[dict[str, Any]], offset: int, reader: UpdateReader, accept: Accept
    ) -> int:
        """The next offset: behind what is on disk. Telegram gives the rest again."""
        for raw in sorted(updates, key=lambda each: int(each["update_id"])):
            try:
                await self.take(raw, reader, accept)
            except StoreFailed as error:
                log.warning("channel %s: an update is not on disk and is asked for again: %s", self._channel, error)
                await self._clock.sleep(STORE_PAUSE)
                break
            offset = int(raw["update_id"]) + 1
        return offset

    async def take(self, raw: dict[str, Any], reader: UpdateReader, accept: Accept) -> None:
        """Put one update on disk. Raises StoreFailed: it is not."""
        update = self._read_update(raw)
        if update is None:
            return
        await self._note_chat(update)
        try:
            inbound = reader.read(update)
        except Exception:  # an update is a stranger's; it must not keep back all that come after it
            log.exception("channel %s: update %s could not be read and is left out", self._channel, update.update_id)
            return
        if inbound is not None:
            try:
                await accept(inbound)
            except InboundConflict as error:
                log.error("channel %s: update %s is left out: %s", self._channel, update.update_id, error)
        if update.callback_query is not None:
            self._answer_press(update.callback_query.id)

    def _read_update(self, raw: dict[str, Any]) -> types.Update | None:
        try:
            return types.Update.model_validate(raw, context={"bot": self._bot})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            text = "channel %s: update %s is of a kind that aiogram cannot read and is left out: %s"
            log.error(text, self._channel, raw.get("update_id"), first["msg"])
            return None

    async def _note_chat(self, update: types.Update) -> None:
        message = update.message
        member = update.my_chat_member
        if message is not None and message.migrate_to_chat_id is not None:
            await self._chats.move(message.chat.id, message.migrate_to_chat_id)
        elif message is not None and message.migrate_from_chat_id is not None:
            await self._chats.move(message.migrate_from_chat_id, message.chat.id)
        elif member is not None and member.new_chat_member.status in GONE:
            reason = "blocked the bot" if member.chat.type == "private" else "removed the bot from the group"
            await self._chats.mark_unreachable(member.chat.id, reason)
        elif (changed := message or member) is not None:
            await self._chats.mark_reachable(changed.chat.id)

    def _answer_press(self, query: str) -> None:
        """End the spinner on a pressed button, beside the work: it is only a sign."""

        async def answer() -> None:
            try:
                await self._bot.answer_callback_query(query)
            except AiogramError as error:  # such as one that was pressed while no gateway ran
                log.info("channel %s: a pressed button could not be confirmed: %s", self._channel, describe(error))

        task = asyncio.create_task(answer(), name=f"answer {self._channel}")
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)


_COMMAND: Final = re.compile(r"/(?P<name>[A-Za-z0-9_]{1,64})(?:@(?P<bot>[A-Za-z0-9_]{1,64}))?")
_QUOTES: Final = ("blockquote", "expandable_blockquote")


class EntityReader:
    """A reader of texts for one bot: its own mention is markup, everybody else's is part of the text. Telegram sends
    plain text and, beside it, entities: where links and mentions are, counted in UTF-16 units."""

    def __init__(self, bot: types.User) -> None:
        self._bot = bot
        self._username = (bot.username or "").casefold()

    def read(self, text: str, entities: Sequence[types.MessageEntity]) -> str:
        """Return the text as Markdown: quotations and links are written out, and our @username is left out."""
        if any(entity.type in _QUOTES for entity in entities):
            text, entities = _write_quotes(text, entities)
        units = text.encode("utf-16-le", errors="surrogatepass")
        pieces = list[str]()
        at = 0
        for entity in sorted(entities, key=lambda each: each.offset):
            start = 2 * entity.offset
            end = 2 * (entity.offset + entity.length)
            if start < at or end > len(units):  # inside another one, or not inside the text at all
                continue
            said = _decode(units[start:end])
            written = self._write(entity, said)
            if written == said:
                continue
            pieces += (_decode(units[at:start]), written)
            at = end
            if not written and units[at : at + 2] == " ".encode("utf-16-le") and not "".join(pieces).strip():
                at += 2
        if not pieces:
            return text
        return "".join((*pieces, _decode(units[at:]))).strip()

    def _write(self, entity: types.MessageEntity, said: str) -> str:
        if entity.type == "text_link" and entity.url and said not in (entity.url, entity.url.removesuffix("/")):
            words = said.rstrip()  # a line break behind them stays one: a quotation may follow
            label = words.replace("[", "\\[").replace("]", "\\]")
            return f"[{label}]({entity.url.replace('(', '%28').replace(')', '%29')}){said[len(words) :]}"
        if entity.type in ("mention", "text_mention") and self._is_our_name(said):
            return ""  # a text_mention may cover any text, such as "no, never": only the @username itself is markup
        if entity.type == "bot_command":
            found = _COMMAND.fullmatch(said)
            if found is not None and (found["bot"] or self._username).casefold() == self._username:
                return f"/{found['name']}"
        return said

    def is_addressed(self, text: str, entities: Sequence[types.MessageEntity], commands: frozenset[str]) -> bool:
        """Return whether we are mentioned, or the message begins with a command of ours that names no other bot."""
        units = text.encode("utf-16-le", errors="surrogatepass")
        for entity in entities:
            said = _decode(units[2 * entity.offset : 2 * (entity.offset + entity.length)])
            if self._is_ours(entity, said):
                return True
            found = _COMMAND.fullmatch(said)
            if entity.type != "bot_command" or found is None:
                continue
            if found["bot"] and found["bot"].casefold() == self._username:
                return True
            if not found["bot"] and entity.offset == 0 and found["name"].casefold() in commands:
                return True
        return False

    def _is_ours(self, entity: types.MessageEntity, said: str) -> bool:
        if entity.type == "mention":
            return self._is_our_name(said)
        return entity.type == "text_mention" and entity.user is not None and entity.user.id == self._bot.id

    def _is_our_name(self, said: str) -> bool:
        return bool(self._username) and said.casefold() == f"@{self._username}"


def _write_quotes(text: str, entities: Sequence[types.MessageEntity]) -> tuple[str, Sequence[types.MessageEntity]]:
    """Write `> ` before every quoted line, and move the entities along with their text."""
    data = text.encode("utf-16-le", errors="surrogatepass")
    units = "".join(map(chr, struct.unpack(f"<{len(data) // 2}H", data)))  # one character for each UTF-16 unit
    inserts = _find_inserts(units, [each for each in entities if each.type in _QUOTES])
    if not inserts:  # none is inside the text
        return text, entities
    places = sorted(inserts)
    pieces = [inserts[at] + units[at:end] for at, end in zip(places, [*places[1:], None], strict=True)]
    text = units[: places[0]] + "".join(pieces)
    moves = [0, *accumulate(len(inserts[place]) for place in places)]
    moved = list[types.MessageEntity]()
    for each in entities:
        end = each.offset + each.length
        offset = each.offset + moves[bisect_right(places, each.offset)]
        length = end + moves[bisect_left(places, end)] - offset
        moved.append(each.model_copy(update={"offset": offset, "length": length}))
    return _decode(text.encode("utf-16-le", errors="surrogatepass")), moved


def _find_inserts(units: str, quotes: Sequence[types.MessageEntity]) -> dict[int, str]:
    """What to insert and where. A quotation that begins or ends within a line gets lines of its own."""
    is_quoted = bytearray(len(units))
    for each in quotes:
        start = each.offset
        end = min(each.offset + each.length, len(units))
        is_quoted[start:end] = b"\1" * (end - start)
    inserts = dict[int, str]()
    for at in range(len(units)):
        begins_line = at == 0 or units[at - 1] == "\n"
        changes = at > 0 and is_quoted[at] != is_quoted[at - 1]
        if is_quoted[at] and (begins_line or changes):
            inserts[at] = "> " if begins_line else "\n> "
        elif changes and not begins_line and units[at] != "\n":
            inserts[at] = "\n"
    return inserts


def _decode(units: bytes) -> str:
    return units.decode("utf-16-le", errors="surrogatepass")
