"""The wait for a turn: pauses of the sender, what a message does while its session is busy, and full queues.

Quick messages of one person are taken for one, once that person has paused (debouncing).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.cancellation import until_done
from finclaw.gateway import QueuedMessage
from finclaw.kernel.context import QueueAdmission
from finclaw.kernel.envelope import Inbound, QueueMode, TurnOptions
from finclaw.kernel.event import Emit, QueueChanged
from finclaw.kernel.message import Message
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import Ids, Outcome
from finclaw.redaction import hide_known_secrets
from finclaw.sessions.carried_over import CarriedOver, SenderKey, key_of_sender
from finclaw.sessions.lane import ANSWERS, ChosenMode, JoinOffer, Lane, Lanes, ModeOrigin
from finclaw.sessions.pool import SeatWait
from finclaw.sessions.settings import QueueSettings
from finclaw.sessions.steering import Join, LaneSteering, SessionMoment, choose_mode, is_same_person_and_place

INTERRUPTED: Final = "interrupted by message "
PASSED_OVER: Final = "passed over for message "
"""How the reason begins of a turn that a newer message of its sender has stopped; the second had not begun to work, so
nobody need be told."""
StopRun = Callable[[str, str], bool]
"""Stops the run of a message, with a reason. False: it is not there, or its answer exists."""
LONGEST_LINE: Final = 160
LONGEST_WAIT: Final = timedelta(seconds=5)
"""After its first message a burst is over, however fast somebody types."""
LARGEST_BURST: Final = 20
MOST_BURSTS: Final = 2_048  # bursts at a time; beyond that, messages do not wait
ARRIVAL_S: Final = 5.0
"""Seconds that the first of a burst waits for the others to come to their lane."""
BurstKey = tuple[str, str, str | None]


class WaitingMessage(Struct, frozen=True, kw_only=True):
    accepted: Accepted
    inbound: Inbound
    options: TurnOptions
    has_conversation: bool
    make_words: Callable[[], Message]
    """Its words for the conversation; made only if it has to wait."""
    emit: Emit
    ids: Ids


class WaitResult(Struct, frozen=True, kw_only=True):
    """The end of a wait: its own turn may begin, or another's has answered it, or it was left out."""

    admission: QueueAdmission = QueueAdmission()
    answers: str = ""  # the id of the message whose turn has asked what this one answers
    joined: Outcome | None = None
    """Its outcome, which is on disk, if another's turn has answered it."""
    left_out: JoinOffer | None = None


