"""A directory of the chats: what each can show, and where a person is to be found."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.person import NOBODY, Person


class Chat(Struct, frozen=True, kw_only=True):
    """A direct chat with somebody."""

    session: str
    channel: str
    account: str
    conversation: str
    sender: str
    thread: str | None = None
    person: Person = NOBODY


class ChatDirectory(Protocol):
    """A lookup of channels and direct chats, which the gateway gives."""

    def capabilities(self, channel: str) -> Capabilities: ...

    async def chat_of(self, known_as: Sequence[str]) -> Chat | None:
        """The direct chat in which the person of these identities wrote last. None: nobody knows of one."""
        ...


class NoChats:
    """A directory without a gateway: nobody can be written to."""

    def capabilities(self, channel: str) -> Capabilities:
        return Capabilities()

    async def chat_of(self, known_as: Sequence[str]) -> Chat | None:
        return None
