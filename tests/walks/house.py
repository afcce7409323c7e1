"""One state directory and the gateways that live in it one after the other, all in virtual time."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import finclaw
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.agent.window.compaction.options import CompactionSettings
from finclaw.approvals.people import PersonSettings
from finclaw.approvals.settings import ApprovalSettings
from finclaw.cancellation import wait_shielded
from finclaw.channels.settings import ChannelSettings
from finclaw.config.schema import StorageSettings
from finclaw.kernel.envelope import Attachment, Capabilities
from finclaw.kernel.event import Event
from finclaw.kernel.extension import ExtensionApi, RingName
from finclaw.kernel.message import Message, ToolResult
from finclaw.kernel.port import Command, Tool
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import Outcome
from finclaw.pipeline.settings import CommandSettings, PipelineSettings
from finclaw.policy import Consent, nobody
from finclaw.policy.rule import Rule
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.storage.kinds import StoreKind, open_kind
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider, SimulatedCrash, crash_at
from finclaw.testing.provider import Line, Script
from finclaw.tools.settings import ToolsSettings

C = TypeVar("C")
AnyLayer = Callable[[Any], Awaitable[Any]]
AnyRegistration = tuple[RingName, AnyLayer] | tuple[RingName, AnyLayer, int]
"""A ring, a layer, and perhaps its priority."""

ALL_STAGES = ("normalize", "gate", "command", "ack", "context", "dispatch", "execute", "deliver")
FOREVER = float("inf")


A_TURN_EACH = SessionSettings(queue=QueueSettings(mode="followup"))
"""What a test of something else wants: no message joins another's turn."""
TRUSTING = (Rule("*", "allow"),)
"""What lifts the defaults of groups; what moves money still needs consent."""


@dataclass
class Parts:
    """An extension made of whatever a test wants to bring along."""

    layers: Sequence[AnyRegistration] = ()
    tools: Sequence[Tool] = ()
    commands: Sequence[Command] = ()
    name: str = "parts"

    def register(self, api: ExtensionApi) -> None:
        for ring, layer, *priority in self.layers:
            api.pipeline.register(ring, layer, priority=priority[0] if priority else 0)
        for tool in self.tools:
            api.tools.register(tool)
        for command in self.commands:
            api.commands.register(command)


@dataclass
class Gateway:
    """A running gateway with the fakes around it."""

    app: finclaw.App
    channel: MemoryChannel
    provider: ScriptedProvider
    events: list[Event] = field(default_factory=list[Event])

    async def outcome(self, accepted: Accepted) -> Outcome:
        record = await self.app.wait(accepted.id, FOREVER)
        assert record is not None
        assert record.outcome is not None, "the message was left without an outcome"
        return record.outcome

    async def ask(self, text: str, **fields: Any) -> Outcome:
        """A person writes; gives how that ended, once everything that can be sent has been."""
        outcome = await self.outcome(await self.channel.write(text, **fields))
        await self.app.idle()
        return outcome

    @property
    def said(self) -> list[str]:
        """What people could read, in order."""
        return [sent.text for sent in self.channel.sent]

    @property
    def seen(self) -> tuple[Message, ...]:
        """The conversation as the model saw it last."""
        return tuple(self.provider.requests[-1].messages)

    @property
    def results(self) -> list[ToolResult]:
        """Every tool result the model has seen, in its order."""
        return [result for message in self.seen for result in message.tool_results]


async def _without_head_start(accept: Callable[..., Any], inbound: object, session: str, then: Any, _: object) -> Any:
    return await accept(inbound, session, then)


