"""A Telegram bot as a channel."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import AiogramError, TelegramRetryAfter
from aiogram.methods import GetUpdates, SetWebhook
from aiogram.types import User
from aiogram.utils.token import TokenValidationError

from finclaw.channels.telegram.chats import ChatBook
from finclaw.channels.telegram.check import describe_bot
from finclaw.channels.telegram.commands import command_names, show_commands
from finclaw.channels.telegram.failures import describe, is_passing, translate_call
from finclaw.channels.telegram.files import download_file
from finclaw.channels.telegram.inbound import ALLOWED_UPDATES, UpdateReader
from finclaw.channels.telegram.intake import UpdateIntake
from finclaw.channels.telegram.names import read_name
from finclaw.channels.telegram.options import (
    CAPABILITIES,
    WebhookOptions,
    make_webhook_secret,
    read_options,
    read_token,
)
from finclaw.channels.telegram.outbound import MessageSender
from finclaw.channels.telegram.pace import SendPace
from finclaw.channels.telegram.signs import show_reaction, show_typing
from finclaw.channels.telegram.webhook import WebhookListener
from finclaw.errors import ConfigError
from finclaw.kernel.envelope import Attachment, Inbound, Receipt
from finclaw.kernel.port import Accept, Channel, ChannelSpec, Command
from finclaw.kernel.record import OutboxItem

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

    # ── in ──────────────────────────────────────────────────────────────────────────────────────────────────────

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
                return await self._bot.get_me()
            except AiogramError as error:
                if not is_passing(error):
                    raise translate_call(error) from None
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
                updates: Any = await self._bot(call, request_timeout=POLL_SECONDS + int(REQUEST_SECONDS))
            except AiogramError as error:
                if not is_passing(error):
                    raise translate_call(error) from None
                self.connected = isinstance(error, TelegramRetryAfter)
                wait = float(error.retry_after) if isinstance(error, TelegramRetryAfter) else next(waits)
                log.warning("channel %s: no updates (%s); again in %g s", self.name, describe(error), wait)
                await self._clock.sleep(wait)
                continue
            self.connected = True
            waits = _waits()
            offset = await self._intake.take_all(updates, offset, reader, accept)

    async def _remove_webhook(self) -> None:
        """Telegram gives no updates to a poll while there is a webhook."""
        try:
            info = await self._bot.get_webhook_info()
            if info.url:
                log.warning("channel %s: removing the webhook of this bot, because the settings say polling", self.name)
                await self._bot.delete_webhook()
        except AiogramError as error:
            raise translate_call(error) from None

    async def _serve_webhook(self, options: WebhookOptions, reader: UpdateReader, accept: Accept) -> None:
        async def take(raw: dict[str, Any]) -> None:
            await self._intake.take(raw, reader, accept)

        async with WebhookListener(options, self._webhook_secret, take) as listener:
            # One call at a time: several would overtake each other.
            call = SetWebhook(
                url=options.url,
                secret_token=self._webhook_secret.reveal(),
                allowed_updates=ALLOWED_UPDATES,
                max_connections=1,
            )
            self.webhook_port = listener.port
            try:
                await self._bot(call)
                await asyncio.Event().wait()
            except AiogramError as error:
                raise translate_call(error) from None
            finally:
                self.webhook_port = None

    # ── out ─────────────────────────────────────────────────────────────────────────────────────────────────────

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
            thread = inbound.thread if inbound.thread and inbound.thread.isdecimal() else None
            await show_typing(self._bot, chat, None if thread is None else int(thread))

    @property
    def unreachable(self) -> Mapping[str, str]:
        """Conversations that take nothing from us any more, and why: blocked, or put out of a group."""
        return self._chats.notes.unreachable

    # ── files, and whether all is well ──────────────────────────────────────────────────────────────────────────

    async def fetch(self, attachment: Attachment) -> bytes:
        return await download_file(self._bot, attachment, self.capabilities.media[attachment.kind])

    async def check(self) -> str:
        try:
            me = await self._bot.get_me()
            info = await self._bot.get_webhook_info()
        except AiogramError as error:
            raise translate_call(error) from None
        return describe_bot(me, info, self._options.webhook)

    async def close(self) -> None:
        await self._intake.close()
        await self._bot.session.close()


def _waits() -> Iterator[float]:
    yield from RETRY_SECONDS
    while True:
        yield RETRY_SECONDS[-1]
