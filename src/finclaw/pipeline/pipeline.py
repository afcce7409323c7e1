"""The pipeline, on one screen: eight stages from a message to its outcome. Nothing can be put between two of them."""

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
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.event import Emit, MessageEnded
from finclaw.kernel.middleware import Layer, compose
from finclaw.kernel.person import set_reader
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted, TurnCalls
from finclaw.kernel.scope import Ids, MessageContext, Outcome, OutcomeKind, StageEntry
from finclaw.kernel.store_port import ConversationStore
from finclaw.pipeline.ack import Ack
from finclaw.pipeline.command import Admitted, Commands
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.deliver import Deliver
from finclaw.pipeline.dispatch import Dispatch
from finclaw.pipeline.gate import Gate, MarketHours, normalize
from finclaw.pipeline.message_run import (
    MessageRun,
    MessageRuns,
    end_by_error,
    end_by_leaked_cancellation,
    end_with_notice,
    last_notice,
)
from finclaw.pipeline.persons import ReplyLanguages
from finclaw.pipeline.recovery import UNRESTRICTED, CrashIsolation, Entry, Fate, RecoveryThrottle
from finclaw.pipeline.settings import PipelineSettings
from finclaw.pipeline.stage import Deadline, Halt, Journal
from finclaw.pipeline.stops import Revisions
from finclaw.redaction.redact import describe_error
from finclaw.sessions.lane import Lanes, WaitingLimit
from finclaw.sessions.waiting import Debounce

log = logging.getLogger(__name__)

LAYERS_GRACE: Final = 30.0
"""Seconds that message layers get beyond the pipeline's own time; one that never returns must not hold the lane."""


