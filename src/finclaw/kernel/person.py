"""Persons: who uses the gateway, on which channels they are known, and how they like to be answered.

What is kept for somebody (notes, alerts, spend) hangs on the person, not on the chat in which they happened to ask.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from finclaw.text import Language, language_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

ChartColors = Literal["", "red-up", "green-up"]
"""`red-up` is how Korea and Japan draw a rise, `green-up` the rest of the world."""


class Person(Struct, frozen=True, kw_only=True):
    """One human being. An empty field: nobody has said. Roles are not here: only the settings give those."""

    id: str
    """The identity by which they were first known; it stays when they get others."""
    name: str = ""
    language: str = ""
    """A tag, such as `ko` or `en-GB`; the time zone is one of the IANA database, the currency is ISO 4217."""
    timezone: str = ""
    currency: str = ""
    market: str = ""
    """The home market, by its code, such as `KRX`."""
    colors: ChartColors = ""
    compliance: str = ""
    """Makes the rules about advice stricter than `agent.compliance`, never looser."""
    identities: tuple[str, ...] = ()
    """Each `channel:account:sender`."""
    former: tuple[str, ...] = ()
    """Identities that were persons of their own before they became theirs: data may still be filed under these."""

    @property
    def preferences(self) -> tuple[str, ...]:
        return (self.language, self.timezone, self.currency, self.market, self.colors, self.compliance)


class ContactHistory(Struct, frozen=True, kw_only=True):
    """The history of a person's messages, as far as those are kept."""

    messages: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    topics: tuple[str, ...] = ()  # subjects of facts that they were told, the most frequent first
    satisfaction: float | None = None  # the share of likes among their reactions to replies


def language_for(person: Person, text: str) -> Language:
    """The language in which to answer a text: the person's own where it is known, else that of the text."""
    if not person.language:
        return language_of(text)
    return "ko" if person.language.startswith("ko") else "en"


NOBODY: Final = Person(id="")
_reader: Final[ContextVar[Person]] = ContextVar("finclaw_reader", default=NOBODY)
"""The person whose message this task answers."""


def set_reader(person: Person) -> None:
    _reader.set(person)


@contextmanager
def read_by(person: Person) -> Generator[None]:
    """Show times as this person reads them."""
    token = _reader.set(person)
    try:
        yield
    finally:
        _reader.reset(token)


def reader_zone() -> "ZoneInfo | None":
    """The zone for every time that is shown to the person whose message is being answered; None: nobody has said."""
    return zone_of(_reader.get())


def zone_of(person: Person) -> "ZoneInfo | None":
    """The person's own zone; None if it is not set or unknown on this system."""
    if not person.timezone:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415  `cold_cpu`: 2 ms, few need it

    try:
        return ZoneInfo(person.timezone)
    except (KeyError, OSError, ValueError):
        return None
