"""The composition root: `build(settings)` makes all parts of a gateway, in the order in which they need each other.

First the core, which needs no extension; then the extensions, which may use the core; then the agent and the pipeline,
which use what the extensions have registered; and the `App` from all of them.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial

from msgspec import Struct

from finclaw.agent.agent import Agent
from finclaw.agent.budget.budget import open_budget
from finclaw.agent.tool_results import OverflowResults
from finclaw.app import App, GatewayCore, GatewayParts
from finclaw.approvals.announce import Announcer
from finclaw.approvals.approvals import Approvals
from finclaw.builtins.delegate import CHANNEL as DELEGATED
from finclaw.channels.mailbox import MailboxChannel
from finclaw.clock import SystemClock
from finclaw.composition.agent import make_agent
from finclaw.composition.channels import allow_lists, debounce_pauses, open_channel
from finclaw.composition.extensions import BuiltinServices, builtin_extensions, command_overrides, find_configured
from finclaw.config.routes import ModelRoutes, chosen_model, learn_windows
from finclaw.config.schema import Settings
from finclaw.delivery.outbox import OrderedSender
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ExtensionError, SessionError
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import Services
from finclaw.fetch.fetchers import open_fetchers
from finclaw.finance.calendar import TableCalendar
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import Emit, Observer, SessionsErased, StoreHealthChanged
from finclaw.kernel.extension import Extension
from finclaw.kernel.middleware import compose
from finclaw.kernel.person import Person
from finclaw.kernel.port import Channel, Clock, Provider
from finclaw.kernel.scope import DeliveryContext
from finclaw.kernel.store_port import Store
from finclaw.pipeline.accept import Acceptance, accept_for_extension
from finclaw.pipeline.ack import Ack
from finclaw.pipeline.command import STOP, Commands, CommandServices
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.deliver import Deliver
from finclaw.pipeline.dispatch import Dispatch
from finclaw.pipeline.early_delivery import EarlyDelivery, EarlyOptions
from finclaw.pipeline.engine import LocalEngine, Watchdog
from finclaw.pipeline.gate import Gate, MarketHours
from finclaw.pipeline.message_run import MessageRuns
from finclaw.pipeline.persons import Chats, PersonService, ReplyLanguages, open_directory
from finclaw.pipeline.pipeline import Pipeline, Stages, Traffic
from finclaw.pipeline.recovery import CrashIsolation, Recovery
from finclaw.pipeline.stops import Revisions, SessionStops, TurnUndo
from finclaw.policy import Consent
from finclaw.sessions.carried_over import KeptOptions, SessionOpening
from finclaw.sessions.lane import Lanes, WaitingLimit
from finclaw.sessions.pool import Pools
from finclaw.sessions.waiting import Debounce, LaneWaiting, make_pause
from finclaw.storage.blobs.directory import BLOBS, BlobDirectory
from finclaw.storage.kinds import open_kind
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase
from finclaw.transcript.conversation import RecentConversations
from finclaw.upkeep.stored_data import Upkeep


@asynccontextmanager
async def build(  # noqa: PLR0913  everything that a test or a program may bring along
    settings: Settings,
    *,
    channels: Sequence[Channel] = (),
    provider: Provider | None = None,
    extensions: Sequence[Extension] = (),
    consent: Consent | None = None,
    observers: Sequence[Observer] = (),
    clock: Clock | None = None,
    open_store: Callable[..., Store] = open_kind,
    threaded: bool = True,
) -> AsyncGenerator[App]:
    """Start a gateway on the settings' state directory, and stop it gracefully at the end of the block.

    What is brought along is used instead of what the settings name, such as a fake in a test.
    `consent` asks a person at once, instead of an approval that waits for one.
    `observers` see everything from the first recovered message on; `App.observe` comes after those.
    `threaded=False` commits on the event loop, the same way every time. Raises ConfigError (StateBusy: another
    gateway is there), ExtensionError, StoreFailed or StoreCorrupt.
    """
    clock = clock or SystemClock()
    if provider is None:
        settings = _with_a_turn_for_each_message(settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(StateLock(settings.state))
        events = EventStream()
        for observer in observers:
            events.observe(observer)
        store = open_store(settings.storage.kind, settings.state, clock, events.emit, threaded=threaded)
        stack.push_async_callback(store.close)
        read_blob = BlobDirectory(settings.state / BLOBS).read
        routes = ModelRoutes(settings if provider else await learn_windows(settings), provider, clock, read_blob)
        stack.push_async_callback(routes.close)
        given = (MailboxChannel("api"), MailboxChannel(DELEGATED), *channels)
        for channel in given:
            stack.push_async_callback(channel.close)

        core = await _make_core(settings, clock, events, store, routes, given)
        overflow = OverflowResults(store.recall, store.remember)
        gateway = GatewayHandle()
        registrar = Registrar(events, _extension_services(core, threaded=threaded), command_overrides(settings))
        stack.push_async_callback(registrar.close)
        registrar.load(builtin_extensions(settings, registrar, _builtin_services(core, gateway, overflow)))
        registrar.load(find_configured(settings, extensions))
        registrar.load(extensions)
        registrar.check_commands()
        for name in settings.channels:
            channel = open_channel(name, settings, registrar, clock, store)
            stack.push_async_callback(channel.close)
            core.channels.setdefault(name, channel)

        budget = await open_budget(settings.budget, [route.model for route in routes.default], store, clock)
        agent = make_agent(core, registrar, budget, overflow, consent)
        gateway.app = app = App(core, _make_parts(core, registrar, agent))
        stack.push_async_callback(app.stop)
        await store.sweep_blobs()
        await app.start()
        yield app


def _with_a_turn_for_each_message(settings: Settings) -> Settings:
    """Return the settings for the offline assistant, which reads one question per turn and would lose others."""
    sessions = settings.sessions
    if sessions.queue.mode != "auto" or not chosen_model(settings).startswith("offline/"):
        return settings
    channels = {name: replace(each, debounce_ms=each.debounce_ms or 0) for name, each in settings.channels.items()}
    queue = replace(sessions.queue, mode="followup")
    return replace(settings, sessions=replace(sessions, queue=queue), channels=channels)


async def _make_core(
    settings: Settings,
    clock: Clock,
    events: EventStream,
    store: Store,
    routes: ModelRoutes,
    channels: Sequence[Channel],
) -> GatewayCore:
    agent = settings.agent.name
    by_name = {channel.name: channel for channel in channels}
    people = settings.everybody()
    directory = await open_directory(store, people)
    chats = Chats(agent, store, by_name, directory)
    lanes = Lanes()
    runs = MessageRuns()
    isolation = CrashIsolation()
    engine = LocalEngine(runs, lanes, isolation, events.emit, clock)
    sender = OrderedSender(store, by_name, clock, events.emit, engine.submit)
    announcer = Announcer(events.emit, agent)
    prefix = settings.command_prefix
    approvals = Approvals(store, people, settings.approvals, clock, engine.submit, chats, announcer, prefix)
    store.watch_writes(partial(_report_store_health, events.emit, agent))
    return GatewayCore(
        settings=settings,
        clock=clock,
        events=events,
        store=store,
        routes=routes,
        channels=by_name,
        people=people,
        directory=directory,
        persons=PersonService(store, people, directory),
        chats=chats,
        options=KeptOptions(store, routes.pick),
        recent=RecentConversations(),
        lanes=lanes,
        runs=runs,
        isolation=isolation,
        engine=engine,
        sender=sender,
        stops=SessionStops(store, runs, engine, sender, clock),
        approvals=approvals,
    )


def _report_store_health(emit: Emit, agent: str, failure: SessionError | None) -> None:
    why = "" if failure is None else getattr(failure, "why", "failed")
    emit(StoreHealthChanged(why=why, agent=agent))


class GatewayHandle(Struct):
    """The gateway for its built-in extensions, which are loaded before it is complete."""

    app: App | None = None

    def get(self) -> App:
        if self.app is None:
            raise ExtensionError("the gateway is not complete yet; ask it while a message is handled")
        return self.app


def _extension_services(core: GatewayCore, *, threaded: bool) -> Services:
    accept = partial(accept_for_extension, core.store, core.engine)
    return Services(
        recall=core.store.recall,
        remember=core.store.remember,
        accept=accept,
        database=partial(ExtensionDatabase, core.settings.state / EXTENSIONS, threaded=threaded),
        fetcher=open_fetchers(),
        put_blob=core.store.put_blob,
        clock=core.clock,
        find_chat=partial(core.chats.find_session, persons=core.store),
        start_turn=accept,
    )


def _builtin_services(core: GatewayCore, gateway: GatewayHandle, overflow: OverflowResults) -> BuiltinServices:
    return BuiltinServices(
        gateway=gateway.get,
        approvals=lambda: core.approvals,
        overflow=overflow,
        clock=core.clock,
        person=core.directory.find,
        person_by_id=core.directory.get,
        options=core.options.find,
        find_model=core.routes.find_model,
        waiting=core.lanes.count,
        save_person=core.persons.save,
        channel=core.chats.capabilities,
    )


def _make_parts(core: GatewayCore, registrar: Registrar, agent: Agent) -> GatewayParts:
    settings = core.settings
    commands = _make_commands(core, registrar)
    pause = make_pause(debounce_pauses(settings, core.channels), commands.may_know)
    debounce = Debounce(core.clock, pause, core.options.carried_over.may_answer)
    limits = settings.pipeline
    pools = Pools({"main": limits.pools.main, "cron": limits.pools.cron, "subagent": limits.pools.subagent})
    dispatch = _make_dispatch(core, registrar, agent, pools, debounce)
    gate = Gate(require_mention=limits.require_mention, people=core.people, heard=allow_lists(settings))
    hours = MarketHours(TableCalendar(), core.directory, core.clock) if limits.respect_market_hours else None
    stages = Stages(
        gate=gate,
        commands=commands,
        ack=Ack(limits.ack, core.clock, enabled=limits.enable_ack),
        contexts=Contexts(agent.name, core.channels, core.store, core.clock, core.directory),
        dispatch=dispatch,
        agent=agent,
        deliver=_make_deliver(core, registrar),
        languages=ReplyLanguages(core.store, core.directory, settings.command_prefix),
        revisions=Revisions(core.store, core.engine, core.stops),
        hours=hours,
    )
    emit = core.events.emit
    stop = partial(core.runs.stop, by="watchdog")
    watchdog = Watchdog(core.clock, emit, stop, warn_s=limits.stall_warn_s, abort_s=limits.stall_abort_s)
    core.events.observe(watchdog.observe)
    limit = WaitingLimit(core.lanes, limits.max_waiting)
    traffic = Traffic(runs=core.runs, lanes=core.lanes, limit=limit, isolation=core.isolation, debounce=debounce)
    layers = registrar.layers("message")
    return GatewayParts(
        registrar=registrar,
        agent=agent,
        pools=pools,
        acceptance=Acceptance(core.store, core.engine, stages, traffic, limits),
        pipeline=Pipeline(limits, stages, layers, core.store, traffic, core.channels, core.clock, emit),
        undo=TurnUndo(core.store, core.runs, dispatch.claim, core.sender, core.clock),
        recovery=Recovery(
            core.store,
            core.sender,
            core.clock,
            commands.is_stop,
            max_attempts=limits.max_attempts,
            expire_after_s=limits.expire_after_s,
        ),
        watchdog=watchdog,
        upkeep=Upkeep(core.store, core.clock, settings.state, lambda: nullcontext(registrar), _CoreMemory(core)),
    )


def _make_commands(core: GatewayCore, registrar: Registrar) -> Commands:
    settings = core.settings
    services = CommandServices(
        persons=core.directory,
        clock=core.clock,
        put_blob=core.store.put_blob,
        options=core.options,
        find_model=core.routes.find_model,
        layer_commands=registrar.layer_commands,
        directive_roles=settings.commands.directives,
        disabled=registrar.disabled_commands,
        suggest=settings.commands.suggest,
    )
    return Commands(settings.command_prefix, registrar.commands, services)


def _make_dispatch(core: GatewayCore, registrar: Registrar, agent: Agent, pools: Pools, debounce: Debounce) -> Dispatch:
    settings = core.settings
    waiting = LaneWaiting(
        core.lanes,
        core.clock,
        settings.sessions.queue,
        {name: channel.queue for name, channel in settings.channels.items()},
        core.runs.interrupt,
        debounce,
        core.options.carried_over,
    )
    opening = SessionOpening(core.store, core.recent, core.clock, settings.sessions, core.options)
    reserve = agent.reserve_first_call
    return Dispatch(core.store, waiting, pools, opening, core.clock, reserve, registrar.fields, core.directory)


def _make_deliver(core: GatewayCore, registrar: Registrar) -> Deliver:
    settings = core.settings
    ring = compose("delivery", registrar.layers("delivery"), _pass_on, Outbound)
    checks = tuple(registrar.checks)
    has_stop = STOP not in registrar.disabled_commands
    options = EarlyOptions(
        pauses={name: each.pause_ms for name, each in settings.channels.items() if each.pause_ms is not None},
        stop_command=f"{settings.command_prefix}{STOP}" if has_stop else "",
    )
    early = EarlyDelivery(core.store, ring, core.sender, core.channels, core.clock, checks, settings.pipeline, options)
    return Deliver(core.store, core.recent, early)


async def _pass_on(ctx: DeliveryContext) -> Outbound:
    """The core of the delivery ring: what leaves it is checked, split and frozen by the deliver stage."""
    return ctx.outbound


class _CoreMemory:
    def __init__(self, core: GatewayCore) -> None:
        self._core = core

    def drop_sessions(self, sessions: Sequence[str]) -> None:
        """Drop erased sessions, and the answers to them that wait to be sent."""
        core = self._core
        for session in sessions:
            core.recent.forget(session)
            core.options.drop(session)
        core.sender.drop(sessions)
        core.events.emit(SessionsErased(sessions=tuple(sessions)))

    async def drop_person(self, person: Person) -> None:
        await self._core.persons.drop(person)

    async def drop_pruned(self) -> None:
        self._core.recent.clear()  # a new session with a removed one's name counts its versions from the beginning
        await self._core.options.load()
