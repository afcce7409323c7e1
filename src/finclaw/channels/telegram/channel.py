"""A Telegram bot as a channel."""

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain, islice, repeat
from typing import Any, Final

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import AiogramError, TelegramBadRequest, TelegramRetryAfter
from aiogram.methods import GetUpdates, SetWebhook
from aiogram.types import BotCommand, User, WebhookInfo
from aiogram.utils.token import TokenValidationError
from aiohttp import ClientError, ClientResponseError

from finclaw.channels.telegram.chats import ChatBook, read_name
from finclaw.channels.telegram.failures import describe, translate_call
from finclaw.channels.telegram.inbound import ALLOWED_UPDATES, UpdateIntake, UpdateReader
from finclaw.channels.telegram.options import (
    CAPABILITIES,
    WebhookOptions,
    make_webhook_secret,
    read_options,
    read_token,
)
from finclaw.channels.telegram.outbound import (
    MessageSender,
    SendPace,
    channel_errors,
    read_thread,
    show_reaction,
    show_typing,
)
from finclaw.channels.telegram.webhook import listen_for_updates
from finclaw.commands.declaration import describe_in
from finclaw.errors import AttachmentRefused, ChannelError, ConfigError
from finclaw.kernel.envelope import Attachment, Inbound, Receipt
from finclaw.kernel.port import Accept, Channel, ChannelSpec, Command
from finclaw.kernel.record import OutboxItem
from finclaw.redaction import hide_known_secrets
from finclaw.text import Language

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 25
REQUEST_SECONDS: Final = 30.0
RETRY_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Waits between two polls while Telegram cannot be reached; the last one goes on."""


class _RawUpdates(GetUpdates):
    """Updates as JSON gives them: one that aiogram cannot read must not keep back all others."""

    __returning__ = list[dict[str, Any]]


class _Session(AiohttpSession):
    async def close(self) -> None:
        """Without the wait of aiogram's own, which hides a warning of older versions of Python."""
        if self._session is not None and not self._session.closed:
            await self._session.close()


