"""The wait for a turn: what a message does while its session is busy, as its queue mode says, and full queues."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

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
from finclaw.sessions.debounce import Debounce
from finclaw.sessions.lane import Lane, Lanes
from finclaw.sessions.pool import SeatWait
from finclaw.sessions.settings import DropPolicy, QueueSettings
from finclaw.sessions.steering import (
    ANSWERS,
    ChosenMode,
    Join,
    JoinOffer,
    LaneSteering,
    ModeOrigin,
    SessionMoment,
    choose_mode,
    is_same_person_and_place,
)

INTERRUPTED: Final = "interrupted by message "

PASSED_OVER: Final = "passed over for message "
"""How the reason begins of a turn that a newer message of its sender has stopped; the second had not begun to work, so
nobody need be told."""

StopRun = Callable[[str, str], bool]
"""Stops the run of a message, with a reason. False: it is not there, or its answer exists."""

LONGEST_LINE: Final = 160


class KnownSession(Struct, frozen=True):
    """What is known of a session before its turn: the options that were set for it, and what was said."""

    options: TurnOptions
    messages: Sequence[Message]


class WaitingMessage(Struct, frozen=True, kw_only=True):
    """A message that has come to its lane."""

    accepted: Accepted
    inbound: Inbound
    """As the pipeline knows it."""
    known: KnownSession
    make_words: Callable[[], Message]
    """Its words for the conversation; made only if it has to wait."""
    emit: Emit
    ids: Ids


class WaitResult(Struct, frozen=True, kw_only=True):
    """The end of a wait: its own turn may begin, or another's has answered it, or it was left out."""

    admission: QueueAdmission = QueueAdmission()
    answers: str = ""
    """The id of the message whose turn has asked what this one answers."""
    joined: Outcome | None = None
    """Its outcome, which is on disk, if another's turn has answered it."""
    left_out: JoinOffer | None = None


class LaneWaiting:
    """The wait of messages in their lanes."""

    def __init__(
        self,
        lanes: Lanes,
        clock: Clock,
        settings: QueueSettings | None = None,
        channel_modes: Mapping[str, QueueMode | None] | None = None,
        stop: StopRun | None = None,
        debounce: Debounce | None = None,
        carried_over: CarriedOver | None = None,
    ) -> None:
        settings = settings or QueueSettings()
        self.carried_over = carried_over or CarriedOver()
        self._lanes = lanes
        self._clock = clock
        self._mode: QueueMode = settings.mode
        self._channel_modes = channel_modes or {}
        self._stop = stop
        self._debounce = debounce or Debounce(clock, lambda _: 0)
        self._overflow = Overflow(settings.cap, settings.drop)

    async def wait(self, message: WaitingMessage) -> WaitResult:
        """Return when the message's own turn may begin, or need not."""
        accepted = message.accepted
        self._debounce.arrive(accepted)
        lane = self._lanes.find(accepted.session)
        position = self._lanes.position(accepted.session, accepted.ticket)
        answers = self.carried_over.take_answer(accepted)
        chosen = ANSWERS if answers else self._choose(message, lane, position)
        interrupted = ""
        if lane is not None and position:
            if _may_join_others(accepted):
                offer = JoinOffer(accepted, message.make_words(), chosen, message.inbound.wishes)
                end = await self._wait_with_offer(message, lane, offer, position)
                if end is not None:
                    return end
                interrupted = offer.interrupted
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
        if outcome is not None:
            return WaitResult(joined=outcome)
        return None

    async def wait_for_turn(self, accepted: Accepted) -> None:
        """Wait until those before it have left its lane, and for nothing else."""
        await self._lanes.turn_of(accepted.session, accepted.ticket)

    def may_pause(self, inbound: Inbound) -> bool:
        """Whether a message waits for more of its sender before it is taken up."""
        return self._debounce.is_wanted(inbound)

    def _choose(self, message: WaitingMessage, lane: Lane | None, position: int) -> ChosenMode:
        inbound = message.inbound
        messages = message.known.messages
        waiting = 0
        if lane is not None and position:
            waiting = len(lane.waiting())
        requested: dict[ModeOrigin, QueueMode | None] = {
            "message": inbound.wishes and inbound.wishes.queue,
            "session": message.known.options.queue,
            "channel": self._channel_modes.get(inbound.channel),
            "settings": self._mode,
        }
        moment = SessionMoment(
            has_conversation=bool(position or messages),
            is_running=position > 0,
            idle_s=_seconds_since(messages, self._clock.now()),
            waiting=waiting,
            is_direct=inbound.chat_type == "direct",
        )
        return choose_mode(requested, moment)

    # ── a line that is full ─────────────────────────────────────────────────────────────────────────────────

    def _enter_line(self, lane: Lane, offer: JoinOffer) -> bool:
        """False: the line is full, and this one is left out. An answer to a question never is."""
        if offer.is_answer:
            return True
        waiting = [other for other in lane.waiting() if not other.is_answer]
        dropped = self._overflow.make_room(offer.accepted.session, waiting, offer)
        if dropped is not None:
            lane.wake()
        return dropped is not offer

    @staticmethod
    def _leave_out(message: WaitingMessage, offer: JoinOffer) -> WaitResult:
        event = QueueChanged(change="dropped", **message.ids)
        message.emit(replace(event, mode=offer.mode, origin=offer.chosen.origin))
        return WaitResult(left_out=offer)

    # ── coming first ────────────────────────────────────────────────────────────────────────────────────────

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
        if not self._stop(running.id, INTERRUPTED + offer.accepted.id):
            return ""
        return running.id

    def find_interrupter(self, accepted: Accepted) -> Accepted | None:
        """A newer message of the same sender that waits to interrupt the turn of this one, which has just begun."""
        lane = self._lanes.find(accepted.session)
        if lane is None or len(lane) == 1 or accepted.inbound.unasked:
            return None
        for offer in lane.waiting():
            own = is_same_person_and_place(offer.accepted.inbound, accepted.inbound)
            if own and offer.mode == "interrupt" and not self._debounce.are_one(accepted, offer.accepted):
                return offer.accepted
        return None

    # ── joining ─────────────────────────────────────────────────────────────────────────────────────────────

    def steer(self, host: Accepted, mode: QueueMode, join: Join, emit: Emit, ids: Ids) -> LaneSteering:
        """Of a turn that runs for the first time: one that was in a crash takes nobody along."""
        return LaneSteering(host, mode, self, join, emit, ids)

    def offers_behind(self, host: Accepted) -> Iterator[JoinOffer]:
        return self._lanes.offers_behind(host.session, host.ticket)

    def shares_turn(self, host: Accepted, mode: QueueMode, offer: JoinOffer) -> bool:
        return mode == offer.mode == "collect" or self._debounce.are_one(host, offer.accepted)

    def wake(self, session: str) -> None:
        self._lanes.wake(session)


