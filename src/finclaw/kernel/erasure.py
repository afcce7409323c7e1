"""Erasure of what was said: one conversation, or everything of one person.

What has to live on keeps no words: the digest of a message's name, so that a platform's second delivery is recognised;
row numbers, so that no id is given twice; and the sums of what was spent.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.ids import identity, parts_of
from finclaw.kernel.envelope import Inbound


class SenderId(Struct, frozen=True):
    """One sender of one account on one channel, as `/whoami` shows it: `channel:account:sender`."""

    channel: str
    account: str
    sender: str

    def __str__(self) -> str:
        return identity(self.channel, self.account, self.sender)

    @classmethod
    def parse(cls, text: str) -> "SenderId":
        """Raises ConfigError for a text that names nobody."""
        if text.count(":") < 2 or not all(parts_of(text)):
            raise ConfigError(f"{text!r} names nobody; write CHANNEL:ACCOUNT:SENDER, as /whoami shows it")
        return cls(*parts_of(text))

    @classmethod
    def of(cls, inbound: Inbound) -> "SenderId":
        return cls(inbound.channel, inbound.account, inbound.sender.id)


class Erased(Struct, frozen=True, kw_only=True):
    """What was erased, or would be."""

    sessions: tuple[str, ...] = ()
    """Conversations that are gone."""
    shared: tuple[str, ...] = ()
    """Conversations with others: the person's messages and every answer since are gone, others' messages are not."""
    messages: int = 0
    """Accepted messages whose words are gone."""
    not_searched: tuple[str, ...] = ()
    """Databases of extensions that could not be asked."""


class Erasure(Struct, frozen=True, kw_only=True):
    """What an extension is told to erase: what it keeps of these sessions and, if there is one, of this person."""

    sessions: tuple[str, ...]
    person: SenderId | None = None
    names: tuple[str, ...] = ()
    """Everything by which that person is known: the id under which their data is kept, and all their identities."""


Part = Literal["own", "shared"]
PartOf = Callable[[str], Part | None]
"""What a session's key says about a person's part in it: their own conversation, one that others may share, or none."""
