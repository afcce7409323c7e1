"""Queue modes and steering: what a message does while its session is busy, and how it joins the turn that runs.

It joins at the start of a turn or between two steps.
"""

from collections.abc import Awaitable, Callable, Mapping
from itertools import takewhile
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from finclaw.kernel.envelope import Inbound, QueueMode, TurnOptions
from finclaw.kernel.event import Emit, QueueChanged
from finclaw.kernel.message import Message
from finclaw.kernel.record import Accepted, JoinedOutcome
from finclaw.kernel.scope import Ids
from finclaw.sessions.carried_over import key_of_sender
from finclaw.sessions.lane import ChosenMode, JoinOffer, Lanes, ModeOrigin, WaitingMode

MANY: Final = 3  # so many that wait are a line


class SessionMoment(Struct, frozen=True, kw_only=True):
    """What goes on in a session at the moment when a message reaches it."""

    has_conversation: bool = False
    is_running: bool = False
    waiting: int = 0
    is_direct: bool = True


def choose_mode(said: Mapping[ModeOrigin, QueueMode | None], moment: SessionMoment) -> ChosenMode:
    """Choose the first mode that is set, in the order of `said`; where that is `auto`, by what goes on."""
    for origin, mode in said.items():
        if mode == "auto":
            break
        if mode is not None:
            return ChosenMode(mode, origin)
    return ChosenMode(choose_automatically(moment), "auto")


def choose_automatically(moment: SessionMoment) -> WaitingMode:
    """By rules, the first that applies. A line that has formed comes before what a quick message would do."""
    if not moment.has_conversation:
        return "steer"  # there is nothing to join: it simply begins
    if moment.waiting >= MANY:
        return "queue"
    if not moment.is_running:
        return "followup"
    return "steer" if moment.is_direct else "queue"


class Steering(Protocol):
    """Where a running turn gets the messages that join it."""

    def is_asked_for(self) -> bool:
        """Whether somebody waits who will join at the next boundary: what the model has planned may be void."""
        ...

    async def take(self, answers: int) -> None:
        """Let those who wait join. `answers` is how often the model has answered so far."""


Join = Callable[[Accepted, Message], Awaitable[bool]]
"""Makes a message and its words part of the turn. False: it ended before."""
SharesTurn = Callable[[Accepted, QueueMode, JoinOffer], bool]
"""Whether a message that does not steer shares the turn of another all the same, from its start on."""


class LaneSteering:
    """The steering of one turn from its lane. Only its own sender's words reach it, and nobody is overtaken.

    Every turn that waits for its model holds one (`kb_in_flight`), so it has slots and no closures.
    """

    __slots__ = ("_emit", "_host", "_ids", "_join", "_joined", "_lanes", "_mode", "_shares_turn")

    def __init__(
        self,
        host: Accepted,
        mode: QueueMode,
        lanes: Lanes,
        shares_turn: SharesTurn,
        join: Join,
        emit: Emit,
        ids: Ids,
    ) -> None:
        self._host = host
        self._mode: QueueMode = mode
        self._lanes = lanes
        self._shares_turn = shares_turn
        self._join: Join | None = join
        self._emit = emit
        self._ids = ids
        self._joined: list[tuple[JoinOffer, int]] = []

    def _fitting(self, *, at_start: bool = False) -> list[JoinOffer]:
        """Those right behind the turn; whoever does not fit lets nobody pass, unless a later one takes them along.

        What an interrupting message has passed is left where it is.
        """
        host = self._host
        if self._join is None:
            return []
        later = (offer for offer in self._offers() if offer.accepted.ticket > host.ticket)
        waiting = (offer for offer in later if not offer.is_joined)
        behind = list(takewhile(lambda offer: not offer.is_returned and may_join(host, offer), waiting))
        along = max((place for place, offer in enumerate(behind, 1) if offer.mode == "steer-backlog"), default=0)

        def joins(offer: JoinOffer) -> bool:
            return offer.mode == "steer" or (at_start and self._shares_turn(host, self._mode, offer))

        return [*behind[:along], *takewhile(joins, behind[along:])]

    def _offers(self) -> list[JoinOffer]:
        return list(self._lanes.find(self._host.session).offers_behind(self._host.ticket))

    def is_asked_for(self) -> bool:
        return bool(self._fitting())

    async def take(self, answers: int) -> None:
        for offer in self._fitting(at_start=answers == 0):
            still_waits = self._join is not None and any(other is offer for other in self._offers())
            if offer.is_settled or not still_waits:  # while another one joined: dropped, or edited
                return
            offer.is_taken = True
            is_joined = False
            try:
                is_joined = await self._take_one(offer)
            finally:  # also where the turn was stopped meanwhile: its end puts back whatever it does not name
                if is_joined:
                    self._joined.append((offer, answers))
                else:
                    offer.settle(None)
            if not is_joined:
                return

    async def _take_one(self, offer: JoinOffer) -> bool:
        if self._join is None:
            return False
        try:
            joined = await self._join(offer.accepted, offer.words)
            if joined:
                event = QueueChanged(change="joined", other=self._host.id, **self._ids)
                self._emit(replace(event, inbound_id=offer.accepted.id))
            return joined
        finally:
            self._lanes.find(self._host.session).wake()

    @property
    def joined_at_start(self) -> tuple[Accepted, ...]:
        """Those that are part of the question, for they joined before the model had said anything."""
        return tuple(offer.accepted for offer, before in self._joined if before == 0)

    def unseen(self, answers: int) -> list[Message]:
        """The words of those that joined and that the model has not answered to."""
        return [offer.words for offer, before in self._joined if before >= answers]

    def list_seen(self, answers: int) -> tuple[Accepted, ...]:
        return tuple(offer.accepted for offer, before in self._joined if before < answers)

    def close(self, ends: tuple[JoinedOutcome, ...]) -> None:
        """The turn has ended, with these of them; the others are back in their lane. Idempotent.

        It lets go of the turn, which knows this: neither would ever be freed.
        """
        by_id = {joined.inbound_id: joined.outcome for joined in ends}
        for offer, _ in self._joined:
            offer.settle(by_id.get(offer.accepted.id))
        self._join = None


def is_same_person_and_place(one: Inbound, other: Inbound) -> bool:
    """Whether two messages are one person's in one place: nothing is ever merged across these."""
    return key_of_sender(one) == key_of_sender(other)


def may_join(host: Accepted, offer: JoinOffer) -> bool:
    """Return whether a message may join a turn: same person and place, no crash, and no options of its own."""
    one = host.inbound
    later = offer.accepted
    other = later.inbound
    if one.unasked or other.unasked or one.kind != "message" or other.kind != "message":
        return False
    if offer.is_answer or _wants_own_turn(offer.wishes) or _wants_own_turn(other.wishes):
        return False
    return is_same_person_and_place(one, other) and not (host.left or later.left)


def _wants_own_turn(wishes: TurnOptions | None) -> bool:
    return wishes is not None and wishes != TurnOptions(queue=wishes.queue)
