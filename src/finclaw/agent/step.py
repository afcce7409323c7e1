"""One model call and the tool calls it asked for. Results come back in call order, however the tools finish."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from finclaw.agent.model_call import ModelCall, stop_of, usage_of, with_own_ids
from finclaw.agent.running import RunningTurn
from finclaw.agent.tool_call import guarded, unknown_outcome, unreadable
from finclaw.kernel.crash import crash_point
from finclaw.kernel.envelope import new_id
from finclaw.kernel.event import ToolEndedEvent, ToolStartedEvent
from finclaw.kernel.message import Append, Message, Source, ToolCall, ToolResult, ToolStarted
from finclaw.kernel.port import Clock
from finclaw.kernel.scope import StepContext, StepResult, ToolCallContext
from finclaw.tools.registry import ToolRegistry

ToolRing = Callable[[ToolCallContext], Coroutine[Any, Any, ToolResult]]


class Step:
    def __init__(self, model: ModelCall, tool_ring: ToolRing, tools: ToolRegistry, clock: Clock, parallel: int) -> None:
        self._model = model
        self._tool_ring = tool_ring
        self._tools = tools
        self._clock = clock
        self._parallel = parallel

    async def __call__(self, ctx: StepContext) -> StepResult:
        turn = RunningTurn.of(ctx.turn)
        left_open = turn.log.unanswered()
        if left_open is not None:  # a crash came between the model's wish and the tools' results
            message, calls = left_open
            known = {call.id: unknown_outcome(call.id, call.name) for call in calls if call.id in turn.log.begun}
        else:
            message = with_own_ids(await self._model(turn, ctx.tool_catalog, ctx.index), turn.log.call_ids)
            calls, known = message.tool_calls, {}
            turn.log.push(Append(message))
        results = await self._answer(ctx, turn, calls, known) if calls else ()
        return StepResult(message=message, tool_results=results, usage=usage_of(message), stop=stop_of(message))

    async def _answer(
        self, ctx: StepContext, turn: RunningTurn, calls: Sequence[ToolCall], known: dict[str, ToolResult]
    ) -> tuple[ToolResult, ...]:
        wanted = [call for call in calls if call.id not in known]
        for call in wanted:
            if not self._transactional(call):  # those write their own start, the moment before they begin
                turn.log.push(ToolStarted(call.id, call.name))
        crash_point("tools:before_commit")
        await turn.log.commit()
        crash_point("tools:started")
        known |= await self._run_all(ctx, wanted)
        crash_point("tools:ended")
        results = tuple(known[call.id] for call in calls)
        turn.log.push(Append(self._tool_message(ctx, results)))
        await turn.log.commit()
        crash_point("results:after_commit")
        return results

    async def _run_all(self, ctx: StepContext, calls: Sequence[ToolCall]) -> dict[str, ToolResult]:
        if len(calls) > 1 and all(self._parallel_safe(call) for call in calls):
            room = asyncio.Semaphore(self._parallel)
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = {call.id: group.create_task(self._run_in(room, ctx, call)) for call in calls}
            except BaseExceptionGroup as failures:  # the first one stopped the others, and has a name of its own
                raise failures.exceptions[0] from None
            return {call_id: task.result() for call_id, task in tasks.items()}
        return {call.id: await self._run(ctx, call) for call in calls}

    async def _run_in(self, room: asyncio.Semaphore, ctx: StepContext, call: ToolCall) -> ToolResult:
        async with room:
            return await self._run(ctx, call)

    async def _run(self, ctx: StepContext, call: ToolCall) -> ToolResult:
        started = self._clock.monotonic()
        ctx.emit(ToolStartedEvent(call_id=call.id, tool=call.name, **ctx.ids))
        status = "error"
        try:
            result = await self._through_ring(ctx, call)
            status = result.status
            RunningTurn.of(ctx.turn).log.heard[call.id] = result
            return result
        finally:
            ms = round((self._clock.monotonic() - started) * 1000, 3)
            ctx.emit(ToolEndedEvent(call_id=call.id, tool=call.name, status=status, duration_ms=ms, **ctx.ids))

    async def _through_ring(self, ctx: StepContext, call: ToolCall) -> ToolResult:
        if call.bad_args is not None:
            return unreadable(call.id, call.name, call.bad_args)
        inner = ToolCallContext(
            ids=ctx.ids,
            emit=ctx.emit,
            metadata=ctx.metadata.new_child(),
            step=ctx,
            call_id=call.id,
            tool_name=call.name,
            args=dict(call.args),
        )
        return guarded(await self._tool_ring(inner), call)

    def _tool_message(self, ctx: StepContext, results: tuple[ToolResult, ...]) -> Message:
        return Message(new_id(), "tool", results, Source("tool", str(ctx.index)), self._clock.now())

    def _transactional(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.transactional

    def _parallel_safe(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is None or (tool.parallel_safe and not tool.transactional)