class Pipeline:
    def __init__(
        self,
        settings: PipelineSettings,
        stages: "Stages",
        layers: Sequence[Layer[MessageContext, Outcome]],
        store: ConversationStore,
        traffic: "Traffic",
        channels: Mapping[str, Channel],
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._settings = settings
        self._stages = stages
        self._agent = stages.agent.name
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

    async def run(self, accepted: Accepted) -> Outcome:
        """Bring a message to its outcome, once its sender has paused and the crash isolation lets it in."""
        try:
            await self._debounce.wait(accepted)
            entry = self.isolation.entry_for(accepted, self._settings.max_attempts, self._stages.commands.is_stop)
            async with entry as isolation:
                return await self.handle(accepted, isolation)
        finally:
            self._debounce.leave(accepted)

    async def handle(self, accepted: Accepted, isolation: Entry) -> Outcome:
        """Bring an accepted message to its one recorded outcome. Only cancellation (a stop) gets out."""
        run = self._new_run(accepted, isolation=isolation)
        self._accepted[id(run)] = accepted
        self._runs.enter(run)
        try:
            if accepted.left and not run.inbound.from_extension:
                await self._recovery_throttle.mark_attempt(accepted.id)
            crash_point("pipeline:started")
            run.inbound = await self._stages.languages.decide(run.inbound)
            if run.inbound.from_extension:
                outcome = await self._say_for_extension(run)
            else:
                outcome = await self._through_ring(run)
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
        self._emit_end(run, outcome)
        return outcome

    async def run_stages(self, run: MessageRun) -> Outcome:
        stage = run.journal.stage
        stages = self._stages
        accepted = self._accepted[id(run)]
        set_reader(stages.contexts.find_person(accepted.inbound))
        with stage("normalize"):
            self._refuse_above_length(run.inbound)
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
                inbound = await stages.languages.decide(message.inbound)
                message = replace(message, inbound=inbound)
            run.drop_directives(message.inbound)
            if stages.hours is not None:
                stages.hours.admit(run.inbound)
            await self._refuse_above_limit(run)
        channel = self._channels.get(run.inbound.channel)
        async with stages.ack(run, channel, stage("ack")):
            with stage("context"), run.stoppable:
                message = await stages.contexts.fetch_files(run, message)
                context = stages.contexts.build(accepted, message, sender)
            with stage("dispatch"), run.stoppable:
                if run.accepted.left:
                    with run.deadline.pause():
                        await self._recovery_throttle.clear_attempt(accepted.id)
                context, turn = await stages.dispatch.admit(run, context)
            with stage("execute"), run.stoppable:
                async with stages.deliver.follow(run, turn) as emit:
                    result = await stages.agent.run(turn, context, run.ids, emit)
            with stage("deliver"), run.stoppable:
                return await stages.deliver.answer(run, turn, result)

    def _refuse_above_length(self, inbound: Inbound) -> None:
        length = len(inbound.text)
        most = self._settings.max_text
        if length > most:
            reason = f"{length:,} characters are more than the {most:,} of pipeline.max_text"
            raise Halt(reason, outcome="refused", reply=notice("too_long", inbound))

    async def _refuse_above_limit(self, run: MessageRun) -> None:
        """Raises Halt for a message in a full session. Its people are told once; each message bears a sign."""
        reason = self._limit.find_refusal(run.accepted.id)
        if reason is None:
            return
        await self._stages.ack.show_refusal(run.inbound, self._channels.get(run.inbound.channel))
        reply = None
        if self._limit.must_tell(run.accepted.session):
            reply = notice("full", run.inbound)
        raise Halt(reason, outcome="refused", reply=reply)

    async def _wait_in_lane(self, run: MessageRun) -> None:
        await self._refuse_above_limit(run)
        with run.deadline.pause(), run.stoppable:
            await run.isolation.wait_outside(self._lanes.turn_of(run.accepted.session, run.accepted.ticket))

    def _admit(self, accepted: Accepted) -> Admitted:
        """The message before any layer saw it, and its sender. Raises Halt if it would not have been admitted."""
        message = normalize(accepted.inbound)
        return message, self._stages.gate.admit(message)

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

    async def _return_to_inbox(self, run: MessageRun) -> None:
        """We are stopping in good order: the next start takes the message up, and this try does not count."""
        accepted = run.accepted
        if run.recorded is not None:
            return
        if run.log is not None:
            await self._store.release(accepted.id, run.log.put_back())
        elif accepted.claim is not None:
            await self._store.release(accepted.id, TurnCalls())
        elif self._recovery_throttle.has_attempt(accepted.id):
            await self._store.release(accepted.id, None)

    async def _say_for_extension(self, run: MessageRun) -> Outcome:
        """Deliver the text of an extension in its turn. It runs no other stage, but all checks of delivery."""
        if run.inbound.from_extension != CARDS:  # a decision does not wait behind the messages of who decides
            await run.isolation.wait_outside(self._lanes.turn_of(run.accepted.session, run.accepted.ticket))
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
            spent = None
            if fold:
                turn = await self._stages.dispatch.claim(run)
                spent = turn.build_result("failed", "")
            if accepted.inbound.from_extension is None:
                run.reply = last_notice(run, which)
            kind: OutcomeKind = "failed" if which == "poison" else which
            outcome = run.end_with(kind, reason, result=spent)
            outcome = await self._stages.deliver.close(run, outcome, skip_layers=True)
        self._emit_end(run, outcome)
        return outcome

    def _emit_end(self, run: MessageRun, outcome: Outcome) -> None:
        self._emit(
            MessageEnded(
                outcome=outcome.kind,
                reason=outcome.reason,
                reply=outcome.reply,
                is_markdown=outcome.is_markdown,
                **run.ids,
            )
        )

    async def run_stage(self, name: str, accepted: Accepted) -> StageEntry:
        """Return what one stage makes of a message, to look at it alone.

        The stages before it run too, because they make its input; if one of them ended the pipeline, it is returned.
        No later stage and no message layer runs, nobody is told, and the message ends.
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

    def _new_run(self, accepted: Accepted, last: str | None = None, isolation: Entry = UNRESTRICTED) -> MessageRun:
        seconds = self._settings.timeout_ms / 1000
        if self._ring is None:
            patience = deadline = Deadline(seconds)  # without layers one is enough (`cpu_plain_alone`)
        else:
            patience = Deadline(seconds + LAYERS_GRACE)
            deadline = Deadline(seconds, within=patience)
        ids = Ids(agent=self._agent, session=accepted.session, inbound_id=accepted.id, turn_id="")
        return MessageRun(
            ids=ids,
            emit=self._emit,
            inbound=accepted.inbound,
            accepted=accepted,
            journal=Journal(self._clock, self._emit, ids, last),
            deadline=deadline,
            patience=patience,
            isolation=isolation,
            lanes=self._lanes,
        )


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
