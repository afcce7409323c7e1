"""The composition root: `build(settings)` puts the house together, in the order in which a message walks it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from finclaw.agent.asides import Asides
from finclaw.agent.purse import Cashier, open_cashier
from finclaw.agent.turn import Abilities, Agent, AgentLayers
from finclaw.builtins.delegate import CHANNEL as DELEGATED
from finclaw.channels.mailbox import MailboxChannel
from finclaw.channels.supervisor import keep_receiving
from finclaw.config.routes import Routes, chosen_model
from finclaw.config.schema import Settings
from finclaw.config.windows import learn_windows
from finclaw.delivery.outbox import OrderedSender
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import SessionError
from finclaw.kernel.cancel import until_done
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.event import Observer
from finclaw.kernel.extension import Extension
from finclaw.kernel.middleware import compose
from finclaw.kernel.port import Channel, Clock, Provider
from finclaw.kernel.record import Accepted, InboundRecord
from finclaw.kernel.scope import DeliveryContext, Outcome, StageEntry
from finclaw.kernel.store_port import Store
from finclaw.ours import House, find_configured, our_own
from finclaw.pipeline.accept import storable
from finclaw.pipeline.ack import Ack
from finclaw.pipeline.chats import Chats
from finclaw.pipeline.command import Commands
from finclaw.pipeline.consents import Consents
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.deliver import Deliver
from finclaw.pipeline.dispatch import Dispatch
from finclaw.pipeline.engine import LocalEngine
from finclaw.pipeline.forgetting import Forgetting, drop_copies
from finclaw.pipeline.gate import Gate
from finclaw.pipeline.journal import STAGES
from finclaw.pipeline.pipeline import Pipeline, Stages
from finclaw.pipeline.prompt import agent_prompt
from finclaw.pipeline.records import Records
from finclaw.pipeline.recovery import Recovery
from finclaw.pipeline.recurring import RecurringTasks
from finclaw.pipeline.registered import Services
from finclaw.pipeline.registrar import Registrar
from finclaw.pipeline.watchdog import Watchdog
from finclaw.routing.session_key import session_key
from finclaw.sessions.conversation import RecentConversations
from finclaw.sessions.lane import Lanes
from finclaw.sessions.pool import Pools
from finclaw.storage.kinds import open_kind
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase
from finclaw.storage.state_lock import StateLock
from finclaw.tools.approval.announce import Announcer
from finclaw.tools.approval.approvals import Approvals
from finclaw.tools.approval.watch import ApprovalWatch
from finclaw.tools.guard.choice import GuardChoice
from finclaw.tools.policy import Consent
from finclaw.tools.policy.known import must_know
from finclaw.tools.policy.policy import Policy

log = logging.getLogger(__name__)

STOP_GRACE: Final = 5.0
"""Seconds that messages on the road get when the gateway stops; the rest is taken up at the next start."""
SEND_GRACE: Final = 1.0
"""Seconds for answers after that. With 2 s for a tool that will not stop and 1 s for the last send, all within 10."""


@asynccontextmanager
async def build(  # noqa: PLR0913  all that a test or a program of one's own may bring along
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
) -> AsyncGenerator["App"]:
    """Start a gateway on the settings' state directory and stop it in good order at the end of the block.

    What is brought along is used instead of what the settings name: fakes in tests, a channel of one's own.
    `consent` asks a person at once, instead of an approval that waits for one.
    `observers` see everything from the first recovered message on; `App.observe` comes after those.
    `threaded=False` commits on the event loop, the same way every time. Raises ConfigError (StateBusy: another
    gateway is there), ExtensionError, StoreFailed or StoreCorrupt.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as house:
        house.enter_context(StateLock(settings.state))
        events = EventStream()
        for observer in observers:
            events.observe(observer)
        store = open_store(settings.storage.kind, settings.state, clock, events.emit, threaded=threaded)
        house.push_async_callback(store.close)

        routes = Routes(settings if provider else await learn_windows(settings), provider, clock)
        house.push_async_callback(routes.close)
        inner = (MailboxChannel("api"), MailboxChannel(DELEGATED))
        doors = {channel.name: channel for channel in (*inner, *channels)}
        for channel in doors.values():
            house.push_async_callback(channel.close)

        services = Services(
            recall=store.recall,
            remember=store.remember,
            accept=lambda inbound, session: app.say(inbound, session),  # noqa: PLW0108  the app is yet to be
            database=partial(ExtensionDatabase, settings.state / EXTENSIONS, threaded=threaded),
            clock=clock,
        )
        registrar = Registrar(events, services)
        house.push_async_callback(registrar.close)
        asides = Asides(store.recall, store.remember)
        house_of_ours = House(
            reset=store.reset, gateway=lambda: app, approvals=lambda: app.consents, asides=asides, clock=clock
        )
        registrar.load(our_own(settings, registrar, house_of_ours))
        registrar.load(find_configured(settings, extensions))
        registrar.load(extensions)

        cashier = await open_cashier(settings.budget, [route.model for route in routes.default], store, clock)
        guards = Guards(_policy(settings, registrar), consent, lambda: app.consents, asides)
        agent = _agent(settings, registrar, routes, clock, guards, cashier)
        app = App(settings, registrar, store, agent, doors, clock)
        house.push_async_callback(app.stop)
        await app.start()
        yield app


