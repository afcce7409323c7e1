"""The agent's loop, on one screen: steps until the model asks for no more tools, then the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from finclaw.agent.log import TurnLog
from finclaw.agent.model_call import ModelCall, usage_of, without_calls
from finclaw.agent.running import RunningTurn
from finclaw.agent.settings import AgentSettings
from finclaw.agent.step import Step
from finclaw.agent.tool_call import ToolRunner
from finclaw.kernel.chunk import Model, Usage
from finclaw.kernel.context import Context
from finclaw.kernel.event import Emit, ExecutionCompleted, ExecutionStarted, StepStarted
from finclaw.kernel.message import Append, ToolResult
from finclaw.kernel.middleware import Layer, compose
from finclaw.kernel.port import Clock, Provider
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
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.policy import Consent
from finclaw.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLayers:
    """The three standard rings, outermost layer first."""

    turn: Sequence[Layer[TurnContext, TurnResult]] = ()
    step: Sequence[Layer[StepContext, StepResult]] = ()
    tool_call: Sequence[Layer[ToolCallContext, ToolResult]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What an agent works with."""

    provider: Provider
    model: Model
    tools: ToolRegistry
    consent: Consent
    system: str


class Agent:
    """Answers one input at a time, from its log: a new turn and a resumed one are the same thing."""

    def __init__(self, settings: AgentSettings, abilities: Abilities, layers: AgentLayers, clock: Clock) -> None:
        self._settings = settings
        self._abilities = abilities
        self._clock = clock
        self._model_call = ModelCall(abilities.provider, clock, settings.max_tokens)
        runner = ToolRunner(abilities.tools, ArgumentCheck(), abilities.consent)
        tool_ring = compose("tool_call", layers.tool_call, runner.__call__, ToolResult)
        step = Step(self._model_call, tool_ring, abilities.tools, clock, settings.parallel_tools)
        self._step = compose("step", layers.step, step.__call__, StepResult)
        self._turn = compose("turn", layers.turn, self._loop, TurnResult)

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def reserve(self) -> Decimal:
        """What one call may cost at most, as far as is known before it is made."""
        return self._abilities.model.price.cost(Usage(output=self._settings.max_tokens))

    async def run(self, log: TurnLog, context: Context, ids: Ids, emit: Emit) -> TurnResult:
        started = self._clock.monotonic()
        emit(ExecutionStarted(resumed=log.claim.resumed, **ids))
        turn = self._begin(log, context, ids, emit)
        status: TurnStatus = "failed"
        try:
            result = await self._turn(turn)
            status = result.status
            return result
        finally:
            ms = round((self._clock.monotonic() - started) * 1000, 3)
            emit(ExecutionCompleted(status=status, steps=_steps(log), duration_ms=ms, **ids))

    def so_far(self, log: TurnLog) -> TurnResult:
        """What a turn that did not get through has done and spent."""
        return self._result("failed", "", log)

    def _begin(self, log: TurnLog, context: Context, ids: Ids, emit: Emit) -> RunningTurn:
        return RunningTurn(
            ids=ids,
            emit=emit,
            agent=self._settings.name,
            context=context,
            input=log.messages[0],
            conversation=log.conversation,
            model=self._abilities.model,
            system=self._abilities.system,
            tool_catalog=self._abilities.tools.specs(),
            temperature=self._settings.temperature,
            emit_message_event=log.push,
            log=log,
        )

    async def _loop(self, turn: TurnContext) -> TurnResult:
        log = RunningTurn.of(turn).log
        done = _finished_steps(log)
        for index in range(done, self._settings.max_steps):
            turn.emit(StepStarted(step=index, **turn.ids))
            step = await self._step(self._step_context(turn, index))
            if not step.has_tool_calls:
                return self._result("completed", step.message.text, log)
        closing = without_calls(await self._model_call(turn, (), self._settings.max_steps))
        log.push(Append(closing))
        return self._result("max_steps", closing.text, log)

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

    def _result(self, status: TurnStatus, text: str, log: TurnLog) -> TurnResult:
        """Told from the log alone, so that what happened before a crash is counted too."""
        usage = sum((usage_of(each) for each in log.answers), Usage())
        return TurnResult(
            status=status,
            text=text,
            steps=_steps(log),
            tools=tuple(ToolUse(result.name, result.status) for result in log.results),
            facts=tuple(fact for result in log.results for fact in result.facts),
            usage=usage,
            cost=self._abilities.model.price.cost(usage),
        )


def _steps(log: TurnLog) -> int:
    return len(log.answers)


def _finished_steps(log: TurnLog) -> int:
    return _steps(log) - (1 if log.unanswered() else 0)
