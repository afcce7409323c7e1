"""The running gateway: everything that a channel, the web API or the command line may ask of it."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
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
from finclaw.errors import SessionError, SessionFull
from finclaw.extensions.recurring import RecurringTasks
from finclaw.extensions.registrar import Registrar
from finclaw.gateway import QueuedMessage, StopReport, StopRequest, Summary, UndoneTurn, UnreachableChat
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, Standing
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.event import Observer
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Message
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import (
    Accepted,
    Cost,
    CostsBy,
    Counts,
    InboundRecord,
    SessionPage,
    Today,
    TurnRecord,
    TurnTrace,
    Unsolicited,
)
from finclaw.kernel.scope import Outcome, StageEntry
from finclaw.kernel.store_port import Store
from finclaw.pipeline.accept import accept_for_extension, make_storable
from finclaw.pipeline.engine import LocalEngine, Watchdog
from finclaw.pipeline.gate import Gate
from finclaw.pipeline.journal import STAGES
from finclaw.pipeline.message_run import MessageRuns
from finclaw.pipeline.persons import Chats, PersonDirectory, PersonService
from finclaw.pipeline.pipeline import Pipeline
from finclaw.pipeline.recovery import CrashIsolation, Recovery
from finclaw.pipeline.stops import SessionStops, TurnUndo
from finclaw.sessions.carried_over import KeptOptions
from finclaw.sessions.conversation import RecentConversations
from finclaw.sessions.lane import Lanes, WaitingLimit
from finclaw.sessions.pool import Pools
from finclaw.sessions.session_key import session_key
from finclaw.sessions.waiting import list_queue
from finclaw.spend_lines import sum_costs, sum_today
from finclaw.upkeep.stored_data import Upkeep

log = logging.getLogger(__name__)

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
    limit: WaitingLimit
    gate: Gate
    pipeline: Pipeline
    undo: TurnUndo
    recovery: Recovery
    watchdog: Watchdog
    upkeep: Upkeep


class App:
    """A running gateway.

    Made by `build`; everything that a channel, the web API or the command line may ask of it is here.
    """

    def __init__(self, core: GatewayCore, parts: GatewayParts) -> None:
        self.settings = core.settings
        self.events = core.events
        self.upkeep = parts.upkeep
        self.chats = core.chats
        self.consents = core.approvals
        self.options = core.options
        self.persons = core.persons
        self.pipeline = parts.pipeline
        self.routes = tuple(parts.registrar.routes)
        self.known_commands = parts.registrar.known_commands
        self.model = chosen_model(core.settings)
        self.put_blob = core.store.put_blob  # the content of an attachment, before the message that refers to it
        self.check_writable = core.store.check_writable
        self.ready = False
        self._store = core.store
        self._clock = core.clock
        self._channels = core.channels
        self._lanes = core.lanes
        self._runs = core.runs
        self._engine = core.engine
        self._sender = core.sender
        self._stops = core.stops
        self._agent = parts.agent
        self._pools = parts.pools
        self._limit = parts.limit
        self._gate = parts.gate
        self._undo = parts.undo
        self._recovery = parts.recovery
        self._watchdog = parts.watchdog
        self._commands = parts.registrar.commands
        self._recurring = RecurringTasks(parts.registrar.recurring, core.clock)
        self._watch = ApprovalWatch(core.approvals, core.clock)
        self._receivers: list[asyncio.Task[None]] = []

    @property
    def store(self) -> Store:
        return self._store

    @property
    def market(self) -> str:
        return self.settings.market

    async def handle(self, inbound: Inbound) -> Outcome:
        """Accept a message and wait for its outcome. One that was handled before gives the outcome it had."""
        ended: list[asyncio.Future[Outcome | None]] = []

        def begin(accepted: Accepted) -> None:
            self._engine.submit(accepted)
            ended.append(self._engine.watch_end(accepted.id))

        accepted = await self._accept(inbound, begin)
        if ended:
            outcome = await ended[0]
        else:  # it was handled before, or is being handled
            record = await self.wait(accepted.id, float("inf"))
            outcome = None if record is None else record.outcome
        if outcome is None:
            raise SessionError(f"the gateway stopped before message {accepted.id} ended; its next start takes it up")
        return outcome

    async def accept(self, inbound: Inbound) -> Accepted:
        """Returns when the message is on disk; from then on it will be answered, whatever happens to this process."""
        return await self._accept(inbound, self._engine.submit)

    async def receive(self, inbound: Inbound) -> Accepted:
        """Accept what a channel brings. In a full session it is accepted too and then refused: a channel that has to
        bring it again could bring nothing of anybody else meanwhile. The text of senders that are not
        admitted is not stored."""
        if not self._gate.hears(inbound):
            inbound = replace(inbound, text="…", attachments=())  # an empty one would be skipped for another reason
        try:
            return await self.accept(inbound)
        except SessionFull:
            inbound = make_storable(inbound)
            session = session_key(self.settings.agent.name, inbound)
            return await self._store.accept(inbound, session, self._submit_above_limit)

    def _submit_above_limit(self, accepted: Accepted) -> None:
        self._limit.accept_above(accepted)
        self._engine.submit(accepted)

    async def _accept(self, inbound: Inbound, then: Callable[[Accepted], None]) -> Accepted:
        inbound = make_storable(inbound)
        session = session_key(self.settings.agent.name, inbound)
        self.pipeline.check(inbound, session)
        claim_on_accept = self.pipeline.claim_on_accept(inbound, session) if self.ready else None
        return await self._store.accept(inbound, session, then, claim_on_accept)

    async def say(self, inbound: Inbound, session: str) -> Accepted:
        """Accept what an extension says in a session; see `accept_for_extension`."""
        return await accept_for_extension(self._store, self._engine, inbound, session)

    async def run_stage(self, name: str, inbound: Inbound) -> StageEntry:
        """Run one stage alone, in a test: what it made of this message (see `Pipeline.run_stage`)."""
        if name not in STAGES:
            raise ValueError(f"there is no stage {name!r}; the stages are {', '.join(STAGES)}")
        accepted = await self._accept(inbound, self._expect)
        return await self.pipeline.run_stage(name, accepted)

    def _expect(self, accepted: Accepted) -> None:
        self._lanes.expect(accepted.session, accepted.ticket)

    async def wait(self, inbound_id: str, seconds: float) -> InboundRecord | None:
        """The record, as soon as the message has ended or the seconds have passed. None: no such message."""
        ended = self._engine.watch_end(inbound_id)
        record = await self._store.find(inbound_id)
        if record is None or record.outcome is not None:
            return record
        await until_done(ended, None if seconds == float("inf") else max(0.0, seconds))
        return await self._store.find(inbound_id)

    def queue(self, session: str) -> Sequence[QueuedMessage]:
        """What a session has open, in the order in which it is answered; nothing where it is idle."""
        return list_queue(self._lanes, session, self._pools.find_place("main", session))

    def clear_queue(self, session: str) -> int:
        """Stop what waits in a session, and not what runs; each sender is told. Gives how many."""
        return sum(
            self.stop_message(message.inbound_id, "taken out of the line")
            for message in self.queue(session)
            if message.state == "waiting" or self._is_outside(message)
        )

    def _is_outside(self, message: QueuedMessage) -> bool:
        """Return whether a message that counts as running waits to enter the pipeline."""
        return message.state == "running" and self._runs.find(message.inbound_id) is None

    def stop_message(self, inbound_id: str, reason: str = "stopped by the person") -> bool:
        """Stop a message that waits for its turn or is being answered. False: it is not, or its answer exists."""
        return self._engine.stop_message(inbound_id, reason)

    async def stop_session(self, request: StopRequest) -> StopReport:
        """Stop what a session does, and what waits in it; see `SessionStops.stop`. The caller has checked who may."""
        report = await self._stops.stop(request)
        waiting = () if request.only else await self.approvals(session=request.session)
        return replace(report, approvals=tuple(each.id for each in waiting))

    async def undo_turn(self, accepted: Accepted, *, is_owner: bool, again: bool) -> UndoneTurn:
        """Take the last turn out of the conversation, and perhaps ask its question again; see `TurnUndo.undo`."""
        return await self._undo.undo(accepted, is_owner=is_owner, accept_again=self.accept if again else None)

    def count_waiting(self, session: str) -> int:
        """Messages of a session that have no answer yet."""
        return self._lanes.count(session)

    def measure(self, messages: Sequence[Message], model: str | None) -> int:
        return self._agent.measure(messages, model)

    def observe(self, observer: Observer) -> Callable[[], None]:
        return self.events.observe(observer)

    async def idle(self) -> None:
        """Wait until no message is in the pipeline and every outbox item that can be sent has been."""
        await self._engine.idle()
        await self._sender.idle()

    async def start(self) -> None:
        await self.options.load()
        self._engine.start(self.pipeline.run)
        await self._recovery.run(self.pipeline.give_up, self._engine, self.pipeline.is_stop)
        for channel in self._channels.values():
            channel.announce_commands(self._commands)
        self._receivers = [
            asyncio.create_task(keep_receiving(channel, self.receive, self._clock), name=f"receive {name}")
            for name, channel in self._channels.items()
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
        await self._engine.stop(STOP_GRACE)
        self._watchdog.close()
        self._pools.close()
        await self._sender.stop(SEND_GRACE)

    # ── stored sessions, turns and costs ────────────────────────────────────────────────────────────────────────────

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        return await self._store.sessions(limit, after, containing)

    async def messages(self, session: str) -> Sequence[Message]:
        return await self._store.messages(session)

    async def unasked(self, whose: Inbound, after: str | None) -> Unsolicited:
        """Return what was sent without a question to the session of this message, after this place."""
        return await self._store.unasked(session_key(self.settings.agent.name, whose), after)

    async def turns(self, limit: int) -> Sequence[TurnRecord]:
        return await self._store.turns(limit)

    async def turn(self, turn_id: str) -> TurnTrace | None:
        return await self._store.turn(turn_id)

    async def counts(self) -> Counts:
        return await self._store.counts()

    async def unreachable(self) -> Sequence[UnreachableChat]:
        """Return the chats that accept no messages any more, as their channels remember them."""
        names = self.settings.channels
        return tuple(read_unreachable([(name, await self._store.recall(memory_key(name), "")) for name in names]))

    async def costs(self, days: int, by: CostsBy) -> Sequence[Cost]:
        return await sum_costs(self._store, self._clock.now(), days, by)

    async def today(self) -> Today:
        settings = self.settings
        return await sum_today(self._store, self._clock.now(), settings.agent.name, settings.budget.agent_day_usd)

    async def reset(self, session: str) -> None:
        """Reset a session as the command `/reset` does: a turn that runs there is superseded."""
        await self._store.reset(session)
        self.options.drop(session)

    async def restore(self, session: str, messages: Sequence[Message], facts: Sequence[Fact] = ()) -> None:
        await self._store.restore(session, messages, facts)

    # ── approvals ───────────────────────────────────────────────────────────────────────────────────────────────

    async def approval(self, typed: str) -> Approval | None:
        return await self.consents.approval(typed)

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        return await self.consents.approvals(states, session, limit)

    async def decide(
        self,
        typed: str,
        verdict: ApprovalVerdict,
        evidence: Inbound,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval | Refusal:
        return await self.consents.decide(typed, verdict, evidence, scope=scope, reason=reason)

    def summaries(self, approvals: Sequence[Approval]) -> Sequence[Summary]:
        return summaries(approvals)

    async def came_of(self, approval_id: str, seconds: float) -> Outcome | None:
        inbound_id = self.consents.run_of(approval_id)
        record = None if inbound_id is None else await self.wait(inbound_id, seconds)
        return None if record is None else record.outcome

    async def grants(self, limit: int = 100) -> Sequence[Standing]:
        return await self.consents.grants.list_grants(limit)

    async def revoke(self, typed: str, evidence: Inbound) -> Standing | Refusal:
        return await self.consents.grants.revoke(typed, evidence)
