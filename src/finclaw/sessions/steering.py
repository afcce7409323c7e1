"""Steering: messages that wait in a lane join the turn that runs before them, at its start or between two steps."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import takewhile
from typing import Protocol

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.message import Message
from finclaw.kernel.record import Accepted, JoinedOutcome
from finclaw.kernel.scope import Outcome
from finclaw.kernel.turn_options import TurnOptions
from finclaw.sessions.queue_mode import ChosenMode, WaitingMode


class JoinOffer:
    """A message that waits in its lane and may join another's turn, as its mode has it."""

    def __init__(
        self, accepted: Accepted, words: Message, chosen: ChosenMode | None = None, wishes: TurnOptions | None = None
    ) -> None:
        self.accepted = accepted
        self.words = words
        self.chosen = chosen or ChosenMode()
        self.wishes = wishes
        """What its sender wants of the answer, as the pipeline knows it."""
        self.is_taken = False
        self.drop_reason = ""
        """Why it was left out of a line that was full; empty: it was not."""
        self.is_told = False
        """Of one that was left out: its sender hears of it by another."""
        self.ended: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        """Of one that was taken: its outcome, once that is on disk; None when it is back in its lane."""

    @property
    def mode(self) -> WaitingMode:
        return self.chosen.mode

    @property
    def is_settled(self) -> bool:
        return self.is_taken or bool(self.drop_reason)

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
        shares: Callable[[JoinOffer], bool] = lambda _: False,
    ) -> None:
        """`shares`: whether a message that does not steer shares the turn all the same, from its start on."""
        self._host = host
        self._next_offers = next_offers
        self._join = join
        self._shares = shares
        self._joined: list[tuple[JoinOffer, int]] = []

    def _fitting(self, *, at_start: bool = False) -> list[JoinOffer]:
        """Those right behind the turn; whoever does not fit lets nobody pass, unless a later one takes them along."""
        free = (offer for offer in self._next_offers() if not offer.is_taken)
        behind = list(takewhile(lambda offer: may_join(self._host, offer), free))
        along = max((place for place, offer in enumerate(behind, 1) if offer.mode == "steer-backlog"), default=0)
        rest = takewhile(lambda each: each.mode == "steer" or (at_start and self._shares(each)), behind[along:])
        return [*behind[:along], *rest]

    def is_asked_for(self) -> bool:
        return bool(self._fitting())

    async def take(self, answers: int) -> None:
        for offer in self._fitting(at_start=answers == 0):
            if offer.is_settled:  # while another one joined
                return
            offer.is_taken = True
            if await self._join(offer.accepted, offer.words):
                self._joined.append((offer, answers))
            else:
                offer.settle(None)

    @property
    def joined_at_start(self) -> tuple[Accepted, ...]:
        """Those that are part of the question, for they joined before the model had said anything."""
        return tuple(offer.accepted for offer, before in self._joined if before == 0)

    def unseen(self, answers: int) -> list[Message]:
        """The words of those that joined and that the model has not answered to."""
        return [offer.words for offer, before in self._joined if before >= answers]

    def list_seen(self, answers: int) -> tuple[Accepted, ...]:
        """Those that joined and that the model has answered to."""
        return tuple(offer.accepted for offer, before in self._joined if before < answers)

    def settle(self, ends: tuple[JoinedOutcome, ...]) -> None:
        """The turn has ended, with these of them; the others are back in their lane. Idempotent."""
        by_id = {each.inbound_id: each.outcome for each in ends}
        for offer, _ in self._joined:
            offer.settle(by_id.get(offer.accepted.id))

    def close(self) -> None:
        """Let go of the lane and of the turn, which knows this: neither would ever be freed."""
        self._next_offers = _no_offers
        self._join = _refuse


def _no_offers() -> Iterator[JoinOffer]:
    return iter(())


async def _refuse(later: Accepted, words: Message) -> bool:
    return False


def is_same_person_and_place(one: Inbound, other: Inbound) -> bool:
    """Whether two messages are one person's in one place: nothing is ever merged across these."""
    return (one.channel, one.account, one.conversation, one.thread, one.sender.id) == (
        other.channel,
        other.account,
        other.conversation,
        other.thread,
        other.sender.id,
    )


def may_join(host: Accepted, offer: JoinOffer) -> bool:
    """One person goes on with their own words, in the same place; and neither was there in a crash.

    A message with wishes of its own, such as for another model, has a turn of its own.
    """
    one, later = host.inbound, offer.accepted
    other = later.inbound
    plain = not (one.unasked or other.unasked) and one.kind == other.kind == "message"
    plain = plain and not (_wants_own_turn(offer.wishes) or _wants_own_turn(other.wishes))
    return plain and is_same_person_and_place(one, other) and not (host.left or later.left)


def _wants_own_turn(wishes: TurnOptions | None) -> bool:
    return wishes is not None and wishes != TurnOptions(queue=wishes.queue)
