"""The running gateway: everything that a channel, the web API or the command line may ask of it."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from finclaw.agent.agent import Agent
from finclaw.approvals.announce import Announcer
from finclaw.approvals.approvals import Approvals
from finclaw.approvals.summary import summaries
from finclaw.approvals.watch import ApprovalWatch
from finclaw.cancellation import until_done
from finclaw.channels.supervisor import keep_receiving
from finclaw.channels.unreachable import memory_key, read_unreachable
from finclaw.config.routes import chosen_model
from finclaw.config.schema import Settings
from finclaw.delivery.outbox import OrderedSender
from finclaw.errors import SessionError, SessionFull
from finclaw.extensions.recurring import RecurringTasks
from finclaw.extensions.registrar import Registrar
from finclaw.finance.calendar import TableCalendar
from finclaw.gateway import QueuedMessage, StopReport, StopRequest, Summary, UndoneTurn, UnreachableChat
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, Standing
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.erasure import Erased, SenderId
from finclaw.kernel.event import Observer, SessionsErased, StoreHealthChanged
from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message
from finclaw.kernel.middleware import compose
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import (
    Accepted,
    Cost,
    CostsBy,
    Counts,
    InboundRecord,
    IntegrityFinding,
    Pruned,
    SessionPage,
    Today,
    TurnRecord,
    TurnTrace,
    Unsolicited,
)
from finclaw.kernel.scope import DeliveryContext, Outcome, StageEntry
from finclaw.kernel.store_port import Store
from finclaw.kernel.turn_options import QueueMode
from finclaw.pipeline.accept import make_storable
from finclaw.pipeline.ack import Ack
from finclaw.pipeline.command import STOP, Commands, CommandServices
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.deliver import Deliver
from finclaw.pipeline.dispatch import Dispatch, SessionOpening
from finclaw.pipeline.early_delivery import EarlyDelivery
from finclaw.pipeline.engine import LocalEngine
from finclaw.pipeline.gate import Gate, Heard, MarketHours
from finclaw.pipeline.journal import STAGES
from finclaw.pipeline.persons import Chats, PersonDirectory, PersonService, ReplyLanguages
from finclaw.pipeline.pipeline import Pipeline, Stages
from finclaw.pipeline.recovery import Recovery
from finclaw.pipeline.stops import Revisions, SessionStops, TurnUndo
from finclaw.pipeline.watchdogs import Watchdog
from finclaw.routing.session_key import session_key
from finclaw.sessions.carried_over import KeptOptions
from finclaw.sessions.conversation import RecentConversations
from finclaw.sessions.debounce import Debounce, make_pause
from finclaw.sessions.lane import Lanes
from finclaw.sessions.pool import Pools
from finclaw.sessions.waiting import LaneWaiting, list_queue
from finclaw.spend_lines import sum_costs, sum_today
from finclaw.upkeep.backup_copy import copy_for_backup
from finclaw.upkeep.erasure import Eraser

log = logging.getLogger(__name__)

STOP_GRACE: Final = 5.0
"""Seconds that messages in the pipeline get when the gateway stops; the rest is taken up at the next start."""
SEND_GRACE: Final = 1.0
"""Seconds for answers after that. With 2 s for a tool that will not stop and 1 s for the last send, all within 10."""


class App:
    """A running gateway.

    Made by `build`; everything that a channel, the web API or the command line may ask of it is here.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        settings: Settings,
        registrar: Registrar,
        store: Store,
        agent: Agent,
        channels: Mapping[str, Channel],
        clock: Clock,
        persons: PersonDirectory,
        heard: Mapping[str, Heard],
        pauses: Mapping[str, int],
    ) -> None:
        recent, options = RecentConversations(), KeptOptions(store, agent.check_model)
        self.settings = settings
        self.options = options
        self._store = store
        self._clock = clock
        self._recent = recent
        self.put_blob = store.put_blob  # the content of an attachment, before the message that refers to it
        self.events = registrar.events
        self.ready = False
        self.check_writable = store.check_writable
        store.watch_writes(self._tell_store_health)
        self._channels, self._receivers = channels, list[asyncio.Task[None]]()
        emit = self.events.emit
        self._lanes = lanes = Lanes()
        pools, prefix = settings.pipeline.pools, settings.command_prefix
        self._pools = Pools({"main": pools.main, "cron": pools.cron, "subagent": pools.subagent})
        self._sender = OrderedSender(store, channels, clock, emit, submit=self._submit)
        people, self.chats = settings.everybody(), Chats(agent.name, store, channels, persons)
        self.persons = PersonService(store, people, persons)
        told = Announcer(emit, agent.name)
        self._eraser = Eraser(store, registrar, settings.state, self._drop_sessions, self.persons.drop)
        self.consents = Approvals(store, people, settings.approvals, clock, self._submit, self.chats, told, prefix)
        opening = SessionOpening(store, recent, clock, settings.sessions, options)
        command_services = CommandServices(
            persons=persons,
            clock=clock,
            put_blob=store.put_blob,
            options=options,
            find_model=agent.find_model,
            layer_commands=registrar.layer_commands,
            directive_roles=settings.commands.directives,
            disabled=registrar.disabled_commands,
            suggest=settings.commands.suggest,
        )
        commands = Commands(prefix, registrar.commands, command_services)
        carried = options.carried_over
        debounce = Debounce(clock, make_pause(pauses, commands.may_know), carried.may_answer)
        modes: dict[str, QueueMode | None] = {name: each.queue for name, each in settings.channels.items()}
        waiting = LaneWaiting(lanes, clock, settings.sessions.queue, modes, self._interrupt, debounce, carried)
        stages = Stages(
            gate=Gate(require_mention=settings.pipeline.require_mention, people=people, heard=heard),
            commands=commands,
            ack=Ack(settings.pipeline.ack, clock, enabled=settings.pipeline.enable_ack),
            contexts=Contexts(agent.name, channels, store, clock, persons),
            dispatch=Dispatch(
                store, waiting, self._pools, opening, clock, agent.reserve_first_call, registrar.fields, persons
            ),
            agent=agent,
            deliver=self._make_deliver(settings, registrar, store, recent, clock),
            languages=ReplyLanguages(store, persons, prefix),
            hours=MarketHours(TableCalendar(), persons, clock) if settings.pipeline.respect_market_hours else None,
        )
        self._gate = stages.gate
        self.pipeline = Pipeline(
            settings.pipeline, stages, registrar.layers("message"), store, lanes, channels, clock, emit
        )
        self._engine = LocalEngine(self.pipeline, lanes, emit, clock, debounce)
        self._stops = SessionStops(store, self.pipeline, self._engine, self._sender, clock)
        self._undo = TurnUndo(store, self.pipeline, stages.dispatch.claim, self.accept, self._sender, clock)
        self.pipeline.revise = Revisions(store, self._engine, self._stops).apply
        self._watchdog = Watchdog(
            clock,
            emit,
            lambda inbound_id, reason: self.pipeline.stop(inbound_id, reason, by="watchdog"),
            warn_s=settings.pipeline.stall_warn_s,
            abort_s=settings.pipeline.stall_abort_s,
        )
        self.events.observe(self._watchdog.observe)
        self._recurring = RecurringTasks(registrar.recurring, clock)
        self._watch = ApprovalWatch(self.consents, clock)
        self.routes, self.known_commands = tuple(registrar.routes), registrar.known_commands
        self._commands = registrar.commands
        self.model = chosen_model(settings)

    def _make_deliver(
        self, settings: Settings, registrar: Registrar, store: Store, recent: RecentConversations, clock: Clock
    ) -> Deliver:
        ring = compose("delivery", registrar.layers("delivery"), _pass_on, Outbound)
        checks, sender, channels = tuple(registrar.checks), self._sender, self._channels
        pauses = {name: each.pause_ms for name, each in settings.channels.items() if each.pause_ms is not None}
        early = EarlyDelivery(store, ring, sender, channels, clock, checks, settings.pipeline, pauses)
        if STOP not in registrar.disabled_commands:
            early.stop_command = f"{settings.command_prefix}{STOP}"
        return Deliver(store, ring, sender, channels, recent, clock, checks, early)

    def _tell_store_health(self, failure: SessionError | None) -> None:
        why = "" if failure is None else getattr(failure, "why", "failed")
        self.events.emit(StoreHealthChanged(why=why, agent=self.settings.agent.name))

    def _submit(self, accepted: Accepted) -> None:
        self._engine.submit(accepted)

    def _interrupt(self, inbound_id: str, reason: str) -> bool:
        """Stop a turn that has begun; one that has not is passed over when it does, with its words kept."""
        run = self.pipeline.find_run(inbound_id)
        return run is not None and run.log is not None and self.pipeline.stop(inbound_id, reason, by="person")

    @property
    def market(self) -> str:
        return self.settings.market

    async def handle(self, inbound: Inbound) -> Outcome:
        """Accept a message and wait for its outcome. One that was handled before gives the outcome it had."""
        ended: list[asyncio.Future[Outcome | None]] = []

        def begin(accepted: Accepted) -> None:
            self._submit(accepted)
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
        return await self._accept(inbound, self._submit)

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
        self.pipeline.limit.accept_above(accepted)
        self._submit(accepted)

    async def _accept(self, inbound: Inbound, then: Callable[[Accepted], None]) -> Accepted:
        inbound = make_storable(inbound)
        session = session_key(self.settings.agent.name, inbound)
        self.pipeline.check(inbound, session)
        claim_on_accept = self.pipeline.claim_on_accept(inbound, session) if self.ready else None
        return await self._store.accept(inbound, session, then, claim_on_accept)

    async def say(self, inbound: Inbound, session: str) -> Accepted:
        """Accept an extension's own words for a session: they are said in their turn, whatever happens meanwhile."""
        return await self._store.accept(make_storable(inbound), session, self._submit)

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
        find_run = self.pipeline.find_run  # none: it waits to enter the pipeline
        return sum(
            self.stop_message(each.inbound_id, "taken out of the line")
            for each in self.queue(session)
            if each.state == "waiting" or (each.state == "running" and find_run(each.inbound_id) is None)
        )

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
        return await self._undo.undo(accepted, is_owner=is_owner, again=again)

    def count_waiting(self, session: str) -> int:
        """Messages of a session that have no answer yet."""
        return self._lanes.count(session)

    def observe(self, observer: Observer) -> Callable[[], None]:
        return self.events.observe(observer)

    async def idle(self) -> None:
        """Wait until no message is in the pipeline and every outbox item that can be sent has been."""
        await self._engine.idle()
        await self._sender.idle()

    async def start(self) -> None:
        limits = self.settings.pipeline
        recovery = Recovery(
            self._store,
            self._sender,
            self._clock,
            max_attempts=limits.max_attempts,
            expire_after_s=limits.expire_after_s,
        )
        await self.options.load()
        await recovery.run(self.pipeline.give_up, self._engine, self.pipeline.is_stop)
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

    async def has_session(self, key: str) -> bool:
        page = await self._store.sessions(500, containing=key)
        while page.after is not None and all(session.key != key for session in page.items):
            page = await self._store.sessions(500, page.after, key)
        return any(session.key == key for session in page.items)

    async def messages(self, session: str) -> Sequence[Message]:
        return await self._store.messages(session)

    async def facts(self, session: str) -> Sequence[SessionFact]:
        return await self._store.facts(session)

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

    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[IntegrityFinding]:
        return await self._store.repair(session, dry_run=dry_run)

    async def prune(self, older_than: timedelta, *, dry_run: bool = False) -> Pruned:
        pruned = await self._store.prune(self._clock.now() - older_than, dry_run=dry_run)
        if pruned.sessions and not dry_run:
            self._recent.clear()  # a new session with the name of a removed one counts its versions from the beginning
            await self.options.load()
        return pruned

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        return await self._eraser.erase_session(session, dry_run=dry_run)

    async def forget_person(self, person: SenderId, *, dry_run: bool = False) -> Erased:
        return await self._eraser.forget_person(person, dry_run=dry_run)

    def _drop_sessions(self, sessions: Sequence[str]) -> None:
        """Drop what memory holds of erased sessions, and the answers to them that wait to be sent."""
        for session in sessions:
            self._recent.forget(session)
            self.options.drop(session)
        self._sender.drop(sessions)
        self.events.emit(SessionsErased(sessions=tuple(sessions)))

    async def prepare_backup(self) -> str:
        return await copy_for_backup(self._store, self.settings.state)

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


async def _pass_on(ctx: DeliveryContext) -> Outbound:
    """The core of the delivery ring: what leaves it is checked, split and frozen by the deliver stage."""
    return ctx.outbound
