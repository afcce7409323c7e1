"""Sending: an outbox item becomes one or more calls of the Bot API, at the pace that Telegram allows."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unicodedata import east_asian_width

from aiogram import Bot, exceptions, methods, types

from finclaw.channels.telegram.chats import ChatBook, name_message, read_name
from finclaw.channels.telegram.failures import describe, is_passing, translate_call, translate_send
from finclaw.channels.telegram.options import CAPABILITIES, MOST_CAPTION, TelegramOptions
from finclaw.errors import SendFailed, SendRefused
from finclaw.kernel.envelope import ActionButton, Outbound, Receipt
from finclaw.kernel.port import Clock
from finclaw.kernel.record import OutboxItem

_PHOTO_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/webp"})
"""What Telegram shows as a picture; everything else goes as a file."""
_MOST_ALT: Final = MOST_CAPTION // 2
"""Characters, each of which may be two units."""
_NO_PREVIEW: Final = types.LinkPreviewOptions(is_disabled=True)
_ROW: Final = 30
"""Columns of labels in one row of buttons, so that a telephone need not cut them."""
_MOST_IN_ROW: Final = 3
_STYLES: Final = {"primary": "primary", "danger": "danger", "normal": None}
_UNFIT_PHOTO: Final = ("PHOTO_INVALID_DIMENSIONS", "IMAGE_PROCESS_FAILED", "PHOTO_SAVE_FILE_INVALID")

_SendMethod = methods.SendMessage | methods.SendPhoto | methods.SendDocument


class MessageSender:
    def __init__(
        self, bot: Bot, pace: "SendPace", chats: ChatBook, read_blob: Callable[[str], Awaitable[bytes | None]]
    ) -> None:
        self._bot = bot
        self._pace = pace
        self._chats = chats
        self._read_blob = read_blob
        self._arrived: dict[str, list[str]] = {}
        """Names of the messages of an item with several files that failed half-way: a retry goes on behind them."""

    async def send(self, unit: OutboxItem) -> Receipt:
        await self._chats.open()
        chat = self._chats.chat_of(unit.conversation)
        if chat is None:
            raise SendRefused(f"{unit.conversation!r} is no chat of Telegram")
        calls = [call async for call in self._plan(chat, unit.outbound)]
        names = self._arrived.pop(unit.token, [])
        for call in calls[len(names) :]:
            try:
                sent = await self._call(call)
            except exceptions.AiogramError as error:
                if names:
                    self._arrived[unit.token] = names
                await self._note_failure(chat, error)
                raise translate_send(error) from None
            names.append(name_message(sent.chat.id, sent.message_id))
        return Receipt(names[0])

    async def edit(self, platform_id: str, unit: OutboxItem) -> None:
        """A picture's caption is changed as such. What is there already counts as changed."""
        chat, number = _must_read(platform_id)
        outbound = unit.outbound
        mode = _parse_mode(outbound)
        markup = _keyboard(outbound.actions)
        text = methods.EditMessageText(
            chat_id=chat,
            message_id=number,
            text=outbound.formatted,
            parse_mode=mode,
            reply_markup=markup,
            link_preview_options=_NO_PREVIEW,
        )
        await self._pace.wait(chat, is_edit=True)
        if not await self._change(chat, text, "message is not modified", "no text in the message to edit"):
            caption = methods.EditMessageCaption(
                chat_id=chat, message_id=number, caption=outbound.formatted, parse_mode=mode, reply_markup=markup
            )
            await self._change(chat, caption, "message is not modified")

    async def delete(self, platform_id: str) -> None:
        chat, number = _must_read(platform_id)
        await self._change(chat, methods.DeleteMessage(chat_id=chat, message_id=number), "message to delete not found")

    async def _change(self, chat: int, method: methods.TelegramMethod[Any], fine: str, unfit: str = "") -> bool:
        """Return False if Telegram refuses with the text `unfit`; a refusal with the text `fine` is a success."""
        try:
            await self._bot(method)
        except exceptions.AiogramError as error:
            if isinstance(error, exceptions.TelegramBadRequest) and fine in error.message:
                return True
            if isinstance(error, exceptions.TelegramBadRequest) and unfit and unfit in error.message:
                return False
            await self._note_failure(chat, error)
            raise translate_send(error) from None
        return True

    async def _call(self, method: _SendMethod) -> types.Message:
        """One message, sent. A group that became a supergroup, and a picture that cannot be shown as one, are tried
        again the right way: Telegram has shown nothing of them."""
        await self._pace.wait(int(method.chat_id))
        try:
            return await self._bot(method)
        except exceptions.TelegramMigrateToChat as error:
            await self._chats.move(int(method.chat_id), error.migrate_to_chat_id)
            # What it answers was said in the old group, whose messages the new one does not have.
            change = {"chat_id": error.migrate_to_chat_id, "reply_parameters": None}
            return await self._bot(method.model_copy(update=change))
        except exceptions.TelegramBadRequest as error:
            if not isinstance(method, methods.SendPhoto) or not any(word in error.message for word in _UNFIT_PHOTO):
                raise
            return await self._bot(_as_document(method))

    async def _note_failure(self, chat: int, error: exceptions.AiogramError) -> None:
        if isinstance(error, exceptions.TelegramForbiddenError):
            await self._chats.mark_unreachable(chat, describe(error))
        elif isinstance(error, exceptions.TelegramRetryAfter):
            self._pace.hold(chat, float(error.retry_after))

    async def _plan(self, chat: int, outbound: Outbound) -> AsyncIterator[_SendMethod]:
        """The words, as the caption of the first file where they are short enough; the buttons are below the words."""
        is_caption = bool(outbound.attachments) and 0 < _units(outbound.fallback) <= MOST_CAPTION
        thread = read_thread(outbound.thread)
        answer = _answer(chat, outbound.reply_to)
        mode = _parse_mode(outbound)
        markup = _keyboard(outbound.actions)
        if not is_caption and outbound.formatted:
            yield methods.SendMessage(
                chat_id=chat,
                message_thread_id=thread,
                text=outbound.formatted,
                parse_mode=mode,
                reply_parameters=answer,
                reply_markup=markup,
                link_preview_options=_NO_PREVIEW,
            )
            answer = None
            markup = None
        for number, file in enumerate(outbound.attachments):
            data = await self._read_blob(file.blob)
            if data is None:
                raise SendRefused(f"the file {file.name!r} is not kept any more")
            photo = methods.SendPhoto(
                chat_id=chat,
                message_thread_id=thread,
                photo=types.BufferedInputFile(data, file.name),
                caption=file.alt[:_MOST_ALT],
                parse_mode=None,
                reply_parameters=answer,
                reply_markup=markup,
            )
            if is_caption and number == 0:
                photo = photo.model_copy(update={"caption": outbound.formatted, "parse_mode": mode})
            if file.mime in _PHOTO_TYPES and len(data) <= CAPABILITIES.media["image"]:
                yield photo
            else:
                yield _as_document(photo)
            answer = None
            markup = None