async def _commit_late(released: asyncio.Event, commit: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    async def run() -> Any:
        await released.wait()
        return await commit(*args, **kwargs)

    return await wait_shielded(asyncio.create_task(run()))


class TroubledStore:
    """The real store, with errors in front of chosen methods: each is raised once, in order, instead of the call.

    A method that is held commits when its event is set, whoever is cancelled meanwhile.
    """

    def __init__(
        self, store: object, troubles: dict[str, list[BaseException]], held: dict[str, asyncio.Event] | None = None
    ) -> None:
        self._store = store
        self._troubles = troubles
        self._held = held or {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name == "accept" and "claim" in self._troubles:
            return partial(_without_head_start, real)  # which would pass the trouble by
        if name in self._held:
            return partial(_commit_late, self._held[name], real)
        troubles = self._troubles.get(name)
        if troubles is None:
            return real

        @wraps(real)
        async def call(*args: Any, **kwargs: Any) -> Any:
            if troubles:
                raise troubles.pop(0)
            return await real(*args, **kwargs)

        return call


@dataclass
class House:
    state: Path
    clock: FakeClock = field(default_factory=FakeClock)
    troubles: dict[str, list[BaseException]] = field(default_factory=dict[str, list[BaseException]])
    """Errors that the store raises, by the name of its method. To be filled before a gateway is opened."""
    kind: StoreKind = "sqlite"
    held: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    """Commits that the store holds back, by the name of its method. To be filled before a gateway is opened."""

    def _open_store(self, *args: Any, **kwargs: Any) -> Any:
        return TroubledStore(open_kind(*args, **kwargs), self.troubles, self.held)

    @asynccontextmanager
    async def open(
        self,
        *script: Line | Script,
        layers: Sequence[AnyRegistration] = (),
        tools: Sequence[Tool] = (),
        commands: Sequence[Command] = (),
        consent: Consent | None = nobody,
        capabilities: Capabilities | None = None,
        channel: MemoryChannel | None = None,
        pipeline: PipelineSettings | None = None,
        agent: AgentSettings | None = None,
        budget: BudgetSettings | None = None,
        compaction: CompactionSettings | None = None,
        people: Sequence[PersonSettings] = (),
        approvals: ApprovalSettings | None = None,
        rules: Sequence[Rule] = TRUSTING,
        command_settings: CommandSettings | None = None,
        sessions: SessionSettings | None = None,
        channel_settings: ChannelSettings | None = None,
    ) -> AsyncGenerator[Gateway]:
        channel = channel or MemoryChannel(self.clock, capabilities=capabilities)
        provider = ScriptedProvider(*script, clock=self.clock)
        settings = finclaw.Settings(
            state=self.state,
            storage=StorageSettings(kind=self.kind),
            pipeline=pipeline or PipelineSettings(),
            agent=agent or AgentSettings(default_extensions=()),
            budget=budget or BudgetSettings(),
            compaction=compaction or CompactionSettings(),
            people=tuple(people),
            approvals=approvals or ApprovalSettings(),
            commands=command_settings or CommandSettings(),
            sessions=sessions or A_TURN_EACH,
            tools=ToolsSettings(rules=tuple(rules)),
            channels={} if channel_settings is None else {channel.name: channel_settings},
        )
        async with finclaw.build(
            settings,
            channels=[channel],
            provider=provider,
            extensions=[Parts(layers, tools, commands)],
            consent=consent,
            clock=self.clock,
            open_store=self._open_store,
            threaded=False,
        ) as app:
            gateway = Gateway(app, channel, provider)
            app.events.observe(gateway.events.append)
            yield gateway


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on its house's clock, where hours cost nothing and every run is the same."""

    @wraps(test)
    def run(house: House, **fixtures: Any) -> None:
        house.clock.run(test(house, **fixtures))

    return run


async def until(condition: Callable[[], bool]) -> None:
    """Let everybody else go on until it holds. Time does not move meanwhile."""
    give_up = time.monotonic() + 60  # real seconds: somebody's work may be with a thread
    while not condition():
        assert time.monotonic() < give_up, "it never came to hold"
        await asyncio.sleep(0)


async def crash(
    house: House, point: str, *script: Any, n: int = 1, attachments: Sequence[Attachment] = (), **parts: Any
) -> Accepted:
    """A gateway whose message dies at this point; what is on disk afterwards is for the next one."""
    tasks = set[asyncio.Task[Any]]()

    def die(point: str) -> None:
        tasks.update(asyncio.all_tasks())  # now: whoever wrote the message may hear of it only when it is dead
        raise SimulatedCrash(point)

    async with house.open(*script, **parts) as gateway:
        with crash_at(point, n, die):
            accepted = await gateway.channel.write("buy", message_id="m-1", attachments=tuple(attachments))
            tasks |= asyncio.all_tasks()
            (task,) = (task for task in tasks if task.get_name() == f"message {accepted.id}")
            await asyncio.wait([task])
            assert isinstance(task.exception(), SimulatedCrash), f"{point} was not passed {n} times"
    return accepted