class App(Consents, Records):
    """A running gateway. Made by `build`; everything a door may ask of it is here."""

    def __init__(
        self,
        settings: Settings,
        registrar: Registrar,
        store: Store,
        agent: Agent,
        channels: Mapping[str, Channel],
        clock: Clock,
    ) -> None:
        recent = RecentConversations()
        super().__init__(store, recent, clock, agent.name, settings.budget.agent_day_usd)
        self.settings = settings
        self.events = registrar.events
        self.ready = False
        self._channels, self._receivers = channels, list[asyncio.Task[None]]()
        emit = self.events.emit
        self._lanes = lanes = Lanes()
        pools = settings.pipeline.pools
        self._pools = Pools({"main": pools.main, "cron": pools.cron, "subagent": pools.subagent})
        self._sender = OrderedSender(store, channels, clock, emit, submit=self._submit)
        self.forgetting = Forgetting(store, registrar, settings.state, drop_copies(recent, self._sender, emit))
        people, chats = settings.everybody(), Chats(agent.name, store, channels)
        prefix, told = settings.pipeline.command_prefix, Announcer(emit, agent.name)
        self.consents = Approvals(store, people, settings.approvals, clock, self._submit, chats, told, prefix)
        stages = Stages(
            gate=Gate(require_mention=settings.pipeline.require_mention, people=people),
            commands=Commands(prefix, registrar.commands),
            ack=Ack(enabled=settings.pipeline.enable_ack),
            contexts=Contexts(agent.name, channels),
            dispatch=Dispatch(store, lanes, self._pools, recent, clock, agent.reserve_first_call, registrar.fields),
            agent=agent,
            deliver=Deliver(
                store,
                compose("delivery", registrar.layers("delivery"), _as_it_is, Outbound),
                self._sender,
                channels,
                recent,
                clock,
                registrar.checks,
            ),
        )
        self.pipeline = Pipeline(
            settings.pipeline, stages, registrar.layers("message"), store, lanes, channels, clock, emit
        )
        self._engine = LocalEngine(self.pipeline, lanes, emit)
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
        self.model = chosen_model(settings)

    def _submit(self, accepted: Accepted) -> None:
        self._engine.submit(accepted)

    @property
    def market(self) -> str:
        return self.settings.market

    async def handle(self, inbound: Inbound) -> Outcome:
        """Accept a message and wait for its outcome. One that was handled before gives the outcome it had."""
        ended: list[asyncio.Future[Outcome | None]] = []

        def begin(accepted: Accepted) -> None:
            self._submit(accepted)
            ended.append(self._engine.ended(accepted.id))

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

    async def _accept(self, inbound: Inbound, then: Callable[[Accepted], None]) -> Accepted:
        inbound = storable(inbound)
        session = session_key(self.settings.agent.name, inbound)
        self.pipeline.check(inbound, session)
        head_start = self.pipeline.head_start(inbound, session) if self.ready else None
        return await self._store.accept(inbound, session, then, head_start)

    async def say(self, inbound: Inbound, session: str) -> Accepted:
        """Accept an extension's own words for a session: they are said in their turn, whatever happens meanwhile."""
        return await self._store.accept(storable(inbound), session, self._submit)

    async def run_stage(self, name: str, inbound: Inbound) -> StageEntry:
        """Look at one stage of the road alone, in a test: what it made of this message (see `Pipeline.run_stage`)."""
        if name not in STAGES:
            raise ValueError(f"there is no stage {name!r}; the stages are {', '.join(STAGES)}")
        accepted = await self._accept(inbound, self._expect)
        return await self.pipeline.run_stage(name, accepted)

    def _expect(self, accepted: Accepted) -> None:
        self._lanes.expect(accepted.session, accepted.ticket)

    async def wait(self, inbound_id: str, seconds: float) -> InboundRecord | None:
        """The record, as soon as the message has ended or the seconds have passed. None: no such message."""
        ended = self._engine.ended(inbound_id)
        record = await self._store.find(inbound_id)
        if record is None or record.outcome is not None:
            return record
        await until_done(ended, None if seconds == float("inf") else max(0.0, seconds))
        return await self._store.find(inbound_id)

    def stop_message(self, inbound_id: str, reason: str = "stopped by the person") -> bool:
        """Stop a message that waits for its turn or is being answered. False: it is not, or its answer exists."""
        return self.pipeline.stop(inbound_id, reason, by="person")

    def observe(self, observer: Observer) -> Callable[[], None]:
        return self.events.observe(observer)

    async def idle(self) -> None:
        """Wait until no message is on the road and every unit that can be sent has been."""
        await self._engine.idle()
        await self._sender.idle()

    async def start(self) -> None:
        await Recovery(self.settings.pipeline, self._store, self._sender, self._clock).run(self.pipeline, self._engine)
        self._receivers = [
            asyncio.create_task(keep_receiving(channel, self.accept, self._clock), name=f"receive {name}")
            for name, channel in self._channels.items()
        ]
        self._recurring.start()
        self._watch.start()
        self.ready = True

    async def stop(self) -> None:
        """In the order of the road: no more messages in, those on it through, their answers out."""
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


