"""Session queues, called lanes: which turn of a session runs, which messages wait, and how many may.

Tickets come from the store, in order.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final, Literal

from msgspec import Struct

from finclaw.cancellation import UncancellableFuture
from finclaw.errors import SessionFull
from finclaw.kernel.envelope import TurnOptions
from finclaw.kernel.message import Message
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import Outcome

WaitingMode = Literal["followup", "steer", "queue", "collect", "interrupt", "steer-backlog"]
"""The six modes: `QueueMode` without `auto`, which becomes one of them."""
ModeOrigin = Literal["message", "session", "channel", "settings", "auto", "reply"]
"""What has chosen the mode. `reply`: the message answers a question that the assistant asked its sender."""


class ChosenMode(Struct, frozen=True):
    """The mode in force for one message."""

    mode: WaitingMode = "followup"
    origin: ModeOrigin = "auto"


ANSWERS: Final = ChosenMode("followup", "reply")
"""The mode of a message that answers a question: whatever mode is set, it has a separate turn."""


class JoinOffer:
    """A message that waits in its lane and may join another's turn, as its mode has it."""

    def __init__(
        self, accepted: Accepted, words: Message, chosen: ChosenMode | None = None, wishes: TurnOptions | None = None
    ) -> None:
        self.accepted = accepted
        self.words = words
        self.chosen = chosen or ChosenMode()
        self.wishes = wishes  # what its sender wants of the answer, as the pipeline knows it
        self.is_taken = False
        self.drop_reason = ""  # why it was left out of a full lane; empty: it was not
        self.kept_line: str | None = None
        self.interrupted = ""
        self.is_told = False
        """The sender of a message that was left out is notified with another message."""
        self.ended: UncancellableFuture[Outcome | None] = UncancellableFuture(loop=asyncio.get_running_loop())
        """Its outcome once a turn that took it has ended and that is on disk; None when it is back in its lane. The
        turn that has it decides: a task that waits for this and is stopped is cancelled afterwards."""

    @property
    def mode(self) -> WaitingMode:
        return self.chosen.mode

    @property
    def is_answer(self) -> bool:
        """It answers a question that its sender was asked: no mode applies, it has a separate turn, soon."""
        return self.chosen.origin == "reply"

    @property
    def is_settled(self) -> bool:
        return self.is_taken or bool(self.drop_reason)

    @property
    def is_returned(self) -> bool:
        """It was taken, or was about to be, and is back in its lane: it waits for a separate turn."""
        return self.is_taken and self.ended.done() and self.ended.result() is None

    @property
    def is_joined(self) -> bool:
        """A turn has it, or is taking it in."""
        return self.is_taken and not self.is_returned

    def settle(self, outcome: Outcome | None) -> None:
        if not self.ended.done():
            self.ended.set_result(outcome)


class _Place:
    """The place of one message in its lane."""

    __slots__ = ("accepted", "offer", "waiting")

    def __init__(self, accepted: Accepted | None) -> None:
        self.accepted = accepted
        self.offer: JoinOffer | None = None
        self.waiting: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        self.waiting = asyncio.get_running_loop().create_future()
        await self.waiting

    def wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)


