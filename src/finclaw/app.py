"""The running gateway: everything that a channel, the web API or the command line may ask of it."""

import asyncio
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.agent.agent import Agent
from finclaw.approvals.approvals import Approvals, ApprovalWatch
from finclaw.approvals.display import summaries
from finclaw.approvals.people import People
from finclaw.cancellation import until_done
from finclaw.channels.supervisor import keep_receiving
from finclaw.channels.unreachable import memory_key, read_unreachable
from finclaw.config.routes import ModelRoutes, chosen_model
from finclaw.config.schema import Settings
from finclaw.delivery.outbox import OrderedSender
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import SessionError
from finclaw.extensions.recurring import RecurringTasks
from finclaw.extensions.registrar import Registrar
from finclaw.gateway import QueuedMessage, StopReport, StopRequest, UndoneTurn, UnreachableChat
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted, Cost, CostsBy, InboundRecord, Today, Unsolicited
from finclaw.kernel.scope import Outcome, StageEntry
from finclaw.kernel.store_port import Store
from finclaw.pipeline.accept import Acceptance, accept_for_extension
from finclaw.pipeline.engine import LocalEngine, Watchdog
from finclaw.pipeline.message_run import MessageRuns
from finclaw.pipeline.persons import Chats, PersonDirectory, PersonService
from finclaw.pipeline.pipeline import Pipeline
from finclaw.pipeline.recovery import CrashIsolation, Recovery
from finclaw.pipeline.stage import STAGES
from finclaw.pipeline.stops import SessionStops, TurnUndo
from finclaw.sessions.carried_over import KeptOptions
from finclaw.sessions.lane import Lanes
from finclaw.sessions.pool import Pools
from finclaw.sessions.session_key import session_key
from finclaw.sessions.waiting import list_queue
from finclaw.spend_lines import sum_costs, sum_today
from finclaw.transcript.conversation import RecentConversations
from finclaw.upkeep.stored_data import Upkeep

STOP_GRACE: Final = 5.0
"""Seconds that messages in the pipeline get when the gateway stops; the rest is taken up at the next start."""
SEND_GRACE: Final = 1.0
"""Seconds for answers after that. With 2 s for a tool that will not stop and 1 s for the last send, all within 10."""


class GatewayCore(Struct, frozen=True, kw_only=True):
    """The parts of a gateway that exist before its extensions are loaded, which may use them."""

    settings: Settings
    clock: Clock
    events: EventStream
    store: Store
    routes: ModelRoutes
    channels: dict[str, Channel]
    """By name. Those of the settings are added when the extensions have said which kinds there are."""
    people: People
    directory: PersonDirectory
    persons: PersonService
    chats: Chats
    options: KeptOptions
    recent: RecentConversations
    lanes: Lanes
    runs: MessageRuns
    isolation: CrashIsolation
    engine: LocalEngine
    sender: OrderedSender
    stops: SessionStops
    approvals: Approvals


class GatewayParts(Struct, frozen=True, kw_only=True):
    """The parts of a gateway that are made with what its extensions have registered."""

    registrar: Registrar
    agent: Agent
    pools: Pools
    acceptance: Acceptance
    pipeline: Pipeline
    undo: TurnUndo
    recovery: Recovery
    watchdog: Watchdog
    upkeep: Upkeep