class LaneWaiting:
    def __init__(
        self,
        lanes: Lanes,
        clock: Clock,
        settings: QueueSettings | None = None,
        channel_modes: Mapping[str, QueueMode | None] | None = None,
        stop: StopRun | None = None,
        debounce: "Debounce | None" = None,
        carried_over: CarriedOver | None = None,
    ) -> None:
        self.carried_over = carried_over or CarriedOver()
        self._lanes = lanes
        self._clock = clock
        self._settings = settings or QueueSettings()
        self._channel_modes = channel_modes or {}
        self._stop = stop
        self._debounce = debounce or Debounce(clock, lambda _: 0)
        self._told: dict[str, set[SenderKey]] = {}
        """The senders who know that a message of theirs was left out, by session, until nobody waits there any more."""

    async def wait(self, message: WaitingMessage) -> WaitResult:
        """Return when the message's own turn may begin, or need not."""
        accepted = message.accepted
        self._debounce.arrive(accepted)
        lane = self._lanes.find(accepted.session)
        position = lane.position(accepted.ticket)
        answers = self.carried_over.take_answer(accepted)
        chosen = ANSWERS
        if not answers:
            chosen = self._choose(message, lane, position)
        interrupted = ""
        may_join_others = accepted.claim is None and not accepted.left and not accepted.inbound.unasked
        if position and may_join_others:
            offer = JoinOffer(accepted, message.make_words(), chosen, message.inbound.wishes)
            end = await self._wait_with_offer(message, lane, offer, position)
            if end is not None:
                return end
            interrupted = offer.interrupted
        if position:
            await self.wait_for_turn(accepted)
        await self._debounce.gather(accepted)
        admission = QueueAdmission(
            mode=chosen.mode,
            origin=chosen.origin,
            position=position,
            interrupted=interrupted,
            dispatched_at=self._clock.now(),
        )
        return WaitResult(admission=admission, answers=answers)

    async def _wait_with_offer(
        self, message: WaitingMessage, lane: Lane, offer: JoinOffer, position: int
    ) -> WaitResult | None:
        """Wait in a busy lane, as the mode says. None: the message has to have a turn of its own."""
        if not self._enter_line(lane, offer):
            return self._leave_out(message, offer)
        event = QueueChanged(change="waiting", position=position, waits_for="turn", **message.ids)
        message.emit(replace(event, mode=offer.mode, origin=offer.chosen.origin))
        self._pass_own(lane, offer)
        if offer.mode == "interrupt":
            offer.interrupted = self._interrupt(lane, offer)
        outcome = await _wait_or_join(lane, offer)
        if offer.drop_reason:
            return self._leave_out(message, offer)
        return WaitResult(joined=outcome) if outcome else None

    async def wait_for_turn(self, accepted: Accepted) -> None:
        await self._lanes.turn_of(accepted.session, accepted.ticket)

    def may_pause(self, inbound: Inbound) -> bool:
        """Whether a message waits for more of its sender before it is taken up."""
        return self._debounce.is_wanted(inbound)

    def _choose(self, message: WaitingMessage, lane: Lane, position: int) -> ChosenMode:
        inbound = message.inbound
        requested: dict[ModeOrigin, QueueMode | None] = {
            "message": inbound.wishes and inbound.wishes.queue,
            "session": message.options.queue,
            "channel": self._channel_modes.get(inbound.channel),
            "settings": self._settings.mode,
        }
        moment = SessionMoment(
            has_conversation=position > 0 or message.has_conversation,
            is_running=position > 0,
            waiting=len(lane.waiting()) if position else 0,
            is_direct=inbound.chat_type == "direct",
        )
        return choose_mode(requested, moment)

    def _enter_line(self, lane: Lane, offer: JoinOffer) -> bool:
        """Return False if the lane is full and this message is left out. An answer to a question never is."""
        if offer.is_answer:
            return True
        session = offer.accepted.session
        waiting = [other for other in lane.waiting() if not other.is_answer]
        if not waiting:
            self._told.pop(session, None)
        if len(waiting) < self._settings.cap:
            return True
        dropped = self._choose_dropped(waiting, offer)
        told = self._told.setdefault(session, set())
        sender = key_of_sender(dropped.accepted.inbound)
        dropped.is_told = sender in told
        told.add(sender)
        dropped.drop_reason = f"left out: {len(waiting)} waited already, by sessions.queue.cap"
        if self._settings.drop == "summarise":
            dropped.kept_line = shorten(dropped.words.text)
        lane.wake()
        return dropped is not offer

    def _choose_dropped(self, waiting: Sequence[JoinOffer], newcomer: JoinOffer) -> JoinOffer:
        """Return the message to leave out: one of the sender who has most in the lane, and rather the newcomer's."""
        everybody = (*waiting, newcomer)
        numbers = Counter(key_of_sender(offer.accepted.inbound) for offer in everybody)
        most = max(numbers.values())
        sender = key_of_sender(newcomer.accepted.inbound)
        if numbers[sender] < most:
            sender = next(other for other, number in numbers.items() if number == most)
        theirs = [offer for offer in everybody if key_of_sender(offer.accepted.inbound) == sender]
        return theirs[-1] if self._settings.drop == "new" else theirs[0]

    @staticmethod
    def _leave_out(message: WaitingMessage, offer: JoinOffer) -> WaitResult:
        event = QueueChanged(change="dropped", **message.ids)
        message.emit(replace(event, mode=offer.mode, origin=offer.chosen.origin))
        return WaitResult(left_out=offer)

    @staticmethod
    def _pass_own(lane: Lane, offer: JoinOffer) -> None:
        """Let one that interrupts, or answers a question, pass what else of its sender waits, but nobody else."""
        later = offer.accepted

        def may_pass(other: JoinOffer) -> bool:
            comes_first = other.is_answer or other.mode == "interrupt"
            return not comes_first and is_same_person_and_place(other.accepted.inbound, later.inbound)

        if offer.is_answer or offer.mode == "interrupt":
            lane.let_past(later.ticket, may_pass)

    def _interrupt(self, lane: Lane, offer: JoinOffer) -> str:
        """Stop the turn that runs, if it is the sender's own. Gives the id of its message."""
        running = lane.first
        if running is None or running.inbound.unasked or self._stop is None:
            return ""
        if not is_same_person_and_place(running.inbound, offer.accepted.inbound):
            return ""
        stopped = self._stop(running.id, INTERRUPTED + offer.accepted.id)
        return running.id if stopped else ""

    def find_interrupter(self, accepted: Accepted) -> Accepted | None:
        """A newer message of the same sender that waits to interrupt the turn of this one, which has just begun."""
        lane = self._lanes.find(accepted.session)
        if len(lane) <= 1 or accepted.inbound.unasked:
            return None
        for offer in lane.waiting():
            own = is_same_person_and_place(offer.accepted.inbound, accepted.inbound)
            if own and offer.mode == "interrupt" and not self._debounce.are_one(accepted, offer.accepted):
                return offer.accepted
        return None

    def steer(self, host: Accepted, mode: QueueMode, join: Join, emit: Emit, ids: Ids) -> LaneSteering:
        """Of a turn that runs for the first time: one that was in a crash takes nobody along."""
        return LaneSteering(host, mode, self._lanes, self._shares_turn, join, emit, ids)

    def _shares_turn(self, host: Accepted, mode: QueueMode, offer: JoinOffer) -> bool:
        return mode == offer.mode == "collect" or self._debounce.are_one(host, offer.accepted)


