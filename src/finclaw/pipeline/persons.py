"""Persons behind senders, the fields of a turn's context about them, and the language in which they are answered.

Only those of whom more is known than one identity are held in memory. Everybody else is a person by their identity,
which takes no row to know.
"""

import logging
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, get_args

from msgspec import convert
from msgspec.structs import asdict, replace

from finclaw.agent.prompt.sections import ComplianceLevel
from finclaw.approvals.people import People
from finclaw.approvals.remote_approvers import Chat
from finclaw.errors import ConfigError, FinclawError, SessionError
from finclaw.gateway import PersonRecord
from finclaw.ids import identity, parts_of
from finclaw.kernel.envelope import Capabilities, Inbound, Sender
from finclaw.kernel.person import ChartColors, ContactHistory, Person, language_for
from finclaw.kernel.port import Channel
from finclaw.kernel.record import SessionRecord
from finclaw.kernel.store_port import ConversationStore, PersonStore
from finclaw.sessions.session_key import place_of, session_key
from finclaw.taint.sources import unquoted_part
from finclaw.text import Language, find_language, language_of

log = logging.getLogger(__name__)

MOST_REMEMBERED: Final = 10_000  # persons; the language of others is read from the store again
UNREAD: Final = ("api", "subagent")
"""Channels at which nobody reads what did not answer them: programs, and turns of our own."""
_PAGE: Final = 100
_IDENTITY: Final = re.compile(r"[^:\s]+:[^:\s]+:\S+")
_MENTIONS: Final = re.compile(r"\s*(?:<?@[^\s>]{1,128}>?[,:]?\s+)*")


async def open_directory(store: PersonStore, people: People) -> "PersonDirectory":
    """With the settings' people in the store, and the owner: they are there before anybody has written."""
    await store.seed_people(people.entries)
    return PersonDirectory(await store.known_people())


class PersonDirectory:
    def __init__(self, known: Iterable[Person] = ()) -> None:
        self._by_identity: dict[str, Person] = {}
        self._by_id: dict[str, Person] = {}
        self.languages: dict[str, Language | None] = {}
        """The language that each person last wrote in, by id. None: they have written no words."""
        for person in known:
            self.put(person)

    def put(self, person: Person) -> None:
        self._by_id[person.id] = person
        self._by_identity.update(dict.fromkeys(person.identities, person))

    def remove(self, person: Person) -> None:
        self._by_id.pop(person.id, None)
        self.languages.pop(person.id, None)
        for each in person.identities:
            self._by_identity.pop(each, None)

    def get(self, id: str) -> Person:
        """By the id; somebody of whom no more is known is that id."""
        return self._by_id.get(id) or Person(id=id)

    def find(self, inbound: Inbound) -> Person:
        """The person behind a message; of a helper's task the one for whom it runs."""
        limits = inbound.limits
        if limits is not None and limits.pool == "subagent":
            id = limits.person or f"{inbound.account}:{inbound.sender.id}"  # an older release did not say it
            return self._by_id.get(id) or Person(id=id, identities=(id,))
        who = identity(inbound.channel, inbound.account, inbound.sender.id)
        return self._by_identity.get(who) or Person(id=who, name=inbound.sender.name, identities=(who,))


class PersonService:
    def __init__(self, store: PersonStore, people: People, directory: PersonDirectory) -> None:
        self._store = store
        self._people = people
        self._directory = directory

    async def list_people(self, limit: int, after: str = "") -> Sequence[PersonRecord]:
        return [self._record(person) for person in await self._store.people(limit, after)]

    async def find(self, who: str) -> PersonRecord | None:
        """By an identity, an id, or a name that only one person has."""
        found = await self._store.find_person(who)
        return None if found is None else self._record(found, await self._store.contact_history(found))

    async def change(self, who: str, fields: Mapping[str, str]) -> PersonRecord:
        """Raises ConfigError for a value that is none, SessionError for somebody who is not there."""
        checked = check_fields(fields)
        person = await self._store.find_person(who)
        if person is None:
            raise SessionError(f"there is no person {who!r}; `finclaw people list` shows those there are")
        changed = convert({**asdict(person), **checked}, Person)
        await self._store.save_person(changed)
        self._directory.put(changed)
        return self._record(changed)

    async def save(self, person: Person) -> None:
        """Keep what a person has said of themselves, such as their language. Idempotent."""
        await self._store.save_person(person)
        self._directory.put(person)

    async def drop(self, person: Person) -> None:
        """Hold nothing of a person who was erased. Whoever the settings name is known again by these alone."""
        self._directory.remove(person)
        await self._store.seed_people(self._people.entries)
        for known in await self._store.known_people():
            self._directory.put(known)

    def _record(self, person: Person, contact: ContactHistory | None = None) -> PersonRecord:
        return PersonRecord(person=person, roles=self._people.roles(person.identities), contact=contact)


class ReplyLanguages:
    """Decides the language in which each message is answered; the rest reads `Inbound.reply_language`.

    In this order: the person's preference, the message's own words, the words of the person's last message, the
    language of their program, English. A command in Latin letters has no words of its own, whatever follows it:
    Telegram allows no others, and names of companies are Latin everywhere.
    """

    def __init__(self, store: PersonStore, persons: PersonDirectory, prefix: str) -> None:
        self._store = store
        self._persons = persons
        self._prefix = prefix

    async def decide(self, inbound: Inbound) -> Inbound:
        """The message with its language. The gateway's own messages are in the language of their text."""
        if inbound.limits is not None or inbound.from_extension is not None:
            return inbound
        person = self._persons.find(inbound)
        own = self._find_own(inbound.text)
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


