"""The composition root: `build(settings)` puts the house together, in the order in which a message walks it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from finclaw.agent.prompt import system_prompt
from finclaw.agent.turn import Abilities, Agent, AgentLayers
from finclaw.builtins.basics import Basics
from finclaw.channels.mailbox import MailboxChannel
from finclaw.channels.supervisor import keep_receiving
from finclaw.config.schema import Settings
from finclaw.delivery.outbox import OrderedSender
from finclaw.errors import ConfigError, SessionError
from finclaw.finance.extension import Finance
from finclaw.finance.market import DemoMarket
from finclaw.kernel.chunk import Model
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.event import EventStream, Observer
from finclaw.kernel.extension import Extension
from finclaw.kernel.middleware import compose
from finclaw.kernel.port import Channel, Clock, Provider, Store
from finclaw.kernel.record import Accepted, Counts, InboundRecord, TurnRecord
from finclaw.kernel.scope import DeliveryContext, Outcome, StageEntry
from finclaw.pipeline.accept import storable
from finclaw.pipeline.ack import Ack
from finclaw.pipeline.command import Commands
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.deliver import Deliver
from finclaw.pipeline.dispatch import Dispatch
from finclaw.pipeline.engine import LocalEngine
from finclaw.pipeline.gate import Gate
from finclaw.pipeline.journal import STAGES
from finclaw.pipeline.pipeline import Pipeline, Stages
from finclaw.pipeline.recovery import Recovery
from finclaw.pipeline.registrar import Registrar
from finclaw.providers.offline import OfflineProvider
from finclaw.routing.session_key import session_key
from finclaw.sessions.conversation import RecentConversations
from finclaw.sessions.lane import Lanes
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.sqlite.store import open_store
from finclaw.storage.state_lock import StateLock
from finclaw.tools.policy import Consent, nobody

STOP_GRACE: Final = 5.0
"""Seconds that messages on the road get when the gateway stops; the rest is taken up at the next start."""
SEND_GRACE: Final = 1.0
"""Seconds for answers after that. With 2 s for a tool that will not stop and 1 s for the last send, all within 10."""


@asynccontextmanager
async def build(
    settings: Settings,
    *,
    channels: Sequence[Channel] = (),
    provider: Provider | None = None,
    extensions: Sequence[Extension] = (),
    consent: Consent = nobody,
    observers: Sequence[Observer] = (),
    clock: Clock | None = None,
    threaded: bool = True,
) -> AsyncGenerator["App"]:
    """Start a gateway on the settings' state directory and stop it in good order at the end of the block.

    What is brought along is used instead of what the settings name: fakes in tests, a channel of one's own.
    `observers` see everything from the first recovered message on; `App.observe` comes after those.
    `threaded=False` commits on the event loop, the same way every time. Raises ConfigError (StateBusy: another
    gateway is there), ExtensionError, StoreFailed or StoreCorrupt.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as house:
        house.enter_context(StateLock(settings.state))
        store = open_store(settings.state / DATABASE, clock, threaded=threaded)
        house.push_async_callback(store.close)

        provider = provider or _provider(settings)
        house.push_async_callback(provider.close)
        doors = {channel.name: channel for channel in (MailboxChannel("api"), *channels)}
        for channel in doors.values():
            house.push_async_callback(channel.close)

        events = EventStream()
        for observer in observers:
            events.observe(observer)
        registrar = Registrar(events)
        registrar.load(_extensions(settings, registrar, store, clock))
        registrar.load(extensions)
        for close in registrar.closers:
            house.push_async_callback(close)

        agent = _agent(settings, registrar, provider, clock, consent)
        app = App(settings, registrar, store, agent, doors, clock)
        house.push_async_callback(app.stop)
        await app.start()
        yield app