# ── what the settings name ──────────────────────────────────────────────────────────────────────────────────────────


def _agent(
    settings: Settings,
    registrar: Registrar,
    routes: Routes,
    clock: Clock,
    guards: "Guards",
    cashier: Cashier | None,
) -> Agent:
    chosen, *fallbacks = routes.default
    abilities = Abilities(
        provider=chosen.provider,
        model=chosen.model,
        credential=chosen.credential,
        within=chosen.within,
        fallbacks=fallbacks,
        pick=routes.picked,
        cashier=cashier,
        tools=registrar.tools,
        policy=guards.policy,
        consent=guards.consent,
        approvals=guards.approvals,
        asides=guards.asides,
        guards=GuardChoice(settings.tools.guard, settings.tools.guards),
        show=settings.tools.show,
        system=agent_prompt(settings.agent, registrar, [route.model for route in routes.default]),
    )
    layers = AgentLayers(
        turn=registrar.layers("turn"), step=registrar.layers("step"), tool_call=registrar.layers("tool_call")
    )
    return Agent(settings.agent, abilities, layers, clock)


class Guards(NamedTuple):
    """What stands between the model's wish and a tool."""

    policy: Policy
    consent: Consent | None
    approvals: Callable[[], Approvals]
    asides: Asides


def _policy(settings: Settings, registrar: Registrar) -> Policy:
    """Raises ConfigError for a rule about a tool that is not there."""
    for warning in must_know(settings.tools.rules, registrar.tools.list()):
        log.warning("%s", warning)
    policy = Policy(settings.tools.rules)
    policy.prepare(tool.spec.name for tool in registrar.tools.list())
    return policy


async def _as_it_is(ctx: DeliveryContext) -> Outbound:
    """The core of the delivery ring: what leaves it is checked, split and frozen by the deliver stage."""
    return ctx.outbound
