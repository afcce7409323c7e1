"""An agent on its own: a real turn over a scripted model, with a log that only remembers."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from finclaw.agent.agent import Abilities, Agent, AgentLayers
from finclaw.agent.budget.budget import Budget
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.settings import AgentSettings
from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.kernel.chunk import Model
from finclaw.kernel.context import Context
from finclaw.kernel.envelope import Capabilities, Inbound, TurnOptions
from finclaw.kernel.event import Event, ModelFellBack, ModelRetried
from finclaw.kernel.message import Append, Message, Source, Text, ToolResult, TurnEvent
from finclaw.kernel.middleware import Layer
from finclaw.kernel.port import Tool
from finclaw.kernel.record import Claim, TurnCalls
from finclaw.kernel.scope import Ids, TurnResult
from finclaw.kernel.store_port import ConversationStore
from finclaw.policy import Consent, nobody
from finclaw.policy.policy import Policy
from finclaw.policy.rule import Rule
from finclaw.testing import FakeClock, ScriptedProvider
from finclaw.testing.clock import EPOCH
from finclaw.testing.provider import Line, Script
from finclaw.tools.registry import ToolRegistry
from finclaw.transcript.conversation import Conversation

AnyLayer = Callable[[Any], Awaitable[Any]]


class Memory:
    """The one method of the store that a turn uses; `groups` holds what was committed together, and `calls` with it."""

    def __init__(self) -> None:
        self.groups: list[tuple[TurnEvent, ...]] = []
        self.calls: list[TurnCalls] = []

    async def record(
        self, claim: Claim, seq: int, events: Sequence[TurnEvent], then: Callable[[], None], calls: TurnCalls
    ) -> None:
        assert seq == 1 + sum(map(len, self.groups)), "the log has a hole or a repeat"
        self.calls.append(calls)
        if events:
            self.groups.append(tuple(events))
        then()


@dataclass
class Bench:
    clock: FakeClock = field(default_factory=FakeClock)
    tools: list[Tool] = field(default_factory=list[Tool])
    settings: AgentSettings = field(default_factory=AgentSettings)
    consent: Consent = nobody
    policy: Policy = field(default_factory=lambda: Policy([Rule("*", "allow")]))  # it lifts the defaults of groups
    turn: list[AnyLayer] = field(default_factory=list[AnyLayer])
    step: list[AnyLayer] = field(default_factory=list[AnyLayer])
    tool_call: list[AnyLayer] = field(default_factory=list[AnyLayer])
    memory: Memory = field(default_factory=Memory)
    events: list[Event] = field(default_factory=list[Event])
    log: TurnLog | None = None
    provider: ScriptedProvider | None = None
    fallbacks: list[ModelRoute] = field(default_factory=list[ModelRoute])
    pick: Callable[[str], Sequence[ModelRoute]] | None = None
    budget: Budget | None = None
    wishes: TurnOptions = TurnOptions()
    model: Model = Model("scripted", "one")
    base: list[Message] = field(default_factory=list[Message])
    """What was said before."""

    def run(self, *script: Line | Script) -> TurnResult:
        """One turn with the input "go", from beginning to end, in virtual time."""
        return self.clock.run(self.go(*script))

    async def go(self, *script: Line | Script) -> TurnResult:
        self.provider = ScriptedProvider(*script, clock=self.clock)
        return await self._agent(self.provider).run(self._log(), _context(self.wishes), _IDS, self.events.append)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        assert self.log is not None
        return tuple(self.log.results)

    def _agent(self, provider: ScriptedProvider) -> Agent:
        registry = ToolRegistry(self.clock)
        for tool in self.tools:
            registry.register(tool)
        abilities = Abilities(
            provider=provider,
            model=self.model,
            tools=registry,
            policy=self.policy,
            consent=self.consent,
            system="Be good.",
            fallbacks=self.fallbacks,
            pick=self.pick,
            budget=self.budget,
        )
        layers = AgentLayers(
            turn=[Layer("turn", each) for each in self.turn],
            step=[Layer("step", each) for each in self.step],
            tool_call=[Layer("tool_call", each) for each in self.tool_call],
        )
        return Agent(self.settings, abilities, layers, self.clock)

    def _log(self) -> TurnLog:
        first = Append(Message("m-1", "user", (Text("go"),), Source("user"), EPOCH))
        claim = Claim(
            turn_id="t-1",
            session="s",
            inbound_id="i-1",
            epoch=0,
            attempt=1,
            version=0,
            session_started_at=EPOCH,
            base=(),
            events=(first,),
        )
        conversation = Conversation(self.base, (first,), self.events.append)
        self.log = TurnLog(cast(ConversationStore, self.memory), claim, conversation)
        return self.log


_IDS = Ids(agent="main", session="s", inbound_id="i-1", turn_id="t-1")


def _context(wishes: TurnOptions) -> Context:
    return Context(
        inbound=Inbound(text="go"),
        inbound_id="i-1",
        body="go",
        command_text="go",
        sender=Inbound(text="go").sender,
        session_key="s",
        agent="main",
        capabilities=Capabilities(),
        accepted_at=EPOCH,
        wishes=wishes,
    )


def under(bench: Bench, **limits: str) -> Budget:
    given: dict[str, Decimal | None] = {"agent_day_usd": None}
    given |= {name: Decimal(limit) for name, limit in limits.items()}
    house = Budget(BudgetSettings(**given), bench.clock)
    bench.budget = house
    return house


def other(clock: FakeClock, *script: Any, credential: str = "default", model: str = "two") -> ModelRoute:
    provider = ScriptedProvider(*script, clock=clock)
    return ModelRoute(provider, Model("scripted", model), credential)


def waits(bench: Bench) -> list[float]:
    return [event.wait_s for event in bench.events if isinstance(event, ModelRetried)]


def instead(bench: Bench) -> list[str]:
    return [event.instead for event in bench.events if isinstance(event, ModelFellBack)]