class App:
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
        self.settings = settings
        self.events = registrar.events
        self.ready = False
        self._store = store
        self._channels = channels
        self._clock = clock
        self._receivers: list[asyncio.Task[None]] = []
        emit = self.events.emit
        self._lanes = lanes = Lanes()
        recent = RecentConversations()
        self._sender = OrderedSender(store, channels, clock, emit, submit=self._submit)
        stages = Stages(
            gate=Gate(require_mention=settings.pipeline.require_mention),
            commands=Commands(settings.pipeline.command_prefix, registrar.commands),
            ack=Ack(enabled=settings.pipeline.enable_ack),
            contexts=Contexts(agent.name, channels),
            dispatch=Dispatch(store, lanes, recent, clock),
            agent=agent,
            deliver=Deliver(
                store,
                compose("delivery", registrar.layers("delivery"), _as_it_is, Outbound),
                self._sender,
                channels,
                recent,
                clock,
            ),
        )
        self.pipeline = Pipeline(
            settings.pipeline, stages, registrar.layers("message"), store, lanes, channels, clock, emit
        )
        self._engine = LocalEngine(self.pipeline, lanes, emit)

    def _submit(self, accepted: Accepted) -> None:
        self._engine.submit(accepted)

    @property
    def market(self) -> str:
        return self.settings.market

    async def handle(self, inbound: Inbound) -> Outcome:
        """Accept a message and wait for its outcome. One that was handled before gives the outcome it had."""
        ended: asyncio.Future[Outcome] | None = None

        def begin(accepted: Accepted) -> None:
            nonlocal ended
            ended = self._engine.ended(accepted.id)
            self._submit(accepted)

        accepted = await self._accept(inbound, begin)
        if ended is None:  # it was handled before, or is being handled
            record = await self.wait(accepted.id, float("inf"))
            outcome = None if record is None else record.outcome
        else:
            await asyncio.wait([ended])
            outcome = None if ended.cancelled() else ended.result()
        if outcome is None:
            raise SessionError(f"the gateway stopped before message {accepted.id} ended; its next start takes it up")
        return outcome

    async def accept(self, inbound: Inbound) -> Accepted:
        """Returns when the message is on disk; from then on it will be answered, whatever happens to this process."""
        return await self._accept(inbound, self._submit)

    async def _accept(self, inbound: Inbound, then: Callable[[Accepted], None]) -> Accepted:
        inbound = storable(inbound)
        return await self._store.accept(inbound, session_key(self.settings.agent.name, inbound), then)

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
            self._engine.forget(inbound_id)
            return record
        await asyncio.wait([ended], timeout=None if seconds == float("inf") else max(0.0, seconds))
        return await self._store.find(inbound_id)

    async def turns(self, limit: int) -> Sequence[TurnRecord]:
        return await self._store.turns(limit)

    async def counts(self) -> Counts:
        return await self._store.counts()

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
        self.ready = True

    async def stop(self) -> None:
        """In the order of the road: no more messages in, those on it through, their answers out."""
        self.ready = False
        for receiver in self._receivers:
            receiver.cancel()
        await asyncio.gather(*self._receivers, return_exceptions=True)
        await self._engine.stop(STOP_GRACE)
        await self._sender.stop(SEND_GRACE)


# ── what the settings name ──────────────────────────────────────────────────────────────────────────────────────────


def _provider(settings: Settings) -> Provider:
    name = settings.agent.model.partition("/")[0]
    if name != "offline":
        raise ConfigError(f"agent.model names the provider {name!r}, which is not there; use 'offline/demo'")
    return OfflineProvider()


def _extensions(settings: Settings, registrar: Registrar, store: Store, clock: Clock) -> tuple[Extension, ...]:
    """Ours, in the order of their layers: first is outermost."""
    return (
        Basics(settings.pipeline.command_prefix, lambda: registrar.commands, store.reset),
        Finance(DemoMarket(clock)),
    )


def _agent(settings: Settings, registrar: Registrar, provider: Provider, clock: Clock, consent: Consent) -> Agent:
    name, _, model = settings.agent.model.partition("/")
    abilities = Abilities(
        provider=provider,
        model=Model(name, model),
        tools=registrar.tools,
        consent=consent,
        system=system_prompt(registrar.sections, settings.agent.instructions),
    )
    layers = AgentLayers(
        turn=registrar.layers("turn"), step=registrar.layers("step"), tool_call=registrar.layers("tool_call")
    )
    return Agent(settings.agent, abilities, layers, clock)


async def _as_it_is(ctx: DeliveryContext) -> Outbound:
    """The core of the delivery ring: what leaves it is checked, split and frozen by the deliver stage."""
    return ctx.outbound
