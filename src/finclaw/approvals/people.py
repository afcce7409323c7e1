"""The persons of the settings, their identities and roles, and who may decide about an approval."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from finclaw.approvals.settings import ApprovalSettings
from finclaw.errors import ConfigError, ToolDenied
from finclaw.ids import identity
from finclaw.kernel.approval import Approval, RefusalReason
from finclaw.kernel.envelope import Inbound, Sender

TOKEN_HOLDER: Final = "web:owner:owner"
LOCAL: Final = (TOKEN_HOLDER, "api:local:local")
"""Whoever holds this machine's token or runs a program on it is the owner, unless the settings say otherwise."""

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
                self._roles[each] = person.roles
                self._names[each] = person.name
                self._known_as[each] = person.known_as
        here = tuple(each for each in LOCAL if each not in self._roles)
        self.entries: Sequence[tuple[str, Sequence[str]]] = (
            *((person.name, person.known_as) for person in people),
            ("owner", here),
        )
        """Everybody by name, with their identities: the settings' people, and the owner."""
        for each in here:
            self._roles[each] = ("owner",)
            self._known_as[each] = here

    def roles(self, known_as: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(role for who in known_as for role in self._roles_of(who)))

    def sender(self, inbound: Inbound) -> Sender:
        """The sender with the roles that are theirs here, whatever the message claims."""
        roles = self._roles_of(identity_of(inbound))
        if inbound.sender.roles == roles:
            return inbound.sender
        return replace(inbound.sender, roles=roles)

    def _roles_of(self, who: str) -> tuple[str, ...]:
        """Of a label its own, where the settings name it; else those of whoever vouches for it."""
        if who in self._roles:
            return self._roles[who]
        lender = next((each for each in self._vouching if who.startswith(f"{each}/")), "")
        return self._roles.get(lender, ())

    def name(self, who: str) -> str:
        return self._names.get(who, who)

    def known_as(self, who: str) -> tuple[str, ...]:
        """All the identities of one person: whoever writes under a label (`X/label`) holds the token or account `X`."""
        own = self._own_identities(who)
        holder = _label_holder(who)
        if holder is None:
            return own
        return tuple(dict.fromkeys((*own, *self._own_identities(holder))))

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
    if who.count(":") < 2:
        return None
    channel, account, sender = who.split(":", 2)
    holder, _, label = sender.partition("/")
    if not holder or not label:
        return None
    return f"{channel}:{account}:{holder}"


def identity_of(inbound: Inbound) -> str:
    return identity(inbound.channel, inbound.account, inbound.sender.id)


def approvers_for(
    inbound: Inbound, people: People, settings: ApprovalSettings, *, authenticated: bool
) -> tuple[str, ...]:
    """Who may decide about what this message led to. Raises ToolDenied when nobody could be asked."""
    if inbound.limits is not None and inbound.limits.pool != "main":
        raise ToolDenied(
            "this needs a person's approval, and nobody reads along here; leave it to the main conversation"
        )
    me = identity_of(inbound)
    approvers = settings.approvers
    if settings.own == "direct" and inbound.chat_type == "direct" and authenticated:
        approvers = (me, *approvers)
    reached = frozenset[str]().union(*map(people.who, approvers))
    if settings.own == "never":
        reached = frozenset(each for each in reached if not people.same_person(me, each))
    if not reached:
        raise ToolDenied("this needs a person's approval, and nobody here may give it; it was not run")
    return approvers


def may_decide(
    approval: Approval, evidence: Inbound, people: People, settings: ApprovalSettings, *, authenticated: bool
) -> RefusalReason | None:
    """Return why this person may not decide, or None.

    `evidence` is the message that carried the decision; `authenticated`: its channel knows who writes.
    """
    if (why := _nobodys_word(evidence, authenticated=authenticated)) is not None:
        return why
    who = identity_of(evidence)
    if settings.own == "never" and people.same_person(approval.asked_by, who):
        return "own_request"
    still_listed = (each for each in approval.approvers if each in settings.approvers)
    if any(who in people.who(each) for each in still_listed):
        return None
    if who != approval.asked_by or not _is_their_own(approval):
        return "not_an_approver"
    if evidence.chat_type != "direct" or evidence.conversation != approval.conversation:
        return "elsewhere"
    return None


def may_still_give(approval: Approval, people: People, settings: ApprovalSettings, *, authenticated: bool) -> bool:
    """Whether whoever said yes to it might do so now. `authenticated`: so is the channel that it was asked in."""
    giver = approval.decided_by or ""
    requester = approval.asked_by
    if settings.own == "never" and people.same_person(requester, giver):
        return False
    if any(giver in people.who(each) for each in settings.approvers):
        return True
    return giver == requester and authenticated and _is_their_own(approval)


def may_revoke(
    approval: Approval, evidence: Inbound, people: People, settings: ApprovalSettings, *, authenticated: bool
) -> RefusalReason | None:
    """None: they may take back the yes that stands. It lets nobody do more, so any chat of theirs will do."""
    if (why := _nobodys_word(evidence, authenticated=authenticated)) is not None:
        return why
    who = identity_of(evidence)
    approvers = (*settings.approvers, *approval.approvers)
    if who in people.known_as(approval.asked_by) or any(who in people.who(each) for each in approvers):
        return None
    return "not_an_approver"


def decides_here(approval: Approval, people: People, settings: ApprovalSettings) -> bool:
    """Whoever asked reads the card, and may decide about it."""
    if settings.own == "never":
        return False
    return any(approval.asked_by in people.who(each) for each in approval.approvers)


def _nobodys_word(evidence: Inbound, *, authenticated: bool) -> RefusalReason | None:
    """None: it is a person's own, new message."""
    if not authenticated:
        return "unauthenticated"
    sender = evidence.sender
    if sender.is_self or sender.is_bot or evidence.from_extension is not None or evidence.limits is not None:
        return "our_own_words"
    is_new = evidence.kind in ("message", "action") and not evidence.edited
    if evidence.forwarded or not is_new or evidence.reissue_of is not None:
        return "forwarded"
    return None


def _is_their_own(approval: Approval) -> bool:
    return approval.chat_type == "direct" and approval.asked_by in approval.approvers