async def _wait_or_join(lane: Lane, offer: JoinOffer) -> Outcome | None:
    """Return the outcome by the turn that has taken the message; None: its own turn may come, or it was dropped.

    A stop or a deletion that comes while a turn has the message holds only if that turn gives it back: else the message
    would be called stopped although an answer covers it.
    """
    try:
        await lane.turn_or_join(offer.accepted.ticket, offer)
        if not offer.is_taken:
            return None
        return await offer.ended
    except asyncio.CancelledError:
        lane.withdraw_offer(offer.accepted.ticket)
        if offer.is_taken and (outcome := await offer.ended) is not None:
            return outcome
        raise


def list_queue(lanes: Lanes, session: str, seat: tuple[SeatWait, int] | None = None) -> list[QueuedMessage]:
    """List what a session has open, in the order in which it is answered. `seat`: what its first waits for."""
    found = list[QueuedMessage]()
    for place, (accepted, offer) in enumerate(lanes.find(session).list_open()):
        message = QueuedMessage(
            inbound_id=accepted.id,
            sender=accepted.inbound.sender.id,
            accepted_at=accepted.accepted_at,
            state="running",
        )
        if offer is not None:
            message = replace(message, mode=offer.mode, origin=offer.chosen.origin)
        if offer is not None and offer.is_joined:
            message = replace(message, state="joined")
        elif place:
            message = replace(message, state="waiting", waits_for="turn", before=place)
        elif seat is not None:
            waits_for, before = seat
            message = replace(message, state="waiting", waits_for=waits_for, before=before)
        found.append(message)
    return found


