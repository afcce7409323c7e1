"""Owners of notes, and the chats in which their notes may be shown."""

from finclaw.ids import parts_of
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.person import Person
from finclaw.kernel.record import SenderId


def former_names(person: Person) -> tuple[str, ...]:
    """Names under which notes of this person may still stand.

    They had an identity for themselves before it was linked, and an older release escaped senders too.
    """
    known = (person.id, *person.former)
    spelled = (owner_name(SenderId.parse(who)) for who in known if who.count(":") > 1 and all(parts_of(who)))
    return tuple(name for name in dict.fromkeys((*person.former, *spelled)) if name != person.id)


def owner_name(sender: SenderId) -> str:
    return ":".join(map(_escape, (sender.channel, sender.account, sender.sender)))


def is_a_persons(inbound: Inbound) -> bool:
    """Not a helper's task or an extension's own words: nobody said those, so nobody can wish anything in them."""
    return not inbound.is_internal and inbound.from_extension is None


def is_private(inbound: Inbound) -> bool:
    """In a group others read the answer, and what a tool said there stays in a conversation they share."""
    return is_a_persons(inbound) and inbound.chat_type == "direct"


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")
