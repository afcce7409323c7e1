"""A step: one model call and the tool calls it asked for. Results come back in call order, however the tools finish."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from finclaw.agent.budget.spend import usage_of
from finclaw.agent.model.answer_message import stop_of, with_own_ids
from finclaw.agent.model.call import ModelCall
from finclaw.agent.tool_results import last_known_result, skipped_for_message, skipped_result
from finclaw.agent.turn_state.state import TurnState
from finclaw.diagnostics.crash_points import crash_point
from finclaw.ids import new_id
from finclaw.kernel.event import ToolUseStarted
from finclaw.kernel.message import Append, Message, Source, ToolCall, ToolResult, ToolStarted
from finclaw.kernel.port import Clock
from finclaw.kernel.scope import StepContext, StepResult
from finclaw.tools.registry import ToolRegistry

RunCall = Callable[[TurnState, StepContext, ToolCall], Coroutine[Any, Any, ToolResult]]


class Step:
    """The core of the step ring."""

    def __init__(self, model: ModelCall, run_call: RunCall, tools: ToolRegistry, clock: Clock, parallel: int) -> None:
        self._model = model
        self._run_call = run_call
        self._tools = tools
        self._clock = clock
        self._parallel = parallel

    async def __call__(self, turn: TurnState, ctx: StepContext) -> StepResult:
        turn.offered = _offered_names(turn, ctx)
        if turn.unseen is not None:  # a crash came before the turn went on from these results
            (message, results), turn.unseen = turn.unseen, None
            return StepResult(message=message, tool_results=results, usage=usage_of(message), stop=stop_of(message))
        left_open = turn.log.unanswered()
        if left_open is not None:  # a crash came between the model's wish and the tools' results
            message, calls = left_open
            known = {call.id: last_known_result(turn.log, call) for call in calls if call.id in turn.log.started}
        else:
            answer = await self._model(turn, ctx.tool_catalog, ctx.index)
            message = with_own_ids(answer, turn.ctx.conversation.next_messages)
            calls, known = message.tool_calls, {}
            turn.log.push(Append(message))
        results = await self._answer(turn, ctx, calls, known) if calls else ()
        return StepResult(message=message, tool_results=results, usage=usage_of(message), stop=stop_of(message))

    async def _answer(
        self, turn: TurnState, ctx: StepContext, calls: Sequence[ToolCall], known: dict[str, ToolResult]
    ) -> tuple[ToolResult, ...]:
        turn.state.move("tool_use")
        if self._is_steered(turn, ctx):
            known |= {call.id: skipped_for_message(call) for call in calls if call.id not in known}
        wanted = [call for call in calls if call.id not in known]
        for call in wanted:
            turn.ctx.emit(ToolUseStarted(call_id=call.id, tool=call.name, **turn.ctx.ids))
            if not self._is_transactional(call):  # those write their own start, the moment before they begin
                turn.log.push(ToolStarted(call.id, call.name))
        crash_point("tools:before_commit")
        await turn.log.commit()
        crash_point("tools:started")
        turn.state.move("executing")
        known |= await self._run_all(turn, ctx, wanted)
        crash_point("tools:ended")
        results = tuple(known[call.id] for call in calls)
        turn.log.push(Append(self._results_message(turn, ctx.index, results)))
        if not turn.log.waits:
            self._model.reserve_next(turn, ctx.tool_catalog)
        await turn.log.commit()
        crash_point("results:after_commit")
        return results

    def _results_message(self, turn: TurnState, step: int, results: tuple[ToolResult, ...]) -> Message:
        changed = {result.call_id: args for result in results if (args := turn.log.changed.get(result.call_id))}
        metadata: dict[str, Any] = {"given": changed} if changed else {}
        return Message(new_id(), "tool", results, Source("tool", str(step)), self._clock.now(), metadata)

    async def _run_all(self, turn: TurnState, ctx: StepContext, calls: Sequence[ToolCall]) -> dict[str, ToolResult]:
        if len(calls) > 1 and all(self._is_parallel_safe(call) for call in calls):
            return await self._run_parallel(turn, ctx, calls)
        results: dict[str, ToolResult] = {}
        for call in calls:
            if results:
                crash_point("tools:between")
            waits = any(result.status == "awaiting" for result in results.values())
            if waits:
                results[call.id] = skipped_result(call)
            elif self._is_steered(turn, ctx):
                results[call.id] = skipped_for_message(call)
            else:
                results[call.id] = await self._run_call(turn, ctx, call)
        return results

    @staticmethod
    def _is_steered(turn: TurnState, ctx: StepContext) -> bool:
        """Whether somebody joins at the next boundary; there is none behind the last step."""
        return ctx.index + 1 < turn.max_steps and turn.log.is_steered

    async def _run_parallel(
        self, turn: TurnState, ctx: StepContext, calls: Sequence[ToolCall]
    ) -> dict[str, ToolResult]:
        room = asyncio.Semaphore(self._parallel)

        async def run(call: ToolCall) -> ToolResult:
            async with room:
                return await self._run_call(turn, ctx, call)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = {call.id: group.create_task(run(call)) for call in calls}
        except BaseExceptionGroup as failures:  # the first one stopped the others, and has a name of its own
            raise failures.exceptions[0] from None
        return {call_id: task.result() for call_id, task in tasks.items()}

    def _is_transactional(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.transactional

    def _is_parallel_safe(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or (tool.parallel_safe and not tool.transactional)


def _offered_names(turn: TurnState, ctx: StepContext) -> tuple[str, ...]:
    """What a layer put into the catalog beyond the turn's own limits does not count."""
    names = tuple([spec.name for spec in ctx.tool_catalog])
    if not turn.denied and turn.allowed is None:
        return names
    return tuple([each for each in names if each not in turn.denied and (turn.allowed is None or each in turn.allowed)])