def shorten(text: str) -> str:
    line = " ".join(hide_known_secrets(text).split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


class Burst:
    """Quick messages of one person in one place."""

    def __init__(self, first: Accepted) -> None:
        self.latest = first.accepted_at + LONGEST_WAIT
        self.due = first.accepted_at
        self.members: list[str] = []
        self.missing: set[str] = set()  # those that have neither come to their lane nor ended
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.complete: asyncio.Future[None] = loop.create_future()

    def add(self, accepted: Accepted, due: datetime) -> None:
        self.members.append(accepted.id)
        self.missing.add(accepted.id)
        self.due = max(self.due, min(due, self.latest))

    def arrive(self, inbound_id: str) -> None:
        self.missing.discard(inbound_id)
        if not self.missing and self.closed.done() and not self.complete.done():
            self.complete.set_result(None)


class Debounce:
    """The pauses that messages make before the pipeline takes them up. After a crash they count from acceptance."""

    def __init__(
        self, clock: Clock, pause_ms: Callable[[Inbound], int], may_answer: Callable[[Accepted], bool] | None = None
    ) -> None:
        """`pause_ms`: how long to wait for another message; 0 for whatever never waits. `may_answer`: whether it may be
        the answer to a question that its sender was asked, which never waits either.
        """
        self._may_answer = may_answer
        self._clock = clock
        self._pause_ms = pause_ms
        self._open: dict[BurstKey, Burst] = {}
        self._bursts: dict[str, Burst] = {}
        """By the ids of their messages, until these have ended."""

    def is_wanted(self, inbound: Inbound) -> bool:
        return self._pause_ms(inbound) > 0

    async def wait(self, accepted: Accepted) -> None:
        """Return when the burst of the message is over. What does not wait ends the burst before it, except an edit."""
        inbound = accepted.inbound
        if inbound.kind == "edit":
            return
        pause = self._pause_ms(inbound)
        key = (accepted.session, inbound.sender.id, inbound.thread)
        if pause and self._may_answer is not None and self._may_answer(accepted):
            pause = 0
        if not pause or len(self._open) >= MOST_BURSTS:
            self._end(key)
            return
        burst = self._open.get(key)
        if burst is None or len(burst.members) >= LARGEST_BURST:
            self._end(key)
            burst = self._open[key] = Burst(accepted)
        self._bursts[accepted.id] = burst
        burst.add(accepted, accepted.accepted_at + timedelta(milliseconds=pause))
        while not burst.closed.done():
            left = (burst.due - self._clock.now()).total_seconds()
            if left <= 0:
                self._end(key)
                return
            await until_done(burst.closed, left)

    def _end(self, key: BurstKey) -> None:
        burst = self._open.pop(key, None)
        if burst is not None and not burst.closed.done():
            burst.closed.set_result(None)

    def arrive(self, accepted: Accepted) -> None:
        """The message has come to its lane, or has ended."""
        burst = self._bursts.get(accepted.id)
        if burst is not None:
            burst.arrive(accepted.id)

    async def gather(self, accepted: Accepted) -> None:
        """Wait until all of the message's burst have come to their lane, where they can join its turn."""
        burst = self._bursts.get(accepted.id)
        if burst is not None and burst.missing:
            await until_done(burst.complete, ARRIVAL_S)

    def are_one(self, one: Accepted, other: Accepted) -> bool:
        burst = self._bursts.get(one.id)
        return burst is not None and self._bursts.get(other.id) is burst

    def leave(self, accepted: Accepted) -> None:
        self.arrive(accepted)
        self._bursts.pop(accepted.id, None)


def make_pause(pauses: Mapping[str, int], is_command: Callable[[str], bool]) -> Callable[[Inbound], int]:
    """The pause of a message: by its channel. Commands, stop words, files and whatever is no text never wait."""

    def pause_ms(inbound: Inbound) -> int:
        pause = pauses.get(inbound.channel, 0)
        if not pause or inbound.kind != "message" or inbound.unasked:
            return 0
        if inbound.attachments or inbound.wishes is not None or is_command(inbound.text):
            return 0
        return pause

    return pause_ms