class Lane:
    """The queue of one session: its open tickets in order. The first may run; the others wait for it to leave."""

    def __init__(self) -> None:
        self._places: dict[int, _Place] = {}
        """In the order in which they run, which is that of their tickets except for those that were let past."""

    def expect(self, ticket: int, accepted: Accepted | None = None) -> None:
        known = self._places.get(ticket)
        if known is not None:
            known.accepted = accepted or known.accepted  # an edit has changed its text
            return
        is_late = bool(self._places) and ticket < next(reversed(self._places))
        self._places[ticket] = _Place(accepted)
        if is_late:
            self._places = dict(sorted(self._places.items()))

    def withdraw_offer(self, ticket: int) -> None:
        """Let no turn take this message along; it keeps its place."""
        place = self._places.get(ticket)
        if place is not None and place.offer is not None and not place.offer.is_taken:
            place.offer = None

    def leave(self, ticket: int) -> None:
        """Leave and hand over in one step, so that nobody can slip in between or be forgotten."""
        self._places.pop(ticket, None)
        if self._places:
            self._places[self._first].wake()

    @property
    def _first(self) -> int:
        return next(iter(self._places))

    def __len__(self) -> int:
        return len(self._places)

    def position(self, ticket: int) -> int:
        if ticket in self._places:
            return list(self._places).index(ticket)
        return sum(1 for other in self._places if other < ticket)

    @property
    def first(self) -> Accepted | None:
        """The message that is being answered, or about to be."""
        return self._places[self._first].accepted if self._places else None

    def _must_wait(self, ticket: int) -> bool:
        if ticket in self._places:
            return self._first != ticket
        return bool(self._places) and self._first < ticket

    async def turn_of(self, ticket: int) -> None:
        while self._must_wait(ticket):
            self.expect(ticket)
            await self._places[ticket].wait()

    async def turn_or_join(self, ticket: int, offer: JoinOffer) -> None:
        """Wait as above, or until a turn that runs has taken the offer, or it was dropped."""
        self.expect(ticket)
        place = self._places[ticket]
        place.offer = offer
        while self._must_wait(ticket) and not offer.is_settled:
            await place.wait()
        if not offer.is_taken:
            place.offer = None

    def offers_behind(self, ticket: int) -> Iterator[JoinOffer]:
        """In order, up to the first that makes none: nobody may be overtaken."""
        behind = False
        for other, place in list(self._places.items()):
            if behind:
                if place.offer is None:
                    return
                yield place.offer
            behind = behind or other == ticket

    def waiting(self) -> list[JoinOffer]:
        """Those that wait and that no turn has taken, in order."""
        offers = [place.offer for place in self._places.values() if place.offer is not None]
        return [offer for offer in offers if not offer.is_settled]

    def list_open(self) -> list[tuple[Accepted, JoinOffer | None]]:
        """The messages of which more than a ticket is known, in order, each with its offer if it waits with one."""
        return [(place.accepted, place.offer) for place in self._places.values() if place.accepted is not None]

    def let_past(self, ticket: int, may_pass: Callable[[JoinOffer], bool]) -> None:
        """Put a ticket before those right in front of it that wait and that it may pass; never before the first."""
        order = list(self._places)
        place = last = order.index(ticket)
        while place > 1:
            offer = self._places[order[place - 1]].offer
            if offer is None or offer.is_settled or not may_pass(offer):
                break
            place -= 1
        if place != last:
            order.insert(place, order.pop(last))
            self._places = {moved: self._places[moved] for moved in order}

    def wake(self) -> None:
        """Let everybody see what has become of their offers."""
        for place in self._places.values():
            place.wake()


class Lanes:
    """All lanes that have somebody in them. An idle session has no lane at all."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def expect(self, session: str, ticket: int, accepted: Accepted | None = None) -> None:
        self._lanes.setdefault(session, Lane()).expect(ticket, accepted)

    def leave(self, session: str, ticket: int) -> None:
        lane = self._lanes.get(session)
        if lane is not None:
            lane.leave(ticket)
            if not len(lane):
                del self._lanes[session]

    def find(self, session: str) -> Lane:
        """Return the lane of a session; an empty one if it is idle."""
        return self._lanes.get(session) or Lane()

    def count(self, session: str) -> int:
        return len(self._lanes.get(session, ()))

    async def turn_of(self, session: str, ticket: int) -> None:
        """Wait until every earlier ticket has left. Whoever waits must leave, also when it is cancelled."""
        await self.find(session).turn_of(ticket)

    def __len__(self) -> int:
        return len(self._lanes)


class WaitingLimit:
    """The limit of unanswered messages of a session, by `pipeline.max_waiting`, and those that were accepted above it.

    A program is told at once and may send the message again (`SessionFull`). A person in a chat cannot be told so:
    their message is accepted, so that no other chat waits behind it, and ends as refused.
    """

    def __init__(self, lanes: Lanes, most: int) -> None:
        self._lanes = lanes
        self._most = most
        self._above: set[str] = set()
        """Ids of messages that were accepted above the limit and have not ended."""
        self._told: set[str] = set()  # sessions whose people know that they are full

    def check(self, session: str, is_exempt: Callable[[], bool] = lambda: False) -> None:
        """Raises SessionFull, unless the message is exempt: one that stops the others finds room."""
        waiting = self._lanes.count(session)
        if 2 * waiting < self._most:  # not at the first free place: whoever goes on writing was told just now
            self._told.discard(session)
        if waiting >= self._most and not is_exempt():
            raise SessionFull(f"{waiting} messages of this conversation wait for their answers; try again later")

    def accept_above(self, accepted: Accepted) -> None:
        self._above.add(accepted.id)

    def find_refusal(self, inbound_id: str) -> str | None:
        """Return why a message is refused; None: it is not."""
        if inbound_id not in self._above:
            return None
        return f"{self._most} messages of the conversation waited for their answers, the most by pipeline.max_waiting"

    def must_tell(self, session: str) -> bool:
        """Return whether the people of a session have yet to hear that it is full. Called when they are about to."""
        is_first = session not in self._told
        self._told.add(session)
        return is_first

    def leave(self, inbound_id: str) -> None:
        self._above.discard(inbound_id)
