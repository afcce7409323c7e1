"""Identities and roles of people. A role comes from the settings, for an identity that a channel authenticated."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from finclaw.errors import ConfigError
from finclaw.ids import identity
from finclaw.kernel.envelope import Inbound, Sender

TOKEN_HOLDER: Final = "web:owner:owner"
LOCAL: Final = (TOKEN_HOLDER, "api:local:local")
"""Whoever holds this machine's token or runs a program on it: one and the same, and the owner, unless the settings say
otherwise."""

_ROLE: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_IDENTITY: Final = re.compile(r"[^:\s]+:[^:\s]+:\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSettings:
    """An entry of `people`: a name, their identities on one or more channels, and their roles."""

    name: str
    """What they are called here."""
    known_as: tuple[str, ...] = ()
    """Each `channel:account:sender-id`, such as `telegram:bot1:12345`; `/whoami` shows a person's own."""
    roles: tuple[str, ...] = ()
    """Such as `owner` or `approver`. A role that a channel claims for somebody does not count."""

    def __post_init__(self) -> None:
        for each in self.known_as:
            if not _IDENTITY.fullmatch(each):
                raise ConfigError(f"known_as {each!r} is nobody; write channel:account:sender-id, as /whoami shows it")
        for role in self.roles:
            if not _ROLE.fullmatch(role):
                raise ConfigError(f"roles are words of small letters, digits, '-' and '_', which {role!r} is not")


class People:
    """Everybody whom the settings name, and whoever is at this machine."""

    def __init__(self, people: Iterable[PersonSettings] = (), vouching: Collection[str] = ()) -> None:
        """`vouching`: who speaks for others, each under a label (`identity/label`), and lends them their own roles."""
        self._vouching = tuple(vouching)
        self._roles: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, str] = {}
        self._known_as: dict[str, tuple[str, ...]] = {}
        people = tuple(people)
        for person in people:
            for each in person.known_as:
                if each in self._roles:
                    raise ConfigError(f"people names {each} twice; a sender is one person")
                self._roles[each], self._names[each] = person.roles, person.name
                self._known_as[each] = person.known_as
        here = tuple(each for each in LOCAL if each not in self._roles)
        self._entries = [*((person.name, person.known_as) for person in people), ("owner", here)]
        for each in here:
            self._roles[each], self._known_as[each] = ("owner",), here

    def entries(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Everybody by name, with their identities: the settings' people, and the owner."""
        return self._entries

    def roles(self, known_as: Iterable[str]) -> tuple[str, ...]:
        """The roles of a person with these identities."""
        return tuple(dict.fromkeys(role for who in known_as for role in self._roles_of(who)))

    def sender(self, inbound: Inbound) -> Sender:
        """The sender with the roles that are theirs here, whatever the message claims."""
        roles = self._roles_of(identity_of(inbound))
        return inbound.sender if inbound.sender.roles == roles else replace(inbound.sender, roles=roles)

    def _roles_of(self, who: str) -> tuple[str, ...]:
        """Of a label its own, where the settings name it; else those of whoever vouches for it."""
        if who in self._roles:
            return self._roles[who]
        lender = next((each for each in self._vouching if who.startswith(f"{each}/")), None)
        return () if lender is None else self._roles.get(lender, ())

    def name(self, who: str) -> str:
        """What somebody is called; their identity when they have no name here."""
        return self._names.get(who, who)

    def known_as(self, who: str) -> tuple[str, ...]:
        """All the identities of the person behind one of them.

        Whoever writes under a label (`X/label`) holds the token or account `X`, so those of `X` are among them.
        """
        own, holder = self._own_identities(who), _label_holder(who)
        return own if holder is None else tuple(dict.fromkeys((*own, *self._own_identities(holder))))

    def same_person(self, one: str, other: str) -> bool:
        """Whether one human being may be behind both identities: for four eyes, labels of one holder are one pair."""
        if other in self.known_as(one) or one in self.known_as(other):
            return True
        holders = _label_holder(one), _label_holder(other)
        return holders[0] is not None and holders[0] == holders[1] and holders[0] in self._roles

    def _own_identities(self, who: str) -> tuple[str, ...]:
        return self._known_as.get(who, (who,))

    def who(self, approver: str) -> frozenset[str]:
        """The identities behind an entry of a list of approvers: everybody with that role, or just the one."""
        kind, _, role = approver.partition(":")
        if kind == "role" and ":" not in role:
            return frozenset(each for each, roles in self._roles.items() if role in roles)
        return frozenset({approver})

    def behind(self, approvers: Iterable[str]) -> Sequence[tuple[str, ...]]:
        """Everybody in a list of approvers, once each, with all the identities by which they are known."""
        meant = (each for approver in approvers for each in sorted(self.who(approver)))
        return list(dict.fromkeys(map(self._own_identities, meant)))


def _label_holder(who: str) -> str | None:
    """`channel:account:X` of `channel:account:X/label`; None for an identity without a label."""
    channel, account, sender = who.split(":", 2) if who.count(":") > 1 else ("", "", "")
    holder, _, label = sender.partition("/")
    return f"{channel}:{account}:{holder}" if holder and label else None


def identity_of(inbound: Inbound) -> str:
    return identity(inbound.channel, inbound.account, inbound.sender.id)
