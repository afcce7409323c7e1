"""The road, on one screen: eight calls from a message to its outcome. Nothing can be put between two of them."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from finclaw.agent.turn import Agent
from finclaw.errors import ProviderError, Superseded
from finclaw.kernel.crash import crash_point
from finclaw.kernel.event import Emit, MessageEnded
from finclaw.kernel.middleware import Layer, compose
from finclaw.kernel.port import Channel, Clock, ConversationStore
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import Ids, MessageContext, Outcome
from finclaw.pipeline.ack import Ack
from finclaw.pipeline.command import Commands
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.deliver import Deliver
from finclaw.pipeline.dispatch import Dispatch
from finclaw.pipeline.gate import Gate
from finclaw.pipeline.journal import Deadline, Halt, Journal
from finclaw.pipeline.normalize import normalize
from finclaw.pipeline.notice import Notice, notice
from finclaw.pipeline.settings import PipelineSettings
from finclaw.pipeline.walk import Walk
from finclaw.sessions.lane import Lanes

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages that have something to remember."""

    gate: Gate
    commands: Commands
    ack: Ack
    contexts: Contexts
    dispatch: Dispatch
    agent: Agent
    deliver: Deliver


class Pipeline:
    def __init__(
        self,
        settings: PipelineSettings,
        stages: Stages,
        layers: Sequence[Layer[MessageContext, Outcome]],
        store: ConversationStore,
        lanes: Lanes,
        channels: Mapping[str, Channel],
        clock: Clock,
        emit: Emit,
    ) -> None:
        self._settings = settings
        self._stages = stages
        self._store = store
        self._lanes = lanes
        self._channels = channels
        self._clock = clock
        self._emit = emit
        self._ring = compose("message", layers, self._road_to_outcome, Outcome)

    async def handle(self, accepted: Accepted) -> Outcome:
        """See one accepted message through to its one recorded outcome. Only cancellation (a stop) gets out."""
        crash_point("road:started")
        walk = self._walk(accepted)
        try:
            outcome = await self._through_ring(walk)
            if not walk.recorded:
                outcome = await self._stages.deliver.close(walk, walk.completed(outcome))
        except asyncio.CancelledError:
            await self._put_back(walk)
            raise
        finally:
            walk.leave()
        self._emit(MessageEnded(outcome=outcome.kind, reason=outcome.reason, **walk.ids))
        return outcome

    async def give_up(self, accepted: Accepted, which: Literal["poison", "expired"], reason: str) -> Outcome:
        """End a message that is not tried (again): its sender is told, and a turn it had begun is closed."""
        walk = self._walk(accepted)
        walk.reply = notice(which, accepted.inbound)
        if accepted.attempts:
            await self._stages.dispatch.claim(walk, Decimal(0))
        outcome = walk.ended("expired" if which == "expired" else "failed", reason, reply=walk.reply.text)
        await self._stages.deliver.close(walk, outcome)
        self._emit(MessageEnded(outcome=outcome.kind, reason=reason, **walk.ids))
        return outcome

    async def road(self, walk: Walk) -> Outcome:
        stage, stages = walk.journal.stage, self._stages
        with stage("normalize"):
            message = normalize(walk.inbound)
        with stage("gate"):
            sender = stages.gate.admit(message)
        with stage("command"):
            await stages.commands.answer(message, sender, walk.accepted.session)
        async with stages.ack(walk.inbound, self._channels.get(walk.inbound.channel), stage("ack")):
            with stage("context"):
                context = stages.contexts.build(walk.accepted, message, sender)
            with stage("dispatch"):
                turn = await stages.dispatch.admit(walk, context, stages.agent.reserve)
            with stage("execute"):
                result = await stages.agent.run(turn.log, turn.context, walk.ids, walk.emit)
            with stage("deliver"):
                return await stages.deliver.answer(walk, turn.log, result)

    # ── every way off the road ends in an outcome ───────────────────────────────────────────────────────────

    async def _road_to_outcome(self, ctx: MessageContext) -> Outcome:
        walk = Walk.of(ctx)
        try:
            async with walk.deadline:
                return await self.road(walk)
        except Halt as halt:
            return walk.halted(halt)
        except Superseded as error:
            return self._told(walk, "stopped", str(error), outcome="stopped")
        except ProviderError as error:
            log.error("the model did not answer: %s: %s", type(error).__name__, error)
            return self._told(walk, "busy", f"{type(error).__name__}: {error}")
        except Exception as error:  # a message's task is where a stranger's failure is contained
            if walk.deadline.expired and isinstance(error, TimeoutError):
                return self._told(walk, "timeout", f"timeout after {self._settings.timeout_ms} ms")
            log.exception("a message failed on the road")
            return self._told(walk, "failed", f"{type(error).__name__}: {error}")

    async def _through_ring(self, walk: Walk) -> Outcome:
        try:
            return await self._ring(walk)
        except Exception as error:  # a message layer is a stranger too
            log.exception("a message layer failed")
            return self._told(walk, "failed", f"{type(error).__name__}: {error}")

    @staticmethod
    def _told(walk: Walk, which: Notice, reason: str, outcome: Literal["failed", "stopped"] = "failed") -> Outcome:
        walk.reply = notice(which, walk.inbound)
        return walk.ended(outcome, reason, reply=walk.reply.text)

    async def _put_back(self, walk: Walk) -> None:
        """We are stopping in good order: the next start takes the message up, and this try does not count."""
        if walk.log is not None and not walk.recorded:
            await self._store.release(walk.log.claim)

    def _walk(self, accepted: Accepted) -> Walk:
        ids = Ids(session=accepted.session, inbound_id=accepted.id, turn_id="")
        return Walk(
            ids=ids,
            emit=self._emit,
            inbound=accepted.inbound,
            accepted=accepted,
            journal=Journal(self._clock, self._emit, ids),
            deadline=Deadline(self._settings.timeout_ms / 1000),
            leave=lambda: self._lanes.leave(accepted.session, accepted.ticket),
        )
