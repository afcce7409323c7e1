"""Stage 6, dispatch: the turn of a message in its session.

Earlier tickets go first; then the session is opened and the turn is claimed, or taken up again. The claim is the lease
on a turn: its epoch is the fencing token that ends an older writer.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from finclaw.agent.budget.call_ledger import Payer
from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.notice import notice, renewal_line
from finclaw.diagnostics.crash_points import crash_point
from finclaw.diagnostics.log import bind_log_ids
from finclaw.errors import SessionError
from finclaw.ids import new_id
from finclaw.kernel.context import Context, ContextField, QueueAdmission, current_turn
from finclaw.kernel.envelope import NO_OPTIONS, OPTIONS, Inbound, Limits, PoolName, QueueMode, TurnOptions
from finclaw.kernel.event import QueueChanged
from finclaw.kernel.message import Append, Image, Message, Source, Text
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted, Claim, ClaimOnAccept, Reserve
from finclaw.kernel.scope import Outcome
from finclaw.kernel.store_port import Store, retry_until_committed
from finclaw.pipeline.context import ContextFieldProviders, show_attachments
from finclaw.pipeline.message_run import LEFT_OUT, MessageRun
from finclaw.pipeline.persons import PersonDirectory
from finclaw.pipeline.stage import Halt, skip
from finclaw.sessions.carried_over import LeftOut, SessionOpening, pack_line
from finclaw.sessions.pool import Pools
from finclaw.sessions.waiting import PASSED_OVER, LaneWaiting, WaitingMessage
from finclaw.taint.sources import SOURCES, describe_author, sources_of
from finclaw.tools.control_tokens import neutralize_control_tokens
from finclaw.transcript.conversation import Conversation

log = logging.getLogger(__name__)


class Dispatch:
    def __init__(
        self,
        store: Store,
        waiting: LaneWaiting,
        pools: Pools,
        opening: SessionOpening,
        clock: Clock,
        reserve: Callable[[Inbound, str], Reserve | None],
        fields: Sequence[ContextField] = (),
        persons: PersonDirectory | None = None,
    ) -> None:
        self._store = store
        self._waiting = waiting
        self._pools = pools
        self._opening = opening
        self._clock = clock
        self._reserve = reserve
        self._persons = persons or PersonDirectory()
        self._providers = ContextFieldProviders(fields, clock)

    def claim_on_accept(self, inbound: Inbound, session: str) -> ClaimOnAccept | None:
        """Return the claim that is committed with the acceptance; None for a message that might have to wait."""
        if not self._pools.has_room("main") or self._waiting.may_pause(inbound):
            return None
        if self._opening.may_be_idle(session):
            return None
        version, _ = self._opening.find_copy(session)
        return ClaimOnAccept(version, self._reserve_for(inbound))

    async def admit(self, run: MessageRun, context: Context) -> tuple[Context, TurnLog]:
        """Wait for the lane and a seat, claim the turn, and complete the context as it is now."""
        with run.deadline.pause():
            admission = await run.isolation.wait_outside(self._wait_in_lane(run))
            pool = await self._take_seat(run)
            is_renewed = await self._opening.renew_if_idle(run.accepted)
            log = await retry_until_committed(lambda: self.claim(run, reserve=True), self._clock, "the start of a turn")
            joined = await self._begin_steering(run, log, admission.mode)
        if is_renewed:
            log.told_action = renewal_line(run.inbound.reply_language)
        admission = replace(admission, joined=joined, running=self._pools.running(pool))
        run.journal.note(_describe_admission(admission))
        recorded = log.messages[0].metadata.get(OPTIONS)  # what was set since holds for the turns behind it
        context = replace(
            context,
            transcript=log.conversation.base_messages,
            session_started_at=log.claim.session_started_at,
            wishes=NO_OPTIONS if recorded is None else convert(recorded, TurnOptions),
            admission=admission,
        )
        return await self._providers.fill(context), log

    async def _wait_in_lane(self, run: MessageRun) -> QueueAdmission:
        """Return when its own turn may begin. Raises Halt when another's has answered it, or when it was left out."""
        accepted = run.accepted
        run.carry.copy = self._waiting.carried_over
        _, messages = self._opening.find_copy(accepted.session)
        message = WaitingMessage(
            accepted=accepted,
            inbound=run.inbound,
            options=self._opening.find_options(accepted.session),
            has_conversation=bool(messages),
            make_words=lambda: self._make_input(run),
            emit=run.emit,
            ids=run.ids,
        )
        try:
            end = await self._waiting.wait(message)
        except asyncio.CancelledError:
            run.recorded = await self._find_joined_outcome(accepted)
            raise
        left_out = end.left_out
        if left_out is not None:  # of a full queue; its sender's next turn is told what is kept
            if left_out.kept_line is not None:
                run.carry.kept_line = pack_line(left_out.kept_line, sources_of(left_out.words))
            reply = None if left_out.is_told else notice("left_out", run.inbound)
            raise Halt(left_out.drop_reason, outcome="dropped", reply=reply)
        joined = end.joined or await self._find_joined_outcome(accepted)
        if joined is not None:
            run.recorded = joined
            raise skip(joined.reason)
        if end.answers:
            run.carry.told = (end.answers,)
        return end.admission

    async def _take_seat(self, run: MessageRun) -> PoolName:
        """Wait for a seat in the pool of the turn; only where people wait does a person's share of the seats count."""
        limits = run.accepted.inbound.limits or Limits()
        person = self._persons.find(run.inbound).id if limits.pool == "main" else ""
        waits_for = self._pools.find_wait(limits.pool, person)
        if waits_for:
            before = self._pools.waiting(limits.pool)
            run.emit(QueueChanged(change="waiting", position=before, waits_for=waits_for, **run.ids))
        run.seat = await self._pools.enter(limits.pool, run.accepted.session, person)
        return limits.pool

    async def _find_joined_outcome(self, accepted: Accepted) -> Outcome | None:
        """Return the outcome of a message that had joined a turn which a crash has left, if that turn ends with it.

        As long as that turn has the message it decides, also where the message is stopped.
        """
        if accepted.joined_to is None:
            return None
        record = await self._store.find(accepted.id)
        if record is not None and record.state == "joined":
            await self._waiting.wait_for_turn(accepted)
            record = await self._store.find(accepted.id)
        return record.outcome if record else None

    async def _begin_steering(self, run: MessageRun, log: TurnLog, mode: QueueMode) -> tuple[str, ...]:
        """Let messages join the turn, and those at once that share it from its start on. Return their ids."""
        newer = self._waiting.find_interrupter(run.accepted)
        if newer is not None:
            raise Halt(PASSED_OVER + newer.id, outcome="stopped")
        self._add_left_out(run, log)
        if log.claim.resumed:
            return ()
        steering = self._waiting.steer(run.accepted, mode, log.join, run.emit, run.ids)
        log.steering = run.steering = steering
        if log.answers:
            return ()
        await steering.take(0)
        return tuple([message.id for message in steering.joined_at_start])

    def _add_left_out(self, run: MessageRun, log: TurnLog) -> None:
        """Add what is kept of the sender's dropped messages, unless a resumed turn has been told of them already."""
        left_out = self._waiting.carried_over.find_left_out(run.accepted)
        if left_out is None:
            return
        told = next((message.metadata[LEFT_OUT] for message in log.messages if LEFT_OUT in message.metadata), None)
        if told is None:
            if log.answers:
                return
            log.push(Append(left_out_note(left_out, log.messages[0], self._clock.now())))
        run.carry.told += tuple(left_out.ids[:told])

    async def claim(self, run: MessageRun, *, reserve: bool = False) -> TurnLog:
        """Claim the turn, which is then ours to end, as far as its log had come. `reserve`: a model call follows."""
        run.carry.copy = self._waiting.carried_over
        since = new_id()
        first = Append(self._make_input(run))
        claim = run.accepted.claim
        if claim is not None:  # it came with the acceptance
            self._begin(run, claim, await self._opening.read_base(claim), since)
        else:
            version, messages = self._opening.find_copy(run.accepted.session)

            def begin(claim: Claim) -> None:  # by the commit itself: who is stopped meanwhile has a turn to end, too
                base = messages if claim.base is None else claim.base
                self._begin(run, claim, base, since)

            reservation = self._reserve_for(run.inbound) if reserve else None
            claim = await self._store.claim(run.accepted, [first], version, begin, reservation)
        crash_point("claim:after_commit")
        if run.log is None:
            raise SessionError("the turn was claimed, but could not be begun; its log cannot be read")
        if not claim.events:
            run.log.push(first)
        bind_log_ids(turn=claim.turn_id)
        current_turn.set(claim.turn_id)
        return run.log

    def _reserve_for(self, inbound: Inbound) -> Reserve | None:
        return self._reserve(inbound, self._persons.find(inbound).id)

    def _begin(self, run: MessageRun, claim: Claim, base: Sequence[Message], since: str) -> None:
        emit = run.emit  # not the run: it will know the conversation, and neither would ever go
        ids = run.ids
        ids["turn_id"] = claim.turn_id
        conversation = Conversation(base, claim.events, lambda event: emit(replace(event, **ids)), since)
        run.log = TurnLog(self._store, claim, conversation, Payer(ids["agent"], self._persons.find(run.inbound).id))

    def _make_input(self, run: MessageRun) -> Message:
        """Return the message for the conversation, with its own options, else those of its session."""
        inbound = run.inbound
        options = (inbound.limits and inbound.limits.wishes) or inbound.wishes or NO_OPTIONS
        options = options.fill_from(self._opening.find_options(run.accepted.session))
        return input_message(inbound, run.accepted.inbound, options, self._clock.now())


