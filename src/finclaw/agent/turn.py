"""The agent's loop, on one screen: steps until the model asks for no more tools, then the answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, field

from finclaw.agent.approved_actions import ApprovedActions
from finclaw.agent.budget.call_ledger import Payer
from finclaw.agent.budget.spend import user_of
from finclaw.agent.budget.turn_budget import BudgetService, TurnBudget
from finclaw.agent.budget.turn_spend import cost_so_far, usage_so_far
from finclaw.agent.budget.usage_meter import UNFORESEEN, most_of
from finclaw.agent.model.answer_message import without_calls
from finclaw.agent.model.call import ModelCall
from finclaw.agent.model.route import ModelRoute
from finclaw.agent.model.stream_state import StateMachine
from finclaw.agent.model.structured import StructuredAnswers
from finclaw.agent.overflow_results import OverflowResults
from finclaw.agent.permission import Permission
from finclaw.agent.running import RunningTurn
from finclaw.agent.settings import AgentSettings
from finclaw.agent.step import Step
from finclaw.agent.tool_call import ToolCallCore, ToolCallRunner
from finclaw.agent.tool_results import answer_open_calls
from finclaw.agent.turn_log import TurnLog
from finclaw.errors import ConfigError, ModelUnknown
from finclaw.kernel.chunk import Model
from finclaw.kernel.context import Context
from finclaw.kernel.envelope import Inbound, Limits, new_id
from finclaw.kernel.event import (
    Emit,
    ExecutionCompleted,
    ExecutionStarted,
    StateChanged,
    StepStarted,
    StreamDone,
    StreamFailed,
)
from finclaw.kernel.message import Append, Message, Source, Text, ToolResult
from finclaw.kernel.middleware import Layer, compose
from finclaw.kernel.port import Clock, Provider
from finclaw.kernel.record import Reserve, Spend
from finclaw.kernel.scope import (
    Ids,
    StepContext,
    StepResult,
    ToolCallContext,
    ToolUse,
    TurnContext,
    TurnResult,
    TurnStatus,
)
from finclaw.tools.approval.approvals import Approvals
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.groups import on_demand
from finclaw.tools.guard.choice import GuardChoice
from finclaw.tools.guard.told import reason_of
from finclaw.tools.loop import LoopGuard
from finclaw.tools.policy import Consent
from finclaw.tools.policy.policy import Policy
from finclaw.tools.registry import ToolRegistry


class AgentLayers(Struct, frozen=True, kw_only=True):
    """The three standard rings, outermost layer first."""

    turn: Sequence[Layer[TurnContext, TurnResult]] = ()
    step: Sequence[Layer[StepContext, StepResult]] = ()
    tool_call: Sequence[Layer[ToolCallContext, ToolResult]] = ()


class Abilities(Struct, frozen=True, kw_only=True):
    """What an agent works with."""

    provider: Provider
    model: Model
    tools: ToolRegistry
    system: str
    policy: Policy = field(default_factory=Policy)
    """What may run, for whom."""
    consent: Consent | None = None
    """A program's own way to ask a person at once, instead of `approvals`."""
    approvals: Callable[[], Approvals] | None = None
    """Where a person's word is asked for and kept; None: nobody can be asked, and what needs it does not run."""
    overflow: OverflowResults | None = None
    """Where the rest of long results is kept."""
    guards: GuardChoice = field(default_factory=GuardChoice)
    """What is done to a tool's results before the model reads them."""
    show: Sequence[str] = ()
    """Tools that need not be searched for though their group is shown on demand, by name or pattern."""
    credential: str = "default"
    """The name of the provider's key."""
    within: float | None = None
    """Seconds for one whole answer of the model; None: as long as the turn has."""
    fallbacks: Sequence[ModelRoute] = ()
    """Asked in this order when the model does not answer: by its other keys, then other models."""
    pick: Callable[[str], Sequence[ModelRoute]] | None = None
    """The ways to a model that somebody names, by its own keys alone. Raises ConfigError. None: nobody may choose."""
    budget: BudgetService | None = None
    """None: there is no budget."""


