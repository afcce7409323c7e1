"""Queue modes and steering: what a message does while its session is busy, and how it joins the turn that runs.

It joins at the start of a turn or between two steps.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import takewhile
from typing import Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from finclaw.cancellation import UncancellableFuture
from finclaw.kernel.envelope import Inbound, QueueMode, TurnOptions
from finclaw.kernel.event import Emit, QueueChanged
from finclaw.kernel.message import Message
from finclaw.kernel.record import Accepted, JoinedOutcome
from finclaw.kernel.scope import Ids, Outcome
from finclaw.sessions.carried_over import key_of_sender

WaitingMode = Literal["followup", "steer", "queue", "collect", "interrupt", "steer-backlog"]
"""The six modes: `QueueMode` without `auto`, which becomes one of them."""

ModeOrigin = Literal["message", "session", "channel", "settings", "auto", "reply"]
"""Who has said so. `reply`: the message answers a question that the assistant asked its sender."""

RECENT_S: Final = 30.0
"""A message within so many seconds of the last one goes on with what that was about."""

MANY: Final = 3
"""So many that wait are a line."""


class ChosenMode(Struct, frozen=True):
    """The mode in force for one message."""

    mode: WaitingMode = "followup"
    origin: ModeOrigin = "auto"


class SessionMoment(Struct, frozen=True, kw_only=True):
    """What goes on in a session at the moment when a message reaches it."""

    has_conversation: bool = False
    """Something was said before, or is being said."""
    is_running: bool = False
    """Another message is being answered."""
    idle_s: float | None = None
    """Seconds since anybody said anything; None: nobody knows."""
    waiting: int = 0
    is_direct: bool = True


ANSWERS: Final = ChosenMode("followup", "reply")
"""Of a message that answers what its sender was asked: whatever mode is set, it has a turn of its own."""


def choose_mode(said: Mapping[ModeOrigin, QueueMode | None], moment: SessionMoment) -> ChosenMode:
    """By the first that says something, in the order of `said`, and by what goes on where that says `auto`."""
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
    if not moment.is_running and moment.idle_s is not None and moment.idle_s <= RECENT_S:
        return "followup"
    if moment.is_running:
        return "steer" if moment.is_direct else "queue"
    return "followup"


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
        self.kept_line: str | None = None
        """What is kept of one that was left out, where something is."""
        self.interrupted = ""
        """The id of the message whose turn it has stopped."""
        self.is_told = False
        """Of one that was left out: its sender hears of it by another."""
        self.ended: UncancellableFuture[Outcome | None] = UncancellableFuture(loop=asyncio.get_running_loop())
        """Of one that was taken: its outcome, once that is on disk; None when it is back in its lane. The turn that has
        it decides: who waits for this, and is stopped, hears of the stop afterwards."""

    @property
    def mode(self) -> WaitingMode:
        return self.chosen.mode

    @property
    def is_answer(self) -> bool:
        """It answers what its sender was asked, and no mode applies to it: it has a turn of its own, soon."""
        return self.chosen.origin == "reply"

    @property
    def is_settled(self) -> bool:
        return self.is_taken or bool(self.drop_reason)

    @property
    def is_returned(self) -> bool:
        """It was taken, or was about to be, and is back in its lane: it waits for a turn of its own."""
        return self.is_taken and self.ended.done() and self.ended.result() is None

    @property
    def is_joined(self) -> bool:
        """A turn has it, or is taking it in."""
        return self.is_taken and not self.is_returned

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


class WaitingLine(Protocol):
    """The messages that wait behind a turn in its lane."""

    def offers_behind(self, host: Accepted) -> Iterator[JoinOffer]:
        """Those that would join it, in order."""
        ...

    def shares_turn(self, host: Accepted, mode: QueueMode, offer: JoinOffer) -> bool:
        """Whether a message that does not steer shares the turn all the same, from its start on."""
        ...

    def wake(self, session: str) -> None:
        """Let those that wait look again: one of them may be gone."""
        ...


Join = Callable[[Accepted, Message], Awaitable[bool]]
"""Makes a message and its words part of the turn. False: it ended before."""


class LaneSteering:
    """The steering of one turn from its lane. Only its own sender's words reach it, and nobody is overtaken.

    Every turn that waits for its model holds one (`kb_in_flight`), so it has slots and no closures.
    """

    __slots__ = ("_emit", "_host", "_ids", "_join", "_joined", "_line", "_mode")

    def __init__(self, host: Accepted, mode: QueueMode, line: WaitingLine, join: Join, emit: Emit, ids: Ids) -> None:
        self._host = host
        self._mode: QueueMode = mode
        self._line: WaitingLine | None = line
        self._join: Join | None = join
        self._emit = emit
        self._ids = ids
        self._joined: list[tuple[JoinOffer, int]] = []

    def _fitting(self, *, at_start: bool = False) -> list[JoinOffer]:
        """Those right behind the turn; whoever does not fit lets nobody pass, unless a later one takes them along.

        What an interrupting message has passed is left where it is.
        """
        line, host = self._line, self._host
        if line is None:
            return []
        later = (offer for offer in line.offers_behind(host) if offer.accepted.ticket > host.ticket)
        waiting = (offer for offer in later if not offer.is_joined)
        behind = list(takewhile(lambda offer: not offer.is_returned and may_join(host, offer), waiting))
        along = max((place for place, offer in enumerate(behind, 1) if offer.mode == "steer-backlog"), default=0)

        def joins(offer: JoinOffer) -> bool:
            return offer.mode == "steer" or (at_start and line.shares_turn(host, self._mode, offer))

        return [*behind[:along], *takewhile(joins, behind[along:])]

    def is_asked_for(self) -> bool:
        return bool(self._fitting())

    async def take(self, answers: int) -> None:
        for offer in self._fitting(at_start=answers == 0):
            if offer.is_settled or not self._still_waits(offer):  # while another one joined: dropped, or edited
                return
            offer.is_taken, is_joined = True, False
            try:
                is_joined = await self._take_one(offer)
            finally:  # also where the turn was stopped meanwhile: its end puts back whatever it does not name
                if is_joined:
                    self._joined.append((offer, answers))
                else:
                    offer.settle(None)
            if not is_joined:
                return

    def _still_waits(self, offer: JoinOffer) -> bool:
        return self._line is not None and any(each is offer for each in self._line.offers_behind(self._host))

    async def _take_one(self, offer: JoinOffer) -> bool:
        line, join = self._line, self._join
        if line is None or join is None:
            return False
        try:
            joined = await join(offer.accepted, offer.words)
            if joined:
                event = QueueChanged(change="joined", other=self._host.id, **self._ids)
                self._emit(replace(event, inbound_id=offer.accepted.id))
            return joined
        finally:
            line.wake(self._host.session)

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
        self._line = self._join = None


def is_same_person_and_place(one: Inbound, other: Inbound) -> bool:
    """Whether two messages are one person's in one place: nothing is ever merged across these."""
    return key_of_sender(one) == key_of_sender(other)


def may_join(host: Accepted, offer: JoinOffer) -> bool:
    """One person goes on with their own words, in the same place; and neither was there in a crash.

    A message with wishes of its own, such as for another model, has a turn of its own.
    """
    one, later = host.inbound, offer.accepted
    other = later.inbound
    plain = not (one.unasked or other.unasked) and one.kind == other.kind == "message"
    plain = plain and not (offer.is_answer or _wants_own_turn(offer.wishes) or _wants_own_turn(other.wishes))
    return plain and is_same_person_and_place(one, other) and not (host.left or later.left)


def _wants_own_turn(wishes: TurnOptions | None) -> bool:
    return wishes is not None and wishes != TurnOptions(queue=wishes.queue)