def input_message(inbound: Inbound, accepted: Inbound, options: TurnOptions, now: datetime) -> Message:
    blocks: tuple[Text | Image, ...] = (Text(neutralize_control_tokens(inbound.text)),)
    if inbound.attachments:
        blocks += show_attachments(inbound.attachments)
    source = Source("user", inbound.sender.id, inbound.sender.name)
    if accepted.is_internal:  # a task that a turn gave, or the line that begins an approved action, is nobody's wish
        source = Source("system", inbound.message_id, "gateway")
    metadata: dict[str, Any] = describe_author(inbound, accepted)
    if options != NO_OPTIONS:  # for the trace and for a turn that is resumed
        metadata = {OPTIONS: to_builtins(options), **metadata}
    return Message(new_id(), "user", blocks, source, now, metadata)


def left_out_note(kept: LeftOut, turn_input: Message, now: datetime) -> Message:
    """Return a note that summarizes the sender's dropped messages, attributed to the sender."""
    text = Text(neutralize_control_tokens(kept.tell()))
    metadata = {**turn_input.metadata, SOURCES: list(kept.sources), LEFT_OUT: len(kept.ids)}
    return Message(new_id(), "user", (text,), turn_input.source, now, metadata)


def _describe_admission(admission: QueueAdmission) -> str:
    parts: list[str] = []
    if admission.position:
        parts.append(f"{admission.mode} by {admission.origin}, {admission.position} before it")
    if admission.interrupted:
        parts.append(f"stopped the turn of {admission.interrupted}")
    if admission.running > 1:
        parts.append(f"{admission.running} turns running")
    return ", ".join(parts)
