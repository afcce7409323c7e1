"""Session queues, called lanes: which turn of a session runs, which wait, and how many may.

Tickets come from the store, in order.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from finclaw.errors import SessionFull
from finclaw.kernel.record import Accepted
from finclaw.sessions.steering import JoinOffer


class _Place:
    """The place of one message in its lane."""

    __slots__ = ("accepted", "offer", "waiting")

    def __init__(self, accepted: Accepted | None) -> None:
        self.accepted = accepted
        self.offer: JoinOffer | None = None
        self.waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)


class Lane:
    """The queue of one session: its open tickets in order. The first may run; the others wait for it to leave."""

    def __init__(self) -> None:
        self._places: dict[int, _Place] = {}
        """In the order in which they run, which is that of their tickets, but for who was let past."""

    def expect(self, ticket: int, accepted: Accepted | None = None) -> None:
        if (known := self._places.get(ticket)) is not None:
            if accepted is not None:  # with other words, where it was edited
                known.accepted = accepted
            return
        is_late = bool(self._places) and ticket < next(reversed(self._places))
        self._places[ticket] = _Place(accepted)
        if is_late:
            self._places = dict(sorted(self._places.items()))

    def withdraw_offer(self, ticket: int) -> None:
        """Let no turn take this message along; it keeps its place."""
        if (place := self._places.get(ticket)) is not None and place.offer is not None and not place.offer.is_taken:
            place.offer = None

    def leave(self, ticket: int) -> None:
        """Finished, or given up: one step with handing over, so that nobody can slip in between or be forgotten."""
        self._places.pop(ticket, None)
        if self._places:
            self._places[self._first].wake()

    @property
    def _first(self) -> int:
        return next(iter(self._places))

    @property
    def empty(self) -> bool:
        return not self._places

    def __len__(self) -> int:
        return len(self._places)

    def position(self, ticket: int) -> int:
        """How many are before this ticket."""
        if ticket in self._places:
            return list(self._places).index(ticket)
        return sum(1 for each in self._places if each < ticket)

    @property
    def first(self) -> Accepted | None:
        """The message that is being answered, or about to be."""
        return self._places[self._first].accepted if self._places else None

    def _must_wait(self, ticket: int) -> bool:
        if ticket in self._places:
            return self._first != ticket
        return bool(self._places) and self._first < ticket

    async def turn_of(self, ticket: int) -> None:
        """Wait until every ticket before it has left."""
        while self._must_wait(ticket):
            self.expect(ticket)
            self._places[ticket].waiting = waiting = asyncio.get_running_loop().create_future()
            await waiting

    async def turn_or_join(self, ticket: int, offer: JoinOffer) -> None:
        """Wait as above, or until a turn that runs has taken the offer, or it was dropped."""
        self.expect(ticket)
        place = self._places[ticket]
        place.offer = offer
        while self._must_wait(ticket) and not offer.is_settled:
            place.waiting = waiting = asyncio.get_running_loop().create_future()
            await waiting
        if not offer.is_taken:
            place.offer = None

    def offers_behind(self, ticket: int) -> Iterator[JoinOffer]:
        """In order, up to the first that makes none: nobody may be overtaken."""
        behind = False
        for each, place in list(self._places.items()):
            if behind and place.offer is None:
                return
            if behind and place.offer is not None:
                yield place.offer
            behind = behind or each == ticket

    def waiting(self) -> list[JoinOffer]:
        """Those that wait and that no turn has taken, in order."""
        offers = [place.offer for place in self._places.values() if place.offer is not None]
        return [each for each in offers if not each.is_settled]

    def list_open(self) -> list[tuple[Accepted, JoinOffer | None]]:
        """Everybody of whom more is known than a ticket, in order, with what those offer who wait."""
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
            self._places = {each: self._places[each] for each in order}

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
            if lane.empty:
                del self._lanes[session]

    def find(self, session: str) -> Lane | None:
        return self._lanes.get(session)

    def count(self, session: str) -> int:
        """How many of a session are not answered yet."""
        lane = self._lanes.get(session)
        return 0 if lane is None else len(lane)

    def position(self, session: str, ticket: int) -> int:
        lane = self._lanes.get(session)
        return 0 if lane is None else lane.position(ticket)

    def list_open(self, session: str) -> Sequence[tuple[Accepted, JoinOffer | None]]:
        lane = self._lanes.get(session)
        return () if lane is None else lane.list_open()

    async def turn_of(self, session: str, ticket: int) -> None:
        """Wait until every earlier ticket has left. Whoever waits must leave, also when it is cancelled."""
        lane = self._lanes.get(session)
        if lane is not None:
            await lane.turn_of(ticket)

    async def turn_or_join(self, session: str, ticket: int, offer: JoinOffer) -> None:
        """Wait likewise, or until the turn that runs has taken the offer."""
        lane = self._lanes.get(session)
        if lane is not None:
            await lane.turn_or_join(ticket, offer)

    def offers_behind(self, session: str, ticket: int) -> Iterator[JoinOffer]:
        """Those that would join a turn that runs, in order."""
        lane = self._lanes.get(session)
        return iter(()) if lane is None else lane.offers_behind(ticket)

    def wake(self, session: str) -> None:
        lane = self._lanes.get(session)
        if lane is not None:
            lane.wake()

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
        self._told: set[str] = set()
        """Sessions whose people know that they are full."""

    def check(self, session: str, is_exempt: Callable[[], bool] = lambda: False) -> None:
        """Raises SessionFull, unless the message is exempt: one that stops the others finds room."""
        waiting = self._lanes.count(session)
        if 2 * waiting < self._most:  # not at the first free place: whoever goes on writing was told just now
            self._told.discard(session)
        if waiting >= self._most and not is_exempt():
            raise SessionFull(f"{waiting} messages of this conversation wait for their answers; try again later")

    def accept_above(self, accepted: Accepted) -> None:
        """Note a message that was accepted in a full session."""
        self._above.add(accepted.id)

    def find_refusal(self, inbound_id: str) -> str | None:
        """Why a message is refused; None: it is not."""
        if inbound_id not in self._above:
            return None
        return f"{self._most} messages of the conversation waited for their answers, the most by pipeline.max_waiting"

    def must_tell(self, session: str) -> bool:
        """Whether the people of a session have yet to hear that it is full. It is asked when they are about to."""
        is_first = session not in self._told
        self._told.add(session)
        return is_first

    def leave(self, inbound_id: str) -> None:
        """A message has ended."""
        self._above.discard(inbound_id)
