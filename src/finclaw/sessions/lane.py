"""Session queues, called lanes: which turn of a session runs, and which wait. Tickets come from the store, in order."""

import asyncio
from collections.abc import Iterator

from finclaw.sessions.steering import JoinOffer


class Lane:
    """The queue of one session: its open tickets, lowest first. The first may run; the others wait for it to leave."""

    def __init__(self) -> None:
        self._open: dict[int, asyncio.Future[None] | None] = {}
        self._offers: dict[int, JoinOffer] = {}

    def expect(self, ticket: int) -> None:
        self._open[ticket] = None

    def leave(self, ticket: int) -> None:
        """Finished, or given up: one step with handing over, so that nobody can slip in between or be forgotten."""
        self._open.pop(ticket, None)
        self._offers.pop(ticket, None)
        waiting = self._open.get(self._first) if self._open else None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    @property
    def _first(self) -> int:
        return min(self._open)

    @property
    def empty(self) -> bool:
        return not self._open

    def __len__(self) -> int:
        return len(self._open)

    def position(self, ticket: int) -> int:
        """How many are before this ticket."""
        return sum(1 for each in self._open if each < ticket)

    async def turn_of(self, ticket: int) -> None:
        """Wait until every earlier ticket has left."""
        while self._open and self._first < ticket:
            waiting = asyncio.get_running_loop().create_future()
            self._open[ticket] = waiting
            await waiting

    async def turn_or_join(self, ticket: int, offer: JoinOffer) -> None:
        """Wait as above, or until a turn that runs has taken the offer."""
        self._offers[ticket] = offer
        while self._open and self._first < ticket and not offer.is_taken:
            waiting = asyncio.get_running_loop().create_future()
            self._open[ticket] = waiting
            await waiting
        if not offer.is_taken:
            self._offers.pop(ticket, None)

    def offers_behind(self, ticket: int) -> Iterator[JoinOffer]:
        """In order, up to the first that makes none: nobody may be overtaken."""
        for each in sorted(each for each in self._open if each > ticket):
            if (offer := self._offers.get(each)) is None:
                return
            yield offer

    def wake(self) -> None:
        """Let everybody see what has become of their offers."""
        for waiting in self._open.values():
            if waiting is not None and not waiting.done():
                waiting.set_result(None)


class Lanes:
    """All lanes that have somebody in them. An idle session has no lane at all."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def expect(self, session: str, ticket: int) -> None:
        self._lanes.setdefault(session, Lane()).expect(ticket)

    def leave(self, session: str, ticket: int) -> None:
        lane = self._lanes.get(session)
        if lane is not None:
            lane.leave(ticket)
            if lane.empty:
                del self._lanes[session]

    def count(self, session: str) -> int:
        """How many of a session are not answered yet."""
        lane = self._lanes.get(session)
        return 0 if lane is None else len(lane)

    def position(self, session: str, ticket: int) -> int:
        lane = self._lanes.get(session)
        return 0 if lane is None else lane.position(ticket)

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
