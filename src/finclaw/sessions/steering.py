"""Steering: messages that wait in a lane join the turn that runs before them, between two of its steps."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal, Protocol

from finclaw.kernel.message import Message
from finclaw.kernel.record import Accepted, JoinedOutcome
from finclaw.kernel.scope import Outcome

QueueMode = Literal["followup", "steer"]
"""What a message does while another of its session is being answered: it waits for its turn, or joins the other's."""


class JoinOffer:
    """A message that waits in its lane and may join the turn that runs."""

    def __init__(self, accepted: Accepted, words: Message) -> None:
        self.accepted = accepted
        self.words = words
        self.is_taken = False
        self.ended: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        """Of one that was taken: its outcome, once that is on disk; None when it is back in its lane."""

    def settle(self, outcome: Outcome | None) -> None:
        if not self.ended.done():
            self.ended.set_result(outcome)


class Steering(Protocol):
    """Where a running turn gets the messages that join it."""

    def is_asked_for(self) -> bool:
        """Whether somebody waits who will join at the next boundary: what the model has planned may be void."""
        ...

    async def take(self, answers: int) -> None:
        """Let those who wait join. `answers` is how often the model has answered so far."""
        ...


class LaneSteering:
    """The steering of one turn from its lane. Only its own sender's words reach it, and nobody is overtaken."""

    def __init__(
        self,
        host: Accepted,
        next_offers: Callable[[], Iterator[JoinOffer]],
        join: Callable[[Accepted, Message], Awaitable[bool]],
    ) -> None:
        self._host = host
        self._next_offers = next_offers
        self._join = join
        self._joined: list[tuple[JoinOffer, int]] = []

    def _fitting(self) -> Iterator[JoinOffer]:
        """Those right behind the turn; whoever does not fit lets nobody pass."""
        for offer in self._next_offers():
            if not offer.is_taken and not may_steer(self._host, offer.accepted):
                return
            if not offer.is_taken:
                yield offer

    def is_asked_for(self) -> bool:
        return next(self._fitting(), None) is not None

    async def take(self, answers: int) -> None:
        for offer in list(self._fitting()):
            offer.is_taken = True
            if await self._join(offer.accepted, offer.words):
                self._joined.append((offer, answers))
            else:
                offer.settle(None)

    def unseen(self, answers: int) -> list[Message]:
        """The words of those that joined and that the model has not answered to."""
        return [offer.words for offer, before in self._joined if before >= answers]

    def outcomes(self, answers: int, make: Callable[[Accepted], Outcome]) -> tuple[JoinedOutcome, ...]:
        """The ends of those that the model has seen, for the commit that ends the turn."""
        seen = [offer.accepted for offer, before in self._joined if before < answers]
        return tuple(JoinedOutcome(each.id, make(each)) for each in seen)

    def settle(self, ends: tuple[JoinedOutcome, ...]) -> None:
        """The turn has ended, with these of them; the others are back in their lane. Idempotent."""
        by_id = {each.inbound_id: each.outcome for each in ends}
        for offer, _ in self._joined:
            offer.settle(by_id.get(offer.accepted.id))


def may_steer(host: Accepted, later: Accepted) -> bool:
    """One person goes on with their own words, in the same place; and neither was there in a crash."""
    one, other = host.inbound, later.inbound
    same = (one.channel, one.account, one.conversation, one.thread, one.sender.id) == (
        other.channel,
        other.account,
        other.conversation,
        other.thread,
        other.sender.id,
    )
    plain = not (one.unasked or other.unasked) and one.kind == other.kind == "message" and other.wishes is None
    return same and plain and not (host.left or later.left)