class Agent:
    """Answers one input at a time, from its log: a new turn and a resumed one are the same thing."""

    def __init__(self, settings: AgentSettings, abilities: Abilities, layers: AgentLayers, clock: Clock) -> None:
        self._settings = settings
        self._abilities = abilities
        self._clock = clock
        chosen = ModelRoute(abilities.provider, abilities.model, abilities.credential, abilities.within)
        self._model_call = ModelCall((chosen, *abilities.fallbacks), clock)
        answers = StructuredAnswers(self._model_call.make_side_call, clock)
        permission = Permission(abilities.policy, abilities.tools, abilities.consent, abilities.approvals)
        runner = ToolCallCore(abilities.tools, ArgumentCheck(), permission, answers)
        ring = compose("tool_call", layers.tool_call, runner.__call__, ToolResult)
        use = ToolCallRunner(ring, clock, abilities.tools, abilities.overflow, abilities.guards)
        self._approved = ApprovedActions(abilities.approvals, use.__call__, clock)
        step = Step(self._model_call, use.__call__, abilities.tools, clock, settings.parallel_tools)
        self._step = compose("step", layers.step, step.__call__, StepResult)
        self._turn = compose("turn", layers.turn, self._loop, TurnResult)

    @property
    def name(self) -> str:
        return self._settings.name

    async def run(self, log: TurnLog, context: Context, ids: Ids, emit: Emit) -> TurnResult:
        """See one input through to its answer. Whatever happens, the start that observers saw gets its end.

        Raises ModelUnknown before anything has begun when somebody wishes for a model that cannot be asked.
        """
        turn = self._begin(log, context, ids, emit)
        started = self._clock.monotonic()
        emit(ExecutionStarted(resumed=log.claim.resumed, **ids))
        status: TurnStatus = "failed"
        try:
            answer = await self._turn(turn)
            answer_open_calls(log, self._clock.now())
            status = answer.status if turn.entered else "short_circuited"
            text = answer.text
            asked = await self._approved.cards(turn)
            turn.side_calls.close()
            if asked:  # no layer has a word in what a person is asked
                status, text = "waiting_for_human", "\n\n".join(asked)
            result = self._told(status, text, log, answer.metadata, self._since(started), asked)
            turn.state.move("failed" if status == "failed" else "done")
            return result
        except asyncio.CancelledError:
            status = "aborted"
            turn.state.move("aborted")
            raise
        except Exception as error:
            turn.state.move("failed")
            emit(StreamFailed(error=reason_of(error), **ids))
            raise
        finally:
            turn.side_calls.close()
            log.close_to_layers()
            emit(StreamDone(status=status, **ids))
            usage = usage_so_far(log)
            ms = self._since(started)
            emit(ExecutionCompleted(status=status, steps=len(log.answers), duration_ms=ms, usage=usage, **ids))

    def so_far(self, log: TurnLog) -> TurnResult:
        """What a turn that did not get through has done and spent."""
        return self._told("failed", "", log)

    def check_model(self, reference: str) -> None:
        """Raises ModelUnknown for a model that nobody could be answered by."""
        self._picked(reference)

    def _begin(self, log: TurnLog, context: Context, ids: Ids, emit: Emit) -> RunningTurn:
        limits, wishes, settings = context.inbound.limits or Limits(), context.wishes, self._settings
        picked = () if wishes.model is None else self._picked(wishes.model)
        catalog = self._abilities.tools.specs()
        return RunningTurn(
            ids=ids,
            emit=emit,
            agent=settings.name,
            context=context,
            input=log.messages[0],
            conversation=log.conversation,
            model=picked[0].model if picked else self._abilities.model,
            system=self._abilities.system,
            tool_catalog=catalog if limits.tools is None else tuple(s for s in catalog if s.name in limits.tools),
            temperature=settings.temperature if wishes.temperature is None else wishes.temperature,
            thinking=wishes.thinking or settings.thinking,
            verbosity=wishes.verbosity or settings.verbosity,
            on_demand=self._on_demand,
            emit_message_event=log.push_from_layer,
            log=log,
            state=StateMachine(lambda before, after: emit(StateChanged(before=before, after=after, **ids))),
            loop=LoopGuard.from_history(log.history()),
            max_steps=min(limits.max_steps or self._settings.max_steps, self._settings.max_steps),
            max_tokens=wishes.max_tokens or settings.max_tokens,
            stop_sequences=settings.stop_sequences,
            picked=picked,
            allowed=limits.tools,
            asked_in=context,
            budget=self._open_budget(log, context, ids, emit),
        )

    def _picked(self, reference: str) -> Sequence[ModelRoute]:
        pick = self._abilities.pick
        try:
            routes = () if pick is None else pick(reference)
        except ConfigError as error:
            raise ModelUnknown(str(error), model=reference) from error
        if not routes:
            raise ModelUnknown(f"{reference!r} was asked for, and this agent has one model only", model=reference)
        return routes

    def _on_demand(self) -> frozenset[str]:
        return on_demand(self._abilities.tools.list(), self._abilities.show)

    def _open_budget(self, log: TurnLog, context: Context, ids: Ids, emit: Emit) -> TurnBudget | None:
        budget, user = self._abilities.budget, user_of(context.inbound)
        if budget is None:
            return None
        return budget.open_turn(ids, emit, user, cost_so_far(log), log.ledger.unbooked_lines())

    def reserve_first_call(self, inbound: Inbound) -> Reserve | None:
        """What a commit that begins a turn reserves for it: its first model call follows without another commit.

        None where the budget has no room for it: then nothing may leave that is not reserved by itself.
        """
        abilities, settings = self._abilities, self._settings
        head = self._model_call.head_tokens(abilities.system, abilities.tools.specs())
        model, now, payer = abilities.model, self._clock.now(), Payer(settings.name, user_of(inbound))
        longest = min(settings.max_tokens + model.room_to_think(settings.thinking), model.max_output)
        said = len(inbound.text)  # at a token a character, which is too much for nearly everything

        def reserve(context: int) -> Spend:
            tokens = min((context or head) + said + UNFORESEEN, model.window)
            return most_of(model, tokens, longest, payer, now)

        budget = abilities.budget
        return reserve if budget is None or budget.has_room(payer.agent, payer.user, reserve(0).cost) else None

    async def _loop(self, turn: TurnContext) -> TurnResult:
        running = RunningTurn.of(turn)
        running.entered = True
        await self._approved.run(running, self._step_context(turn, 0))
        if running.log.waits:
            return TurnResult(status="waiting_for_human", text="")
        running.unseen = running.log.unseen()
        for index in range(_finished_steps(running.log), running.max_steps):
            turn.emit(StepStarted(step=index, **turn.ids))
            step = await self._step(self._step_context(turn, index))
            if step.status == "failed":
                return TurnResult(status="failed", text=step.message.text)
            if running.log.waits:
                return TurnResult(status="waiting_for_human", text="")
            if not step.has_tool_calls and not step.again:
                return TurnResult(status="completed", text=step.message.text)
            if not step.has_tool_calls:
                running.log.push(Append(self._why_again(step.again, index)))
        turn.emit(StepStarted(step=running.max_steps, **turn.ids))
        closing = without_calls(await self._model_call(running, (), running.max_steps))
        running.log.push(Append(closing))
        return TurnResult(status="max_steps", text=closing.text)

    def _why_again(self, why: str, index: int) -> Message:
        """What the model has to know for another try; without it the request would end with its own last words."""
        return Message(new_id(), "system", (Text(why),), Source("system"), self._clock.now(), passing=f"again {index}")

    @staticmethod
    def _step_context(turn: TurnContext, index: int) -> StepContext:
        return StepContext(
            ids=turn.ids,
            emit=turn.emit,
            metadata=turn.metadata.new_child(),
            turn=turn,
            index=index,
            tool_catalog=turn.tool_catalog,
        )

    def _told(
        self,
        status: TurnStatus,
        text: str,
        log: TurnLog,
        metadata: dict[str, Any] | None = None,
        ms: float = 0.0,
        asked: Sequence[str] = (),
    ) -> TurnResult:
        """Figures, tools and spend are told from the log alone: what happened before a crash counts too, and a
        layer's word for it does not.
        """
        usage = usage_so_far(log)
        return TurnResult(
            status=status,
            text=text,
            asked=tuple(asked),
            steps=len(log.answers),
            tools=tuple(ToolUse(result.name, result.status) for result in log.results),
            facts=tuple(fact for result in log.results for fact in result.facts),
            usage=usage,
            cost=cost_so_far(log),
            messages=tuple(log.messages),
            duration_ms=ms,
            model=str(log.answers[-1].metadata.get("model", "")) if log.answers else "",
            metadata=metadata or {},
        )

    def _since(self, moment: float) -> float:
        return round((self._clock.monotonic() - moment) * 1_000_000) / 1_000


def _finished_steps(log: TurnLog) -> int:
    return len(log.answers) - (1 if log.unanswered() or log.unseen() else 0)
