"""An agent: a model, tools, limits and layers, wired once into the loop that answers one input after another."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from finclaw.agent.budget.budget import Budget
from finclaw.agent.budget.call_ledger import UNFORESEEN, Payer, most_of
from finclaw.agent.model.call import ModelCall
from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.model.structured import StructuredAnswers
from finclaw.agent.permission import Permission
from finclaw.agent.settings import AgentSettings
from finclaw.agent.tool_call import ToolCallCore, ToolCallRunner
from finclaw.agent.tool_results import OverflowResults
from finclaw.agent.turn import ApprovedActions, Step, TurnLoop
from finclaw.agent.turn_state.state import RecordedTurn, StateMachine, TurnState, permitted_tools
from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.agent.window.compaction.options import CompactionSettings
from finclaw.approvals.approvals import Approvals
from finclaw.errors import ModelUnknown
from finclaw.kernel.chunk import Model
from finclaw.kernel.context import Context
from finclaw.kernel.envelope import Inbound, Limits
from finclaw.kernel.event import Emit, StateChanged
from finclaw.kernel.message import Message, ToolResult
from finclaw.kernel.middleware import Layer, compose_ring
from finclaw.kernel.port import Clock, Provider
from finclaw.kernel.record import Reserve, Spend
from finclaw.kernel.scope import Ids, StepContext, StepResult, ToolCallContext, TurnContext, TurnResult
from finclaw.policy import Consent
from finclaw.policy.groups import on_demand
from finclaw.policy.policy import Policy
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.loop_guard import LoopGuard
from finclaw.tools.outbound_files import PutBlob
from finclaw.tools.registry import ToolRegistry
from finclaw.tools.settings import GuardChoice


class AgentLayers(Struct, frozen=True, kw_only=True):
    """The three standard rings, outermost layer first."""

    turn: Sequence[Layer[TurnContext, TurnResult]] = ()
    step: Sequence[Layer[StepContext, StepResult]] = ()
    tool_call: Sequence[Layer[ToolCallContext, ToolResult]] = ()


class Abilities(Struct, frozen=True, kw_only=True):
    provider: Provider
    model: Model
    tools: ToolRegistry
    system: str
    policy: Policy = field(default_factory=Policy)
    consent: Consent | None = None  # a program's own way to ask a person at once
    approvals: Approvals | None = None  # None: without `consent`, what needs approval does not run
    overflow: OverflowResults | None = None  # where the rest of long results is kept
    guards: GuardChoice = field(default_factory=GuardChoice)
    show: Sequence[str] = ()  # tools by name or pattern that are always shown, even if their group is shown on demand
    credential: str = "default"  # the name of the provider's key
    within: float | None = None  # seconds for one whole answer; None: the turn's
    fallbacks: Sequence[ModelRoute] = ()  # asked in this order when the model does not answer
    pick: Callable[[str], Sequence[ModelRoute]] | None = None
    """The ways to a model that somebody names, by its own keys alone. Raises ModelUnknown. None: nobody may choose."""
    budget: Budget | None = None
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    put_blob: PutBlob | None = None  # keeps files that tools give; None: none go out
    recorded: RecordedTurn | None = None  # a recorded turn that is run again


class Agent:
    """An agent answers one input at a time, from its log: a new turn and a resumed one are the same thing."""

    def __init__(self, settings: AgentSettings, abilities: Abilities, layers: AgentLayers, clock: Clock) -> None:
        self._settings = settings
        self._abilities = abilities
        self._clock = clock
        chosen = ModelRoute(abilities.provider, abilities.model, abilities.credential, abilities.within)
        self._model_call = ModelCall((chosen, *abilities.fallbacks), clock, abilities.compaction)
        self._permission = Permission(abilities.policy, abilities.tools, abilities.consent, abilities.approvals)
        tools = abilities.tools
        answers = StructuredAnswers(self._model_call.make_side_call, clock)
        core = ToolCallCore(tools, ArgumentCheck(), self._permission, answers, abilities.recorded, abilities.put_blob)
        call_ring = compose_ring("tool_call", layers.tool_call, ToolResult)
        run_call = ToolCallRunner(call_ring, core, clock, tools, abilities.overflow, abilities.guards)
        self._loop = TurnLoop(
            compose_ring("turn", layers.turn, TurnResult),
            compose_ring("step", layers.step, StepResult),
            Step(self._model_call, run_call, tools, clock, settings.parallel_tools),
            ApprovedActions(abilities.approvals, run_call, clock),
            self._model_call,
            clock,
        )

    @property
    def name(self) -> str:
        return self._settings.name

    async def run(self, log: TurnLog, context: Context, ids: Ids, emit: Emit) -> TurnResult:
        """Raises ModelUnknown, before anything has begun, when a model was wished for that cannot be asked."""
        return await self._loop.run(self._begin(log, context, ids, emit))

    def check_model(self, reference: str) -> None:
        """Raises ModelUnknown."""
        self._pick_routes(reference)

    def measure(self, messages: Sequence[Message], reference: str | None) -> int:
        """The tokens of a request with these messages, by our estimate. Raises ModelUnknown."""
        have = self._abilities
        model = have.model
        if reference is not None:
            model = self._pick_routes(reference)[0].model
        return self._model_call.estimate(model, have.system, have.tools.specs(), messages)

    def _begin(self, log: TurnLog, context: Context, ids: Ids, emit: Emit) -> TurnState:
        limits = context.inbound.limits or Limits()
        wishes = context.wishes
        settings = self._settings
        model = self._abilities.model
        picked: Sequence[ModelRoute] = ()
        if wishes.model is not None:
            picked = self._pick_routes(wishes.model)
            model = picked[0].model
        temperature = wishes.temperature
        if temperature is None:
            temperature = settings.temperature
        denied = self._permission.denied_tools(context)
        recorded = self._abilities.recorded
        guard = None
        if recorded is not None:
            log.steering = recorded.steering(log)
            guard = recorded.guard()
        budget = None
        if self._abilities.budget is not None:
            unbooked = log.ledger.unbooked_lines()
            budget = self._abilities.budget.open_turn(ids, emit, log.ledger.payer.user, log.cost(), unbooked)
        ctx = TurnContext(
            ids=ids,
            emit=emit,
            agent=settings.name,
            context=context,
            input=log.messages[0],
            conversation=log.conversation,
            model=model,
            system=self._abilities.system,
            tool_catalog=permitted_tools(self._abilities.tools.specs(), limits.tools, denied),
            temperature=temperature,
            thinking=wishes.thinking or settings.thinking,
            verbosity=wishes.verbosity or settings.verbosity,
            on_demand=lambda: on_demand(self._abilities.tools.list(), self._abilities.show),
            emit_message_event=log.push_from_layer,
        )
        return TurnState(
            ctx=ctx,
            log=log,
            state=StateMachine(lambda before, after: emit(StateChanged(before=before, after=after, **ids))),
            loop=LoopGuard.from_history(log.history()),
            max_steps=min(limits.max_steps or settings.max_steps, settings.max_steps),
            attempts=settings.attempts,
            max_tokens=wishes.max_tokens or settings.max_tokens,
            stop_sequences=settings.stop_sequences,
            picked=picked,
            allowed=limits.tools,
            denied=denied,
            asked_in=context,
            guard=guard,
            budget=budget,
        )

    def _pick_routes(self, reference: str) -> Sequence[ModelRoute]:
        pick = self._abilities.pick
        routes = pick(reference) if pick else ()
        if not routes:
            raise ModelUnknown(f"{reference!r} was asked for, and this agent has one model only", model=reference)
        return routes

    def reserve_first_call(self, inbound: Inbound, user: str) -> Reserve | None:
        """Return what the commit that begins a turn reserves, so that its first model call needs no other commit.

        None: the budget has no room for it, so each call must be reserved by its own commit.
        """
        abilities = self._abilities
        settings = self._settings
        model = abilities.model
        head = self._model_call.head_tokens(abilities.system, abilities.tools.specs())
        payer = Payer(settings.name, user)
        now = self._clock.now()
        longest = model.longest_answer(settings.max_tokens, settings.thinking)
        said = len(inbound.text)  # at a token a character, which is too much for nearly everything

        def reserve(context: int) -> Spend:
            tokens = min((context or head) + said + UNFORESEEN, model.window)
            return most_of(model, tokens, longest, payer, now)

        budget = abilities.budget
        if budget is not None and not budget.has_room(payer.agent, payer.user, reserve(0).cost):
            return None
        return reserve
