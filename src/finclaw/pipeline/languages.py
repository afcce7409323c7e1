"""The language in which a message is answered. It is decided here once; the rest reads `Inbound.reply_language`.

In this order: the person's preference, the message's own words, the words of the person's last message, the language of
their program, English. A command in Latin letters has no words of its own, whatever follows it: Telegram allows no
others, and names of companies are Latin everywhere.
"""

import logging
import re
from typing import Final

from msgspec.structs import replace

from finclaw.errors import FinclawError
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.person import Person, language_for
from finclaw.kernel.store_port import PersonStore
from finclaw.pipeline.persons import PersonDirectory
from finclaw.taint.sources import unquoted_part
from finclaw.text import Language, find_language, language_of

log = logging.getLogger(__name__)

MOST_REMEMBERED: Final = 10_000  # persons; the language of others is read from the store again
_MENTIONS: Final = re.compile(r"\s*(?:<?@[^\s>]{1,128}>?[,:]?\s+)*")


class ReplyLanguages:
    """Decides the language of each message, and remembers the one that each person last wrote in."""

    def __init__(self, store: PersonStore, persons: PersonDirectory, prefix: str) -> None:
        self._store = store
        self._persons = persons
        self._prefix = prefix

    async def decide(self, inbound: Inbound) -> Inbound:
        """The message with its language. The gateway's own messages are in the language of their text."""
        if inbound.limits is not None or inbound.from_extension is not None:
            return inbound
        person, own = self._persons.find(inbound), self._find_own(inbound.text)
        if inbound.forwarded:
            own = await self._find_last(person) or own
        elif own is not None:
            self._remember(person, own)
        known = language_for(person, "") if person.language else own or await self._find_last(person)
        if known is None and language_of(inbound.text) == "ko":  # by the names behind a command
            self._remember(person, known := "ko")
        language = known or language_of("", inbound.sender.language)
        return inbound if language == inbound.reply_language else replace(inbound, language=language)

    def _find_own(self, text: str) -> Language | None:
        """Detect the language of the text. A command counts only if its name is Korean."""
        line = _MENTIONS.sub("", unquoted_part(text), count=1)
        if not line.startswith(self._prefix):
            return find_language(line)
        return "ko" if find_language(line.partition(" ")[0]) == "ko" else None

    async def _find_last(self, person: Person) -> Language | None:
        """The language of the person's last message that had words. A failing store leaves it open."""
        if person.id not in self._persons.languages:
            try:
                texts = await self._store.last_texts(person)
            except FinclawError as error:
                log.warning("the language of a person's last message cannot be read: %s", error)
                return None
            found = map(self._find_own, texts)
            self._remember(person, next((each for each in found if each is not None), None))
        return self._persons.languages[person.id]

    def _remember(self, person: Person, language: Language | None) -> None:
        known = self._persons.languages
        known[person.id] = language
        if len(known) > MOST_REMEMBERED:
            del known[next(iter(known))]