class TelegramChannel(Channel):
    """A channel of one bot. An update is acknowledged when it is on disk: by the offset of the next poll, or by the
    answer to the webhook's call."""

    capabilities = CAPABILITIES

    def __init__(self, spec: ChannelSpec) -> None:
        """Raises ConfigError. It connects to nothing yet."""
        self.name = spec.name
        self.connected = False
        self._account = spec.account
        self._clock = spec.clock
        self._options = read_options(spec)
        token = read_token(spec)
        self._webhook_secret = make_webhook_secret(token)
        try:
            session = _Session(api=TelegramAPIServer.from_base(self._options.api), timeout=REQUEST_SECONDS)
            self._bot = Bot(token.reveal(), session=session)
        except TokenValidationError:
            raise ConfigError("the token is not one of Telegram's, such as 123456:AbC…; @BotFather shows it") from None
        self._chats = ChatBook(spec.name, spec.recall, spec.remember)
        self._intake = UpdateIntake(spec.name, self._bot, self._chats, spec.clock)
        self._sender = MessageSender(self._bot, SendPace(self._options, spec.clock), self._chats, spec.read_blob)
        self._commands: Sequence[Command] = ()
        self.webhook_port: int | None = None
        """Where the listener of the webhook is, while there is one."""

    def announce_commands(self, commands: Sequence[Command]) -> None:
        self._commands = tuple(commands)

    async def receive(self, accept: Accept) -> None:
        await self._chats.open()
        me = await self._ask_who_we_are()
        self.connected = True
        await show_commands(self._bot, self._commands, self.name)
        reader = UpdateReader(self.name, self._account, me, self._chats, command_names(self._commands))
        if self._options.webhook is None:
            await self._poll(reader, accept)
        else:
            await self._serve_webhook(self._options.webhook, reader, accept)

    async def _ask_who_we_are(self) -> User:
        """Until Telegram answers. Raises ChannelError for a token that it does not know."""
        waits = _waits()
        while True:
            try:
                with channel_errors(passing=True):
                    return await self._bot.get_me()
            except AiogramError as error:
                wait = next(waits)
                log.warning("channel %s: no Telegram (%s); again in %g s", self.name, describe(error), wait)
                await self._clock.sleep(wait)

    async def _poll(self, reader: UpdateReader, accept: Accept) -> None:
        await self._remove_webhook()
        offset = 0
        waits = _waits()
        while True:
            call = _RawUpdates(offset=offset, timeout=POLL_SECONDS, allowed_updates=ALLOWED_UPDATES)
            try:
                with channel_errors(passing=True):
                    updates: Any = await self._bot(call, request_timeout=POLL_SECONDS + int(REQUEST_SECONDS))
            except AiogramError as error:
                self.connected = isinstance(error, TelegramRetryAfter)
                wait = next(waits)
                if isinstance(error, TelegramRetryAfter):
                    wait = float(error.retry_after)
                log.warning("channel %s: no updates (%s); again in %g s", self.name, describe(error), wait)
                await self._clock.sleep(wait)
                continue
            self.connected = True
            waits = _waits()
            offset = await self._intake.take_all(updates, offset, reader, accept)

    async def _remove_webhook(self) -> None:
        """Telegram gives no updates to a poll while there is a webhook."""
        with channel_errors():
            info = await self._bot.get_webhook_info()
            if info.url:
                log.warning("channel %s: removing the webhook of this bot, because the settings say polling", self.name)
                await self._bot.delete_webhook()

    async def _serve_webhook(self, options: WebhookOptions, reader: UpdateReader, accept: Accept) -> None:
        async def take(raw: dict[str, Any]) -> None:
            await self._intake.take(raw, reader, accept)

        async with listen_for_updates(options, self._webhook_secret, take) as port:
            # One call at a time: several would overtake each other.
            call = SetWebhook(
                url=options.url,
                secret_token=self._webhook_secret.reveal(),
                allowed_updates=ALLOWED_UPDATES,
                max_connections=1,
            )
            self.webhook_port = port
            try:
                with channel_errors():
                    await self._bot(call)
                await asyncio.Event().wait()
            finally:
                self.webhook_port = None

    async def send(self, unit: OutboxItem) -> Receipt:
        return await self._sender.send(unit)

    async def edit(self, platform_id: str, unit: OutboxItem) -> None:
        await self._sender.edit(platform_id, unit)

    async def delete(self, platform_id: str) -> None:
        await self._sender.delete(platform_id)

    async def react(self, inbound: Inbound, emoji: str | None) -> None:
        found = read_name(inbound.answer_to)
        if found is not None:
            await show_reaction(self._bot, *found, emoji)

    async def typing(self, inbound: Inbound, active: bool) -> None:
        chat = self._chats.chat_of(inbound.conversation)
        if active and chat is not None:
            await show_typing(self._bot, chat, read_thread(inbound.thread))

    @property
    def unreachable(self) -> Mapping[str, str]:
        """Conversations that take nothing from us any more, and why: blocked, or put out of a group."""
        return self._chats.notes.unreachable

    async def fetch(self, attachment: Attachment) -> bytes:
        return await download_file(self._bot, attachment, self.capabilities.media[attachment.kind])

    async def check(self) -> str:
        with channel_errors():
            me = await self._bot.get_me()
            info = await self._bot.get_webhook_info()
        way_in = _describe_way_in(info, self._options.webhook)
        return "; ".join((f"the token is that of @{me.username}", *way_in, *_describe_groups(me)))

    async def close(self) -> None:
        await self._intake.close()
        await self._bot.session.close()


def _waits() -> Iterator[float]:
    return chain(RETRY_SECONDS, repeat(RETRY_SECONDS[-1]))


_NAME: Final = re.compile(r"[a-z0-9_]{1,32}")
_MOST: Final = 100
_LONGEST: Final = 256


