"""Who is asked: the approvers with room for one more question, and those who are asked in chats of their own.

The limits hold for a session, for a person who asks, and for a person who decides.
"""

import secrets
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from finclaw.approvals import messages
from finclaw.approvals.announce import Announcer
from finclaw.approvals.card import card, decision_buttons
from finclaw.approvals.people import People, decides_here
from finclaw.approvals.settings import ApprovalSettings
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Addressee, Approval
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.person import NOBODY, Person, read_by
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Inbox


class Chat(Struct, frozen=True, kw_only=True):
    session: str
    channel: str
    account: str
    conversation: str
    sender: str
    thread: str | None = None
    person: Person = NOBODY


class ChatDirectory(Protocol):
    def capabilities(self, channel: str) -> Capabilities: ...

    async def chat_of(self, known_as: Sequence[str]) -> Chat | None:
        """The direct chat in which the person of these identities wrote last. None: nobody knows of one."""
        ...


class NoChats:
    def capabilities(self, channel: str) -> Capabilities:
        return Capabilities()

    async def chat_of(self, known_as: Sequence[str]) -> Chat | None:
        return None


KnownAs = tuple[str, ...]  # a person, by all their identities


class Crowded(ToolDenied):
    """Too many approvals wait already: nobody was asked."""


class ApprovalLimits:
    def __init__(self, people: People, settings: ApprovalSettings) -> None:
        self._people = people
        self._settings = settings

    def deciders_of(self, asked: Approval) -> Sequence[KnownAs]:
        """The persons who are to decide: whoever asks, where they may, for it is no business of others then."""
        if decides_here(asked, self._people, self._settings):
            return [self._people.known_as(asked.asked_by)]
        return [each for each in self._people.behind(asked.approvers) if not self._is_requester(asked, each)]

    def _is_requester(self, asked: Approval, person: KnownAs) -> bool:
        if self._settings.own == "never":
            return any(self._people.same_person(asked.asked_by, each) for each in person)
        return asked.asked_by in person

    def deciders_with_room(self, asked: Approval, waiting: Collection[Approval]) -> Sequence[KnownAs]:
        """Those of the deciders who have room for it. Raises Crowded when nobody has, or whoever asks has too many."""
        most = self._settings.most_waiting
        if sum(each.session == asked.session for each in waiting) >= most:
            raise Crowded(f"{most} actions wait for a person here already; wait until some are decided")
        person = self._people.known_as(asked.asked_by)
        if sum(each.asked_by in person for each in waiting) >= most:
            raise Crowded(f"{most} actions of theirs wait for a person already; wait until some are decided")
        before = [each for one in waiting for each in self.deciders_of(one)]
        most = self._settings.most_per_approver
        roomy = [each for each in self.deciders_of(asked) if before.count(each) < most]
        if not roomy:
            raise Crowded(
                f"{asked.tool} needs a person's approval and was not run: everybody who may decide has {most} "
                "questions before them already. Wait until some are decided"
            )
        return roomy


class RemoteApprovers:
    """Sends cards to remote approvers; stored message ids make sending again after a crash idempotent."""

    def __init__(
        self,
        inbox: Inbox,
        people: People,
        chats: ChatDirectory,
        submit: Callable[[Accepted], None],
        announce: Announcer,
        prefix: str,
    ) -> None:
        self._inbox = inbox
        self._people = people
        self._chats = chats
        self._submit = submit
        self._announce = announce
        self._prefix = prefix
        self._sent: set[str] = set()

    async def addressees(self, asked: Approval, deciders: Sequence[KnownAs]) -> tuple[Addressee, ...]:
        """The deciders who are in other chats: whoever asks reads the card where they asked."""
        found = [await self._addressee(asked, each) for each in deciders if asked.asked_by not in each]
        return tuple(each for each in found if each is not None)

    async def _addressee(self, asked: Approval, known_as: Sequence[str]) -> Addressee | None:
        """None: nobody knows where to find them, or not all of the card would fit there."""
        chat = await self._chats.chat_of(known_as)
        if chat is None:
            return None
        try:
            room = self._chats.capabilities(chat.channel).max_length
            with read_by(chat.person):
                shown = card(asked, prefix=self._prefix, max_length=room, elsewhere=True)
        except ToolDenied:
            return None
        return Addressee(
            name=self._people.name(known_as[0]),
            session=chat.session,
            channel=chat.channel,
            account=chat.account,
            conversation=chat.conversation,
            sender=chat.sender,
            thread=chat.thread,
            # Nobody knows it beforehand: a client that names its own messages cannot have taken it.
            message_id=f"{asked.id}:card:{secrets.token_hex(8)}",
            card=shown,
        )

    async def send(self, waiting: Sequence[Approval]) -> None:
        """Raises StoreFailed; what was not sent then is sent next time."""
        self._sent &= {asked.id for asked in waiting}
        for asked in waiting:
            if asked.state != "pending" or asked.id in self._sent:
                continue
            for addressee in asked.sent_to:
                told = messages.card_message(addressee, decision_buttons([asked], self._prefix))
                accepted = await self._inbox.accept(told, addressee.session, self._submit)
                if not accepted.duplicate:
                    self._announce("notified", asked, by=addressee.name)
            self._sent.add(asked.id)
