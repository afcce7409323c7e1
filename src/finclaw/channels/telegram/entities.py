"""Entities: Telegram sends plain words and, beside them, where links and mentions are, counted in UTF-16 units."""

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from aiogram.types import MessageEntity, User

_COMMAND: Final = re.compile(r"/(?P<name>[A-Za-z0-9_]{1,64})(?:@(?P<bot>[A-Za-z0-9_]{1,64}))?")
_QUOTES: Final = ("blockquote", "expandable_blockquote")


class EntityReader:
    """A reader of texts for one bot: its own mention is markup, everybody else's is part of what was said."""

    def __init__(self, bot: User) -> None:
        self._bot = bot
        self._username = (bot.username or "").casefold()

    def read(self, text: str, entities: Sequence[MessageEntity]) -> str:
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
        return "".join((*pieces, _decode(units[at:]))).strip() if pieces else text

    def _write(self, entity: MessageEntity, said: str) -> str:
        if entity.type == "text_link" and entity.url and said not in (entity.url, entity.url.removesuffix("/")):
            words = said.rstrip()  # a line break behind them stays one: a quotation may follow
            label = words.replace("[", "\\[").replace("]", "\\]")
            return f"[{label}]({entity.url.replace('(', '%28').replace(')', '%29')}){said[len(words) :]}"
        if entity.type in ("mention", "text_mention") and self._is_our_name(said):
            return ""  # a text_mention may cover any text, such as "no, never": only the @username itself is markup
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
            return self._is_our_name(said)
        return entity.type == "text_mention" and entity.user is not None and entity.user.id == self._bot.id

    def _is_our_name(self, said: str) -> bool:
        return bool(self._username) and said.casefold() == f"@{self._username}"


def _write_quotes(text: str, entities: Sequence[MessageEntity]) -> tuple[str, Sequence[MessageEntity]]:
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
    moved = list[MessageEntity]()
    for each in entities:
        end = each.offset + each.length
        offset = each.offset + moves[bisect_right(places, each.offset)]
        length = end + moves[bisect_left(places, end)] - offset
        moved.append(each.model_copy(update={"offset": offset, "length": length}))
    return _decode(text.encode("utf-16-le", errors="surrogatepass")), moved


def _find_inserts(units: str, quotes: Sequence[MessageEntity]) -> dict[int, str]:
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
