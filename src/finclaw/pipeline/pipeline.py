"""The pipeline, on one screen: eight calls from a message to its outcome. Nothing can be put between two of them."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.agent.agent import Agent
from finclaw.approvals.messages import CARDS
from finclaw.cancellation import asked_to_stop
from finclaw.delivery.notice import notice
from finclaw.diagnostics.crash_points import crash_point
from finclaw.diagnostics.log import log_ids
from finclaw.errors import (
    NotOwner,
)
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.event import Emit, MessageEnded
from finclaw.kernel.middleware import Layer, compose
from finclaw.kernel.person import set_reader
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted, ClaimOnAccept, TurnCalls
from finclaw.kernel.scope import Ids, MessageContext, Outcome, StageEntry
from finclaw.kernel.store_port import ConversationStore
from finclaw.pipeline.ack import Ack
from finclaw.pipeline.command import Admitted, Commands
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.deliver import Deliver
from finclaw.pipeline.dispatch import Dispatch
from finclaw.pipeline.failures import end_by_error, end_by_leaked_cancellation, end_with_notice, last_notice
from finclaw.pipeline.gate import Gate, MarketHours, normalize
from finclaw.pipeline.journal import Halt, Journal
from finclaw.pipeline.message_run import Deadline, MessageRun, MessageRuns
from finclaw.pipeline.persons import ReplyLanguages
from finclaw.pipeline.recovery import UNRESTRICTED, CrashIsolation, Entry, Fate, RecoveryThrottle
from finclaw.pipeline.settings import PipelineSettings
from finclaw.pipeline.stops import Revisions
from finclaw.redaction.redact import describe_error
from finclaw.sessions.debounce import Debounce
from finclaw.sessions.lane import Lanes, WaitingLimit

log = logging.getLogger(__name__)

LAYERS_GRACE: Final = 30.0
"""Seconds that message layers get beyond the pipeline's own time; one that never returns must not hold the lane."""


class Stages(Struct, frozen=True, kw_only=True):
    """The stages that have something to remember."""

    gate: Gate
    commands: Commands
    ack: Ack
    contexts: Contexts
    dispatch: Dispatch
    agent: Agent
    deliver: Deliver
    languages: ReplyLanguages
    revisions: Revisions
    hours: MarketHours | None = None


class Traffic(Struct, frozen=True, kw_only=True):
    """The messages in the pipeline: their runs, and what they wait for before and between the stages."""

    runs: MessageRuns
    lanes: Lanes
    limit: WaitingLimit
    isolation: CrashIsolation
    debounce: Debounce


