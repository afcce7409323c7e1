"""Intake of updates: each is on disk, in Telegram's order, before Telegram is told that we have it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from aiogram import Bot
from aiogram.exceptions import AiogramError
from aiogram.types import Update
from pydantic import ValidationError

from finclaw.channels.telegram.chats import ChatBook
from finclaw.channels.telegram.failures import describe
from finclaw.channels.telegram.inbound import UpdateReader
from finclaw.errors import InboundConflict, StoreFailed
from finclaw.kernel.port import Accept, Clock

log = logging.getLogger(__name__)

STORE_PAUSE: Final = 1.0
"""Seconds after the store refused an update, before Telegram is asked for it again."""
GONE: Final = ("kicked", "left")
"""What we are in a chat that has blocked us or put us out."""


class UpdateIntake:
    """An intake of the updates of one bot, from a poll or from a webhook."""

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

    def _read_update(self, raw: dict[str, Any]) -> Update | None:
        try:
            return Update.model_validate(raw, context={"bot": self._bot})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            log.error(
                "channel %s: update %s is of a kind that aiogram cannot read and is left out: %s",
                self._channel,
                raw.get("update_id"),
                first["msg"],
            )
            return None

    async def _note_chat(self, update: Update) -> None:
        """Keep what the update says of its chat. Raises StoreFailed."""
        message = update.message
        member = update.my_chat_member
        if message is not None and message.migrate_to_chat_id is not None:
            await self._chats.move(message.chat.id, message.migrate_to_chat_id)
        elif message is not None and message.migrate_from_chat_id is not None:
            await self._chats.move(message.migrate_from_chat_id, message.chat.id)
        elif member is not None and member.new_chat_member.status in GONE:
            what = "blocked the bot" if member.chat.type == "private" else "removed the bot from the group"
            await self._chats.mark_unreachable(member.chat.id, what)
        elif message is not None or member is not None:
            await self._chats.mark_reachable((message or member).chat.id)  # pyright: ignore[reportOptionalMemberAccess]

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