def _may_join_others(accepted: Accepted) -> bool:
    """Whether the turn of another may take it along: recovered messages and turns that nobody asked for do not join."""
    return accepted.claim is None and not accepted.left and not accepted.inbound.unasked


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


def _seconds_since(messages: Sequence[Message], now: datetime) -> float | None:
    if not messages:
        return None
    return (now - messages[-1].created_at).total_seconds()


def list_queue(lanes: Lanes, session: str, seat: tuple[SeatWait, int] | None = None) -> list[QueuedMessage]:
    """List what a session has open, in the order in which it is answered. `seat`: what its first waits for."""
    found = list[QueuedMessage]()
    for place, (accepted, offer) in enumerate(lanes.list_open(session)):
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


class Overflow:
    """The rule for full lines. It says what is kept of a message that is left out; who ends the message keeps it."""

    def __init__(self, cap: int, policy: DropPolicy) -> None:
        self._cap = cap
        self._policy = policy
        self._told: dict[str, set[SenderKey]] = {}
        """Who has heard of it, by session, until nobody waits there any more."""

    def make_room(self, session: str, waiting: Sequence[JoinOffer], newcomer: JoinOffer) -> JoinOffer | None:
        """Leave one out where the line is full: of whoever has most in it. Each hears of it once, while it lasts."""
        if not waiting:
            self._told.pop(session, None)
        if len(waiting) < self._cap:
            return None
        everybody = (*waiting, newcomer)
        numbers = Counter(key_of_sender(each.accepted.inbound) for each in everybody)
        most = max(numbers.values())
        own = key_of_sender(newcomer.accepted.inbound)
        whose = own if numbers[own] == most else next(who for who, number in numbers.items() if number == most)
        theirs = [each for each in everybody if key_of_sender(each.accepted.inbound) == whose]
        out = theirs[-1] if self._policy == "new" else theirs[0]
        told = self._told.setdefault(session, set())
        out.is_told = whose in told
        told.add(whose)
        out.drop_reason = f"left out: {len(waiting)} waited already, by sessions.queue.cap"
        if self._policy == "summarise":
            out.kept_line = shorten(out.words.text)
        return out


def shorten(text: str) -> str:
    line = " ".join(hide_known_secrets(text).split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
