"""Entities: Telegram sends plain words and, beside them, where links and mentions are, counted in UTF-16 units."""

import re
from collections.abc import Sequence
from typing import Final

from aiogram.types import MessageEntity, User

_COMMAND: Final = re.compile(r"/(?P<name>[A-Za-z0-9_]{1,64})(?:@(?P<bot>[A-Za-z0-9_]{1,64}))?")


class EntityReader:
    """A reader of texts for one bot: its own mention is markup, everybody else's is part of what was said."""

    def __init__(self, bot: User) -> None:
        self._bot = bot
        self._username = (bot.username or "").casefold()

    def read(self, text: str, entities: Sequence[MessageEntity]) -> str:
        """The words without our mention and with the addresses of links, as Markdown."""
        units = text.encode("utf-16-le", errors="surrogatepass")
        pieces, at = list[str](), 0
        for entity in sorted(entities, key=lambda each: each.offset):
            start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
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
        return "".join((*pieces, _decode(units[at:]))).strip() if pieces else text

    def _write(self, entity: MessageEntity, said: str) -> str:
        if entity.type == "text_link" and entity.url and said not in (entity.url, entity.url.removesuffix("/")):
            label = said.replace("[", "\\[").replace("]", "\\]")
            return f"[{label}]({entity.url.replace('(', '%28').replace(')', '%29')})"
        if self._is_ours(entity, said):
            return ""
        if entity.type == "bot_command":
            return self._write_command(said)
        return said

    def _write_command(self, said: str) -> str:
        """`/help@our_bot` is `/help`."""
        found = _COMMAND.fullmatch(said)
        if found is None or (found["bot"] and found["bot"].casefold() != self._username):
            return said
        return f"/{found['name']}"

    def is_addressed(self, text: str, entities: Sequence[MessageEntity], commands: frozenset[str]) -> bool:
        """Whether we are mentioned, or the message begins with a command of ours that names no other bot."""
        units = text.encode("utf-16-le", errors="surrogatepass")
        for entity in entities:
            said = _decode(units[2 * entity.offset : 2 * (entity.offset + entity.length)])
            if self._is_ours(entity, said):
                return True
            found = _COMMAND.fullmatch(said) if entity.type == "bot_command" else None
            if found is not None and found["bot"]:
                if found["bot"].casefold() == self._username:
                    return True
            elif found is not None and entity.offset == 0 and found["name"].casefold() in commands:
                return True
        return False

    def _is_ours(self, entity: MessageEntity, said: str) -> bool:
        if entity.type == "mention":
            return bool(self._username) and said[1:].casefold() == self._username
        return entity.type == "text_mention" and entity.user is not None and entity.user.id == self._bot.id


def _decode(units: bytes) -> str:
    return units.decode("utf-16-le", errors="surrogatepass")
