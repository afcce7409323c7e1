"""Timings and sizes of steps, tool calls and turns: names and numbers in the log, never words."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from finclaw.kernel.event import Event, ExecutionCompleted
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import ToolResult
from finclaw.kernel.scope import StepContext, StepResult, ToolCallContext

_LEVELS = {"debug": 10, "info": 20}


class TimingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    level: Literal["debug", "info"] = "info"


class Timing:
    name = "timing"

    def __init__(self, settings: TimingSettings | None = None) -> None:
        self._level = _LEVELS[(settings or TimingSettings()).level]

    def register(self, api: ExtensionApi) -> None:
        self._api = api
        # Far out, so that what the other layers take is counted too.
        api.pipeline.register("step", self.step, priority=-100)
        api.pipeline.register("tool_call", self.tool_call, priority=-100)
        # A turn's sums are told when it ends, however it ends; no layer knows them.
        api.events.observe(self.turn, ExecutionCompleted.name)

    async def step(self, ctx: StepContext) -> StepResult:
        started = self._api.clock.monotonic()
        sizes: dict[str, Any] = {"step": ctx.index, "status": "failed"}
        try:
            result = await ctx.next()
            sizes |= {"status": result.status, "stop": result.stop, "tool_calls": len(result.tool_calls)}
            sizes |= {"input_tokens": result.usage.input, "output_tokens": result.usage.output}
            return result
        finally:
            # Counted behind `next`: the layers inside may have changed both.
            sizes |= {"tools_offered": len(ctx.tool_catalog), "messages": len(ctx.conversation.next_messages)}
            self._tell("step", started, sizes)

    async def tool_call(self, ctx: ToolCallContext) -> ToolResult:
        started = self._api.clock.monotonic()
        sizes: dict[str, Any] = {"tool": ctx.tool_name, "call_id": ctx.call_id, "status": "failed"}
        try:
            result = await ctx.next()
            sizes |= {"status": result.status, "result_characters": len(result.content)}
            return result
        finally:
            self._tell("tool call", started, sizes)

    def turn(self, event: Event) -> None:
        if isinstance(event, ExecutionCompleted):
            sizes = {"status": event.status, "steps": event.steps, "ms": event.duration_ms}
            usage = {"input_tokens": event.usage.input, "output_tokens": event.usage.output}
            self._api.logger.log(self._level, "turn", extra={**sizes, **usage})

    def _tell(self, what: str, started: float, sizes: Mapping[str, Any]) -> None:
        ms = round((self._api.clock.monotonic() - started) * 1000, 3)
        self._api.logger.log(self._level, what, extra={**sizes, "ms": ms})


name = Timing.name


def register(api: ExtensionApi) -> None:
    Timing(api.read_settings(TimingSettings)).register(api)
