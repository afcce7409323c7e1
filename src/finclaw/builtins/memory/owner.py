"""Owners of notes, and the chats in which their notes may be shown."""

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.erasure import SenderId


def owner_of(inbound: Inbound) -> str:
    """As the channel authenticated them. The same id on another channel or account is somebody else."""
    return owner_name(SenderId.of(inbound))


def owner_name(person: SenderId) -> str:
    return ":".join(map(_escape, (person.channel, person.account, person.sender)))


def is_a_persons(inbound: Inbound) -> bool:
    """Not a helper's task or an extension's own words: nobody said those, so nobody can wish anything in them."""
    return not inbound.is_internal and inbound.from_extension is None


def is_private(inbound: Inbound) -> bool:
    """In a group others read the answer, and what a tool said there stays in a conversation they share."""
    return is_a_persons(inbound) and inbound.chat_type == "direct"


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")