class App:
    """A running gateway, made by `build`: everything that a channel, the web API or the command line may ask of it."""

    def __init__(self, core: GatewayCore, parts: GatewayParts) -> None:
        self._core = core
        self._parts = parts
        self.settings = core.settings
        self.market = core.settings.market
        self.model = chosen_model(core.settings)
        self.ready = False
        self.events = core.events
        self.observe = core.events.observe
        self.options = core.options
        self.persons = core.persons
        self.upkeep = parts.upkeep
        self.pipeline = parts.pipeline
        self.measure = parts.agent.measure
        self.routes = tuple(parts.registrar.routes)
        self.known_commands = parts.registrar.known_commands
        self.store = core.store
        self.put_blob = core.store.put_blob  # the content of an attachment, before the message that refers to it
        self.check_writable = core.store.check_writable
        self.sessions = core.store.sessions
        self.messages = core.store.messages
        self.restore = core.store.restore
        self.turns = core.store.turns
        self.turn = core.store.turn
        self.counts = core.store.counts
        self.consents = core.approvals
        self.approval = core.approvals.approval
        self.approvals = core.approvals.approvals
        self.decide = core.approvals.decide
        self.summaries = summaries
        self.grants = core.approvals.grants.list_grants
        self.revoke = core.approvals.grants.revoke
        self.acceptance = parts.acceptance
        self._recurring = RecurringTasks(parts.registrar.recurring, core.clock)
        self._watch = ApprovalWatch(core.approvals, core.clock)
        self._receivers: list[asyncio.Task[None]] = []

    async def handle(self, inbound: Inbound) -> Outcome:
        """Accept a message and wait for its outcome. One that was handled before gives the outcome it had."""
        ended: list[asyncio.Future[Outcome | None]] = []

        def begin(accepted: Accepted) -> None:
            self._core.engine.submit(accepted)
            ended.append(self._core.engine.watch_end(accepted.id))

        accepted = await self.acceptance.accept(inbound, begin, may_claim=self.ready)
        if ended:
            outcome = await ended[0]
        else:  # it was handled before, or is being handled
            record = await self.wait(accepted.id, float("inf"))
            outcome = record and record.outcome
        if outcome is None:
            raise SessionError(f"the gateway stopped before message {accepted.id} ended; its next start takes it up")
        return outcome

    async def accept(self, inbound: Inbound) -> Accepted:
        """Returns when the message is on disk; from then on it will be answered, whatever happens to this process."""
        return await self.acceptance.accept(inbound, self._core.engine.submit, may_claim=self.ready)

    async def receive(self, inbound: Inbound) -> Accepted:
        return await self.acceptance.receive(inbound, may_claim=self.ready)

    async def say(self, inbound: Inbound, session: str) -> Accepted:
        return await accept_for_extension(self.store, self._core.engine, inbound, session)

    async def run_stage(self, name: str, inbound: Inbound) -> StageEntry:
        """Run one stage alone, in a test: what it made of this message (see `Pipeline.run_stage`)."""
        if name not in STAGES:
            raise ValueError(f"there is no stage {name!r}; the stages are {', '.join(STAGES)}")
        accepted = await self.acceptance.accept(
            inbound, lambda each: self._core.lanes.expect(each.session, each.ticket), may_claim=self.ready
        )
        return await self.pipeline.run_stage(name, accepted)

    async def wait(self, inbound_id: str, seconds: float) -> InboundRecord | None:
        """The record, as soon as the message has ended or the seconds have passed. None: no such message."""
        ended = self._core.engine.watch_end(inbound_id)
        record = await self.store.find(inbound_id)
        if record is None or record.outcome is not None:
            return record
        await until_done(ended, None if seconds == float("inf") else max(0.0, seconds))
        return await self.store.find(inbound_id)

    def queue(self, session: str) -> Sequence[QueuedMessage]:
        """What a session has open, in the order in which it is answered; nothing where it is idle."""
        return list_queue(self._core.lanes, session, self._parts.pools.find_place("main", session))

    def clear_queue(self, session: str) -> int:
        """Stop what waits in a session, and not what runs; each sender is told. Gives how many."""
        stopped = 0
        for message in self.queue(session):
            # One that counts as running may wait to enter the pipeline.
            is_outside = message.state == "running" and self._core.runs.find(message.inbound_id) is None
            if message.state == "waiting" or is_outside:
                stopped += self.stop_message(message.inbound_id, "taken out of the line")
        return stopped

    def stop_message(self, inbound_id: str, reason: str = "stopped by the person") -> bool:
        """Stop a message that waits for its turn or is being answered. False: it is not, or its answer exists."""
        return self._core.engine.stop_message(inbound_id, reason)

    async def stop_session(self, request: StopRequest) -> StopReport:
        """Stop what a session does, and what waits in it; see `SessionStops.stop`. The caller has checked who may."""
        report = await self._core.stops.stop(request)
        if request.only:
            return report
        waiting = await self.approvals(session=request.session)
        return replace(report, approvals=tuple(each.id for each in waiting))

    async def undo_turn(self, accepted: Accepted, *, is_owner: bool, again: bool) -> UndoneTurn:
        """Take the last turn out of the conversation, and perhaps ask its question again; see `TurnUndo.undo`."""
        return await self._parts.undo.undo(accepted, is_owner=is_owner, accept_again=self.accept if again else None)

    async def idle(self) -> None:
        """Wait until no message is in the pipeline and every outbox item that can be sent has been."""
        await self._core.engine.idle()
        await self._core.sender.idle()

    async def start(self) -> None:
        await self.options.load()
        self._core.engine.start(self.pipeline.run)
        await self._parts.recovery.run(self.pipeline.give_up, self._core.engine)
        for channel in self._core.channels.values():
            channel.announce_commands(self._parts.registrar.commands)
        self._receivers = [
            asyncio.create_task(keep_receiving(channel, self.receive, self._core.clock), name=f"receive {name}")
            for name, channel in self._core.channels.items()
        ]
        self._recurring.start()
        self._watch.start()
        self.ready = True

    async def stop(self) -> None:
        """In the order of the pipeline: no more messages in, those on it through, their answers out."""
        self.ready = False
        for receiver in self._receivers:
            receiver.cancel()
        await asyncio.gather(*self._receivers, return_exceptions=True)
        await self._recurring.stop()
        await self._watch.stop()
        await self._core.engine.stop(STOP_GRACE)
        self._parts.watchdog.close()
        self._parts.pools.close()
        await self._core.sender.stop(SEND_GRACE)

    async def unasked(self, whose: Inbound, after: str | None) -> Unsolicited:
        return await self.store.unasked(session_key(self.settings.agent.name, whose), after)

    async def unreachable(self) -> Sequence[UnreachableChat]:
        names = self.settings.channels
        return tuple(read_unreachable([(name, await self.store.recall(memory_key(name), "")) for name in names]))

    async def costs(self, days: int, by: CostsBy) -> Sequence[Cost]:
        return await sum_costs(self.store, self._core.clock.now(), days, by)

    async def today(self) -> Today:
        settings = self.settings
        return await sum_today(self.store, self._core.clock.now(), settings.agent.name, settings.budget.agent_day_usd)

    async def reset(self, session: str) -> None:
        """Reset a session as the command `/reset` does: a turn that runs there is superseded."""
        await self.store.reset(session)
        self.options.drop(session)

    async def came_of(self, approval_id: str, seconds: float) -> Outcome | None:
        inbound_id = self.consents.run_of(approval_id)
        record = await self.wait(inbound_id, seconds) if inbound_id else None
        return record and record.outcome
