"""The pipeline of a gateway: its stages, with what the settings say and what the extensions have registered."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from finclaw.agent.agent import Agent
from finclaw.app import GatewayCore, GatewayParts
from finclaw.composition.channels import allow_lists, debounce_pauses
from finclaw.extensions.registrar import Registrar
from finclaw.finance.calendar import TableCalendar
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import SessionsErased
from finclaw.kernel.middleware import compose
from finclaw.kernel.person import Person
from finclaw.kernel.scope import DeliveryContext
from finclaw.pipeline.ack import Ack
from finclaw.pipeline.command import STOP, Commands, CommandServices
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.deliver import Deliver
from finclaw.pipeline.dispatch import Dispatch
from finclaw.pipeline.early_delivery import EarlyDelivery, EarlyOptions
from finclaw.pipeline.engine import Watchdog
from finclaw.pipeline.gate import Gate, MarketHours
from finclaw.pipeline.persons import ReplyLanguages
from finclaw.pipeline.pipeline import Pipeline, Stages, Traffic
from finclaw.pipeline.recovery import Recovery
from finclaw.pipeline.stops import Revisions, TurnUndo
from finclaw.sessions.conversation import SessionOpening
from finclaw.sessions.debounce import Debounce, make_pause
from finclaw.sessions.lane import WaitingLimit
from finclaw.sessions.pool import Pools
from finclaw.sessions.waiting import LaneWaiting
from finclaw.upkeep.stored_data import Upkeep


def make_parts(core: GatewayCore, registrar: Registrar, agent: Agent) -> GatewayParts:
    """Make what a gateway consists of beside its core, the agent and the extensions."""
    settings = core.settings
    commands = _make_commands(core, registrar)
    debounce = _make_debounce(core, commands)
    pools = _make_pools(core)
    dispatch = _make_dispatch(core, registrar, agent, pools, debounce)
    gate = Gate(require_mention=settings.pipeline.require_mention, people=core.people, heard=allow_lists(settings))
    stages = Stages(
        gate=gate,
        commands=commands,
        ack=Ack(settings.pipeline.ack, core.clock, enabled=settings.pipeline.enable_ack),
        contexts=Contexts(agent.name, core.channels, core.store, core.clock, core.directory),
        dispatch=dispatch,
        agent=agent,
        deliver=_make_deliver(core, registrar),
        languages=ReplyLanguages(core.store, core.directory, settings.command_prefix),
        revisions=Revisions(core.store, core.engine, core.stops),
        hours=_make_market_hours(core),
    )
    limit = WaitingLimit(core.lanes, settings.pipeline.max_waiting)
    traffic = Traffic(runs=core.runs, lanes=core.lanes, limit=limit, isolation=core.isolation, debounce=debounce)
    layers = registrar.layers("message")
    emit = core.events.emit
    return GatewayParts(
        registrar=registrar,
        agent=agent,
        pools=pools,
        limit=limit,
        gate=gate,
        pipeline=Pipeline(settings.pipeline, stages, layers, core.store, traffic, core.channels, core.clock, emit),
        undo=TurnUndo(core.store, core.runs, dispatch.claim, core.sender, core.clock),
        recovery=_make_recovery(core),
        watchdog=_make_watchdog(core),
        upkeep=_make_upkeep(core, registrar),
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


def _make_debounce(core: GatewayCore, commands: Commands) -> Debounce:
    pauses = debounce_pauses(core.settings, core.channels)
    return Debounce(core.clock, make_pause(pauses, commands.may_know), core.options.carried_over.may_answer)


def _make_pools(core: GatewayCore) -> Pools:
    pools = core.settings.pipeline.pools
    return Pools({"main": pools.main, "cron": pools.cron, "subagent": pools.subagent})


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
    return Deliver(core.store, ring, core.sender, core.channels, core.recent, core.clock, checks, early)


async def _pass_on(ctx: DeliveryContext) -> Outbound:
    """The core of the delivery ring: what leaves it is checked, split and frozen by the deliver stage."""
    return ctx.outbound


def _make_market_hours(core: GatewayCore) -> MarketHours | None:
    if not core.settings.pipeline.respect_market_hours:
        return None
    return MarketHours(TableCalendar(), core.directory, core.clock)


def _make_recovery(core: GatewayCore) -> Recovery:
    limits = core.settings.pipeline
    return Recovery(
        core.store,
        core.sender,
        core.clock,
        max_attempts=limits.max_attempts,
        expire_after_s=limits.expire_after_s,
    )


def _make_watchdog(core: GatewayCore) -> Watchdog:
    limits = core.settings.pipeline
    stop = partial(core.runs.stop, by="watchdog")
    watchdog = Watchdog(core.clock, core.events.emit, stop, warn_s=limits.stall_warn_s, abort_s=limits.stall_abort_s)
    core.events.observe(watchdog.observe)
    return watchdog


def _make_upkeep(core: GatewayCore, registrar: Registrar) -> Upkeep:
    return Upkeep(core.store, core.clock, core.settings.state, lambda: nullcontext(registrar), _CoreMemory(core))


class _CoreMemory:
    """What the parts of the core hold in memory of stored data."""

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