def _as_document(method: methods.SendPhoto) -> methods.SendDocument:
    fields = {name: getattr(method, name) for name in method.model_fields_set - {"photo"}}
    return methods.SendDocument(**fields, document=method.photo)


def _must_read(platform_id: str) -> tuple[int, int]:
    found = read_name(platform_id)
    if found is None:
        raise SendRefused(f"{platform_id!r} is no message of Telegram")
    return found


def _answer(chat: int, reply_to: str | None) -> types.ReplyParameters | None:
    """What it answers, if that is in the same chat. A message that is gone meanwhile is answered without a mark."""
    found = read_name(reply_to)
    if found is None or found[0] != chat:
        return None
    return types.ReplyParameters(message_id=found[1], allow_sending_without_reply=True)


def _parse_mode(outbound: Outbound) -> str | None:
    return None if outbound.rendered is None else "HTML"


def read_thread(thread: str | None) -> int | None:
    """Return the number of a topic; None for no topic, or one of another channel."""
    return int(thread) if thread and thread.isdecimal() else None


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def _keyboard(actions: Sequence[ActionButton]) -> types.InlineKeyboardMarkup | None:
    if not actions:
        return None
    return types.InlineKeyboardMarkup(inline_keyboard=[list(map(_button, row)) for row in _rows(actions)])


def _button(action: ActionButton) -> types.InlineKeyboardButton:
    return types.InlineKeyboardButton(text=action.label, callback_data=action.command, style=_STYLES[action.style])


def _width(button: ActionButton) -> int:
    """Return the columns of a label. Hangul is twice as wide as Latin."""
    return len(button.label) + sum(east_asian_width(character) in "WF" for character in button.label)


def _rows(actions: Sequence[ActionButton]) -> Iterator[list[ActionButton]]:
    row: list[ActionButton] = []
    for each in actions:
        if row and (len(row) == _MOST_IN_ROW or sum(map(_width, (*row, each))) > _ROW):
            yield row
            row = []
        row.append(each)
    yield row


@contextmanager
def channel_errors(*, passing: bool = False) -> Generator[None]:
    """Raise ChannelError if a call in the block fails; with `passing`, errors that may go away stay as they are."""
    try:
        yield
    except exceptions.AiogramError as error:
        if passing and is_passing(error):
            raise
        raise translate_call(error) from None


