"""Remote approvers, who are not in the chat of the request: each gets the card in a chat of their own, once."""

import secrets
from collections.abc import Callable, Sequence

from finclaw.approvals import messages
from finclaw.approvals.announce import Announcer
from finclaw.approvals.card import card, decision_buttons
from finclaw.approvals.chat_directory import ChatDirectory
from finclaw.approvals.limits import KnownAs
from finclaw.approvals.people import People
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Addressee, Approval
from finclaw.kernel.person import read_by
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Inbox


class RemoteApprovers:
    """A sender of cards to remote approvers.

    The addressees are stored with the approval. Sending is accepting a message by an id that is stored, too: it may be
    done again after a crash, and happens once.
    """

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
                await self._send(asked, addressee)
            self._sent.add(asked.id)

    async def _send(self, asked: Approval, addressee: Addressee) -> None:
        told = messages.card_message(addressee, decision_buttons([asked], self._prefix))
        accepted = await self._inbox.accept(told, addressee.session, self._submit)
        if not accepted.duplicate:
            self._announce("notified", asked, by=addressee.name)