class Chats:
    """A lookup of people's direct chats in the store: the one in which a person wrote to us last."""

    def __init__(
        self, agent: str, store: ConversationStore, channels: Mapping[str, Channel], persons: PersonDirectory
    ) -> None:
        self._agent = agent
        self._store = store
        self._channels = channels
        self._persons = persons

    def capabilities(self, channel: str) -> Capabilities:
        """The capabilities of a channel; of one that is not there any more, those that most have."""
        found = self._channels.get(channel)
        return Capabilities() if found is None else found.capabilities

    async def chat_of(self, known_as: Sequence[str]) -> Chat | None:
        """None: they never wrote to us directly, or only where a sender is just what a message says."""
        found = [session for who in known_as for session in await self._find_latest(who)]
        latest = max(found, key=lambda each: each.updated_at, default=None)
        return None if latest is None else _chat(latest.key, self._persons)

    async def find_session(self, who: str, persons: PersonStore) -> tuple[str, str] | None:
        """The session of that chat and the person's id, of somebody by id, identity or name; None: there is none."""
        person = await persons.find_person(who)
        if person is None and _IDENTITY.fullmatch(who):  # of whom nothing is known yet but what they wrote
            person = Person(id=who, identities=(who,))
        chat = None if person is None else await self.chat_of(person.identities)
        return None if person is None or chat is None else (chat.session, person.id)

    async def _find_latest(self, who: str) -> Sequence[SessionRecord]:
        """At most two, for a key names its person in one of two ways: as the conversation, or behind it."""
        channel, account, sender = parts_of(who)
        found = self._channels.get(channel)
        if found is None or channel in UNREAD or not found.capabilities.authenticated:
            return ()
        theirs = Inbound(text="", channel=channel, account=account, conversation=sender, sender=Sender(sender))
        key = session_key(self._agent, theirs)
        both = [await self._first(theirs, part) for part in (key, f"+{key.rpartition(':')[2]}")]
        return [session for session in both if session is not None]

    async def _first(self, theirs: Inbound, containing: str) -> SessionRecord | None:
        """The most recently used one that is theirs: an id may be part of another's."""
        after: str | None = None
        while True:
            page = await self._store.sessions(_PAGE, after, containing)
            for session in page.items:
                place = place_of(session.key)
                if place is None or place.chat_type != "direct":
                    continue
                where = (place.agent, place.channel, place.account, place.peer)
                if where == (self._agent, theirs.channel, theirs.account, theirs.sender.id):
                    return session
            if page.after is None:
                return None
            after = page.after


def _chat(key: str, persons: PersonDirectory) -> Chat | None:
    place = place_of(key)
    if place is None or place.peer is None:
        return None
    return Chat(
        session=key,
        channel=place.channel,
        account=place.account,
        conversation=place.conversation,
        sender=place.peer,
        thread=place.thread,
        person=persons.find(Inbound(text="", channel=place.channel, account=place.account, sender=Sender(place.peer))),
    )


_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|\d{3}))?", re.ASCII)
_MARKET: Final = re.compile(r"[A-Z][A-Z0-9]{1,11}", re.ASCII)
_LONGEST_NAME: Final = 100
_CURRENCIES: Final = """
AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF
CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG
HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA
MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD
RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX
USD UYU UZS VED VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG
"""
CURRENCIES: Final = frozenset(_CURRENCIES.split())
"""ISO 4217, those in use."""


def check_fields(given: Mapping[str, str]) -> dict[str, str]:
    """The values as they are kept; an empty one is taken back. Raises ConfigError for the first that is none."""
    unknown = next((name for name in given if name not in _CHECKS), None)
    if unknown is not None:
        raise ConfigError(f"a person has no {unknown!r}; there are {', '.join(_CHECKS)}")
    return {name: _CHECKS[name](text.strip()) if text.strip() else "" for name, text in given.items()}


def _check_name(text: str) -> str:
    if len(text) > _LONGEST_NAME or not text.isprintable():
        raise ConfigError(f"a name has at most {_LONGEST_NAME} printable characters; give a shorter one")
    return text


def _check_language(text: str) -> str:
    if not _LANGUAGE.fullmatch(text):
        raise ConfigError(f"{text!r} is no language tag; write one such as ko, en or en-GB")
    return text


def _check_timezone(text: str) -> str:
    if text not in zoneinfo.available_timezones():
        wanted = text.casefold().replace(" ", "_")
        near = sorted(each for each in zoneinfo.available_timezones() if wanted in each.casefold())[:3]
        hint = f"; did you mean {' or '.join(near)}?" if near else "; write one such as Asia/Seoul"
        raise ConfigError(f"{text!r} is no time zone of the IANA database{hint}")
    return text


def _check_currency(text: str) -> str:
    if text.upper() not in CURRENCIES:
        raise ConfigError(f"{text!r} is no currency of ISO 4217; write its three letters, such as KRW or USD")
    return text.upper()


def _check_market(text: str) -> str:
    if not _MARKET.fullmatch(text.upper()):
        raise ConfigError(f"{text!r} is no code of a market; write one such as KRX, NYSE or NASDAQ")
    return text.upper()


def _one_of(*words: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in words:
            raise ConfigError(f"{text!r} is none of {', '.join(words)}; write one of these")
        return text

    return check


COLORS: Final[tuple[str, ...]] = get_args(ChartColors)[1:]
COMPLIANCE: Final[tuple[str, ...]] = get_args(ComplianceLevel)
_CHECKS: Final[dict[str, Callable[[str], str]]] = {
    "name": _check_name,
    "language": _check_language,
    "timezone": _check_timezone,
    "currency": _check_currency,
    "market": _check_market,
    "colors": _one_of(*COLORS),
    "compliance": _one_of(*COMPLIANCE),
}