class Pipeline:
    """The pipeline of a gateway."""

    def __init__(
        self,
        settings: PipelineSettings,
        stages: Stages,
        layers: Sequence[Layer[MessageContext, Outcome]],
        store: ConversationStore,
        traffic: Traffic,
        channels: Mapping[str, Channel],
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._settings = settings
        self._stages = stages
        self._store = store
        self._lanes = traffic.lanes
        self._runs = traffic.runs
        self._limit = traffic.limit
        self.isolation = traffic.isolation
        self._debounce = traffic.debounce
        self._channels = channels
        self._clock = clock
        self._emit = emit
        self._recovery_throttle = RecoveryThrottle(store, clock)
        self._accepted: dict[int, Accepted] = {}
        """By the run's object id: what layers can reach of a run, they can change."""
        self._ring = compose("message", layers, self._run_to_outcome, Outcome) if layers else None

    def check(self, inbound: Inbound, session: str) -> None:
        """Refuse what cannot be answered, before it is accepted. Raises SessionFull, NotOwner or ModelUnknown."""
        self._limit.check(session, lambda: self.is_stop(inbound))
        if inbound.wishes is None or inbound.wishes.model is None:
            return
        if "owner" not in self._stages.gate.identify_sender(inbound).roles:
            raise NotOwner("only the owner may choose the model of a message, because models differ in price")
        self._stages.agent.check_model(inbound.wishes.model)

    def is_stop(self, inbound: Inbound) -> bool:
        """Whether it asks to stop what runs, by a command or a word."""
        return inbound.kind in ("message", "action") and self._stages.commands.is_stop(inbound)

    def claim_on_accept(self, inbound: Inbound, session: str) -> ClaimOnAccept | None:
        """For a message that will come to its turn at once if its session is idle: its claim needs no commit then.

        None for one that may wait on the way, or end before its turn: what a crash finds running is a suspect.
        """
        may_end = inbound.kind != "message" or inbound.from_extension is not None
        may_end = may_end or self._is_too_long(inbound) or self._stages.gate.find_objection(inbound) is not None
        may_end = may_end or (
            self._stages.hours is not None and self._stages.hours.find_next_opening(inbound) is not None
        )
        may_wait = bool(inbound.limits or inbound.attachments) or not self.isolation.is_open
        if may_wait or may_end or self._stages.commands.may_know(inbound.text):
            return None
        return self._stages.dispatch.claim_on_accept(inbound, session)

    async def run(self, accepted: Accepted) -> Outcome:
        """Bring a message to its outcome, once its sender has paused and the crash isolation lets it in."""
        try:
            await self._debounce.wait(accepted)
            async with self._crash_isolation(accepted) as isolation:
                return await self.handle(accepted, isolation)
        finally:
            self._debounce.leave(accepted)

    def _crash_isolation(self, accepted: Accepted) -> Entry:
        """The hold on the crash isolation that `handle` needs.

        Whatever ran when the process died is a suspect, and may be innocent. So those on their last try run one after
        the other, and one that died with others even then is tried alone.
        """
        tries, most = accepted.attempts, self._settings.max_attempts
        if accepted.inbound.limits is not None and accepted.inbound.limits.pool == "subagent":
            return UNRESTRICTED  # it belongs to the turn that waits for it
        if not self.isolation.is_open and self.is_stop(accepted.inbound):
            return UNRESTRICTED  # it stops what the others wait for
        if tries >= most:
            log.warning("message %s was in the pipeline in %d crashes: now it runs alone", accepted.id, tries)
            return self.isolation.exclusive()
        on_last_try = tries > 0 and tries + 1 >= most
        return self.isolation.one_at_a_time() if on_last_try else self.isolation.shared()

    async def handle(self, accepted: Accepted, isolation: Entry) -> Outcome:
        """See one accepted message through to its one recorded outcome. Only cancellation (a stop) gets out."""
        run = self._new_run(accepted, isolation=isolation)
        self._accepted[id(run)] = accepted
        self._runs.enter(run)
        try:
            if accepted.left and not run.inbound.from_extension:
                await self._recovery_throttle.mark_attempt(accepted.id)
            crash_point("pipeline:started")
            run.inbound = await self._stages.languages.decide(run.inbound)
            outcome = await (self._say_for_extension(run) if run.inbound.from_extension else self._through_ring(run))
            if run.recorded is None:
                outcome = await self._stages.deliver.close(run, run.complete_outcome(outcome))
        except asyncio.CancelledError:
            await self._return_to_inbox(run)
            raise
        finally:
            self._recovery_throttle.leave(accepted.id)
            self._limit.leave(accepted.id)
            run.leave()
            self._runs.leave(run)
            del self._accepted[id(run)]
        outcome = run.recorded or outcome
        kind, formatted = outcome.kind, outcome.is_markdown
        told = MessageEnded(outcome=kind, reason=outcome.reason, reply=outcome.reply, is_markdown=formatted, **run.ids)
        self._emit(told)
        return outcome

    async def _say_for_extension(self, run: MessageRun) -> Outcome:
        """An extension's own words: they wait for their turn, and run no stages but delivery, with its checks."""
        if run.inbound.from_extension != CARDS:  # what somebody has to decide does not wait for their own talk
            async with run.isolation.released():
                await self._lanes.turn_of(run.accepted.session, run.accepted.ticket)
        if run.accepted.left:
            await self._recovery_throttle.mark_attempt(run.accepted.id)
        saying = run.inbound.saying or Outbound(text="", kind="notice")
        run.reply = replace(saying, text=run.inbound.text, thread=run.inbound.thread)
        return run.end_with("command", f"said by {run.inbound.from_extension}")

    async def give_up(self, accepted: Accepted, which: Fate, reason: str, *, fold: bool) -> Outcome:
        """End a message that is not tried (again): its sender is told. `fold`: what its turn has done is kept.

        No delivery layer sees the notice: one that dies of it would kill every start from now on.
        """
        run = self._new_run(accepted)
        with log_ids(message=accepted.id, session=accepted.session):
            run.inbound = await self._stages.languages.decide(run.inbound)
            spent = (await self._stages.dispatch.claim(run)).build_result("failed", "") if fold else None
            if accepted.inbound.from_extension is None:
                run.reply = last_notice(run, which)
            outcome = run.end_with(which if which in ("expired", "stopped") else "failed", reason, result=spent)
            outcome = await self._stages.deliver.close(run, outcome, skip_layers=True)
        self._emit(MessageEnded(outcome=outcome.kind, reason=reason, reply=outcome.reply, **run.ids))
        return outcome

    async def run_stage(self, name: str, accepted: Accepted) -> StageEntry:
        """What one stage makes of a message, to look at it alone.

        The stages before it run too, for its input is what they give; the one that ended the pipeline, if any did, is
        the one you get. Nothing behind it runs, no message layer sees it, nobody is told, and the message ends.
        """
        run = self._new_run(accepted, last=name)
        self._accepted[id(run)] = accepted
        try:
            outcome = await self._run_to_outcome(run)
            if run.recorded is None:
                run.reply = None
                await self._stages.deliver.close(run, outcome)
        finally:
            run.leave()
            del self._accepted[id(run)]
        return run.journal.entries[-1]

    async def run_stages(self, run: MessageRun) -> Outcome:
        stage, stages, accepted = run.journal.stage, self._stages, self._accepted[id(run)]
        set_reader(stages.contexts.find_person(accepted.inbound))
        with stage("normalize"):
            if self._is_too_long(run.inbound):
                raise self._too_long(run.inbound)
            if run.inbound.kind in ("edit", "delete"):
                await stages.revisions.apply(run)
            message = normalize(run.inbound)
        with stage("gate"):
            sender = stages.gate.admit(message)
        with stage("command"):
            message = await stages.commands.answer(
                message, sender, accepted, lambda: self._admit(accepted), partial(self._wait_in_lane, run)
            )
            if message.inbound is not run.inbound:
                message = replace(message, inbound=await stages.languages.decide(message.inbound))
            run.drop_directives(message.inbound)
            if stages.hours is not None:
                stages.hours.admit(run.inbound)
            await self._refuse_above_limit(run)
        async with stages.ack(run, self._channels.get(run.inbound.channel), stage("ack")):
            with stage("context"), run.stoppable:
                context = stages.contexts.build(accepted, await stages.contexts.fetch_files(run, message), sender)
            with stage("dispatch"), run.stoppable:
                if run.accepted.left:
                    await self._end_recovery_attempt(run)
                turn = await stages.dispatch.admit(run, context)
            with stage("execute"), run.stoppable:
                async with stages.deliver.follow(run, turn.log) as emit:
                    result = await stages.agent.run(turn.log, turn.context, run.ids, emit)
            with stage("deliver"), run.stoppable:
                return await stages.deliver.answer(run, turn.log, result)

    async def _refuse_above_limit(self, run: MessageRun) -> None:
        """Raises Halt for what waits in a full session. Its people are told once; each message bears a sign."""
        reason = self._limit.find_refusal(run.accepted.id)
        if reason is None:
            return
        await self._stages.ack.show_refusal(run.inbound, self._channels.get(run.inbound.channel))
        is_told = not self._limit.must_tell(run.accepted.session)
        raise Halt("skip", reason, outcome="refused", reply=None if is_told else notice("full", run.inbound))

    async def _wait_in_lane(self, run: MessageRun) -> None:
        await self._refuse_above_limit(run)
        with run.deadline.pause(), run.stoppable:
            async with run.isolation.released():
                await self._lanes.turn_of(run.accepted.session, run.accepted.ticket)

    def _admit(self, accepted: Accepted) -> Admitted:
        """The message before any layer saw it, and its sender. Raises Halt if it would not have been admitted."""
        message = normalize(accepted.inbound)
        return message, self._stages.gate.admit(message)

    def _is_too_long(self, inbound: Inbound) -> bool:
        return len(inbound.text) > self._settings.max_text

    def _too_long(self, inbound: Inbound) -> Halt:
        reason = f"{len(inbound.text):,} characters are more than the {self._settings.max_text:,} of pipeline.max_text"
        return Halt("skip", reason, outcome="refused", reply=notice("too_long", inbound))

    # ── every way out of the pipeline ends in an outcome ───────────────────────────────────────────────────────────
    async def _run_to_outcome(self, ctx: MessageContext) -> Outcome:
        run = MessageRun.of(ctx)
        try:
            async with run.deadline:
                return await self.run_stages(run)
        except Exception as error:  # noqa: BLE001  a message's task is where a stranger's failure is contained
            return run.recorded or end_by_error(run, error, self._settings.timeout_ms)
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            return run.recorded or end_by_leaked_cancellation(run)

    async def _through_ring(self, run: MessageRun) -> Outcome:
        if self._ring is None:  # no layers: then the stages' own deadline is enough (`cpu_plain_alone`)
            return await self._run_to_outcome(run)
        try:
            async with run.patience:
                return await self._ring(run)
        except Exception as error:  # a message layer is a stranger too
            log.exception("a message layer failed")
            reason = "a message layer did not come back" if run.patience.expired else describe_error(error)
            return run.recorded or end_with_notice(run, "failed", reason)
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            return run.recorded or end_by_leaked_cancellation(run)

    async def _end_recovery_attempt(self, run: MessageRun) -> None:
        with run.deadline.pause():
            await self._recovery_throttle.clear_attempt(run.accepted.id)

    async def _return_to_inbox(self, run: MessageRun) -> None:
        """We are stopping in good order: the next start takes the message up, and this try does not count."""
        accepted = run.accepted
        counted = accepted.claim is not None or run.log is not None or self._recovery_throttle.has_attempt(accepted.id)
        if counted and run.recorded is None:
            unused = None if accepted.claim is None else TurnCalls()
            await self._store.release(accepted.id, unused if run.log is None else run.log.put_back())

    def _new_run(self, accepted: Accepted, last: str | None = None, isolation: Entry = UNRESTRICTED) -> MessageRun:
        seconds = self._settings.timeout_ms / 1000
        patience = Deadline(seconds if self._ring is None else seconds + LAYERS_GRACE)
        ids = Ids(agent=self._stages.agent.name, session=accepted.session, inbound_id=accepted.id, turn_id="")
        return MessageRun(
            ids=ids,
            emit=self._emit,
            inbound=accepted.inbound,
            accepted=accepted,
            journal=Journal(self._clock, self._emit, ids, last),
            deadline=patience if self._ring is None else Deadline(seconds, within=patience),  # `cpu_plain_alone`
            patience=patience,
            isolation=isolation,
            leave_lane=lambda: self._lanes.leave(accepted.session, accepted.ticket),
        )