def command_names(commands: Sequence[Command]) -> frozenset[str]:
    """Return the names that people can choose from the list, and write in a group without naming the bot."""
    return frozenset(each.name for each in _listed(commands))


async def show_commands(bot: Bot, commands: Sequence[Command], channel: str) -> None:
    """Set the list for everybody, and the one for people whose Telegram is in Korean: names are the same in both."""
    if not (listed := _listed(commands)):
        return
    try:
        await bot.set_my_commands(_translate(listed, "en"))
        await bot.set_my_commands(_translate(listed, "ko"), language_code="ko")
    except AiogramError as error:
        log.warning("channel %s: the list of commands could not be set: %s", channel, describe(error))


def _listed(commands: Sequence[Command]) -> list[Command]:
    fit = (each for each in commands if not each.roles and _NAME.fullmatch(each.name) and each.description.strip())
    return list(islice(fit, _MOST))


def _translate(commands: Sequence[Command], language: Language) -> list[BotCommand]:
    return [
        BotCommand(command=each.name, description=describe_in(language, each.description)[:_LONGEST])
        for each in commands
    ]


def _describe_way_in(info: WebhookInfo, webhook: WebhookOptions | None) -> Iterator[str]:
    if webhook is None:
        yield "messages come by polling"
        if info.url:
            yield f"the webhook {info.url} is still set, and the gateway removes it when it starts"
    elif info.url == webhook.url:
        yield f"the webhook {info.url} is set"
    else:
        yield f"the webhook is {info.url or 'not set'}, and the gateway sets {webhook.url} when it starts"
    if webhook is not None and info.last_error_message:
        listens = f"http://{webhook.host}:{webhook.port}"
        yield (
            f"Telegram's last call of the webhook failed ({info.last_error_message}): check that the gateway runs and "
            f"that your proxy passes {webhook.url} on to {listens}"
        )
    if info.pending_update_count:
        yield f"updates that wait for the gateway: {info.pending_update_count}"


def _describe_groups(me: User) -> Iterator[str]:
    if me.can_join_groups is False:
        yield "it cannot be added to groups (to change it: @BotFather, /mybots, the bot, Bot Settings, Allow Groups?)"
    elif me.can_read_all_group_messages:
        yield "in groups it is given every message, because privacy mode is off"
    else:
        yield (
            "in groups it is given only commands, mentions and replies to it, because privacy mode is on (to change "
            "it: @BotFather, /mybots, the bot, Bot Settings, Group Privacy, Turn off; then add the bot to "
            "the group again)"
        )


DOWNLOAD_SECONDS: Final = 50


async def download_file(bot: Bot, attachment: Attachment, most: int) -> bytes:
    """The bytes of a file. Raises AttachmentRefused (too large or gone) or ChannelError (try later)."""
    too_large = AttachmentRefused(f"file {attachment.name!r} is larger than the {most:,} bytes that a bot may fetch")
    if (attachment.size or 0) > most:
        raise too_large
    content = BytesIO()
    try:
        found = await bot.get_file(attachment.id)
        if (found.file_size or 0) > most:
            raise too_large
        address = bot.session.api.file_url(bot.token, found.file_path or "")
        async for chunk in bot.session.stream_content(address, timeout=DOWNLOAD_SECONDS):
            content.write(chunk)
            if content.tell() > most:
                raise too_large
    except TelegramBadRequest as error:
        raise AttachmentRefused(f"there is no file {attachment.name!r}: {error.message}") from None
    except AiogramError as error:
        raise translate_call(error) from None
    except (ClientError, TimeoutError) as error:  # whose words hold the address, and that holds the token
        said = hide_known_secrets(str(error) or type(error).__name__)
        if isinstance(error, ClientResponseError) and error.status == 404:
            raise AttachmentRefused(f"there is no file {attachment.name!r} any more: {said}") from None
        raise ChannelError(f"a file could not be fetched: {said}") from None
    return content.getvalue()