LONGEST_WAIT: Final = 5.0
"""Seconds; whoever would wait longer is sent away."""
_MINUTE: Final = 60.0
_MOST_CHATS: Final = 10_000


class SendPace:
    """A rate limiter for the bot as a whole, for each chat, and for each group within a minute. Telegram refuses
    whoever writes faster than it allows, and the refusals grow longer."""

    def __init__(self, options: TelegramOptions, clock: Clock) -> None:
        self._clock = clock
        self._between = 1.0 / options.messages_per_second
        self._between_in_chat = 1.0 / options.messages_per_second_in_chat
        self._most_in_group = options.messages_per_minute_in_group
        self._next = 0.0
        self._next_in_chat: dict[int, float] = {}
        self._last_in_group: dict[int, deque[float]] = {}

    async def wait(self, chat: int, *, is_edit: bool = False) -> None:
        """Wait until the next message may go to that chat. An edit does not count as a message of a group. Raises
        SendFailed if that is long from now: a waiting message cannot be told from one that is being sent."""
        counts = chat < 0 and not is_edit
        while (seconds := self._first_free(chat, counts=counts) - self._clock.monotonic()) > 0:
            if seconds > LONGEST_WAIT:
                raise SendFailed(f"chat {chat} takes no more messages for {seconds:.0f} s", retry_after=seconds)
            await self._clock.sleep(seconds)
        now = self._clock.monotonic()
        self._next = now + self._between
        self._next_in_chat[chat] = now + self._between_in_chat
        if counts:
            self._last_in_group.setdefault(chat, deque(maxlen=self._most_in_group)).append(now)
        if len(self._next_in_chat) > _MOST_CHATS:
            self._forget(now)

    def _first_free(self, chat: int, *, counts: bool) -> float:
        free = max(self._next, self._next_in_chat.get(chat, 0.0))
        times = self._last_in_group.get(chat, deque[float]())
        if counts and len(times) >= self._most_in_group:
            return max(free, times[0] + _MINUTE)
        return free

    def hold(self, chat: int, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        self._next_in_chat[chat] = max(until, self._next_in_chat.get(chat, 0.0))

    def _forget(self, now: float) -> None:
        self._next_in_chat = {chat: at for chat, at in self._next_in_chat.items() if at > now}
        recent = now - _MINUTE
        self._last_in_group = {chat: times for chat, times in self._last_in_group.items() if times[-1] > recent}


_ONE: Final = (
    "❤👍👎🔥🥰👏😁🤔🤯😱🤬😢🎉🤩🤮💩🙏👌🕊🤡🥱🥴😍🐳🌚🌭💯🤣⚡🍌🏆💔🤨😐"
    "🍓🍾💋🖕😈😴😭🤓👻👀🎃🙈😇😨🤝✍🤗🫡🎅🎄☃💅🤪🗿🆒💘🙉🦄😘💊🙊😎👾🤷😡"
)
_JOINED: Final = ("❤‍🔥", "👨‍💻", "🤷‍♂", "🤷‍♀")
ALLOWED: Final = frozenset((*_ONE, *_JOINED))
"""The emoji that a bot may react with. Telegram refuses all others."""
_INSTEAD: Final = {"✅": "👌", "✔": "👌", "☑": "👌", "❌": "😢", "✖": "😢", "⚠": "😢", "⏳": "🤔", "🔄": "🤔"}
"""Signs that elsewhere say done, failed or waiting."""


def allowed_reaction(emoji: str) -> str | None:
    """The emoji as Telegram takes it, or the nearest one; None: there is none."""
    bare = emoji.replace("\ufe0f", "")
    bare = _INSTEAD.get(bare, bare)
    return bare if bare in ALLOWED else None


async def show_reaction(bot: Bot, chat: int, number: int, emoji: str | None) -> None:
    """Set our reaction, or take it back; nothing where Telegram allows none like it. Raises ChannelError."""
    reaction: list[types.ReactionTypeUnion] = []
    if emoji is not None:
        allowed = allowed_reaction(emoji)
        if allowed is None:
            return
        reaction = [types.ReactionTypeEmoji(emoji=allowed)]
    with channel_errors():
        await bot(methods.SetMessageReaction(chat_id=chat, message_id=number, reaction=reaction))


async def show_typing(bot: Bot, chat: int, thread: int | None) -> None:
    """Telegram shows it for five seconds or until the next message; nothing takes it back. Raises ChannelError."""
    with channel_errors():
        await bot(methods.SendChatAction(chat_id=chat, action="typing", message_thread_id=thread))
