"""The core of one tool use: final arguments checked, policy judged, run under a limit. No layer is inside this."""

import logging
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Final

from finclaw.agent.log import APPROVED
from finclaw.agent.permission import Permission
from finclaw.agent.running import RunningCall, RunningTurn
from finclaw.agent.structured import StructuredAnswers
from finclaw.errors import (
    InvalidArguments,
    ToolAwaiting,
    ToolDenied,
    ToolError,
    ToolStopped,
    ToolTimeout,
    ToolUnavailable,
)
from finclaw.kernel.event import Circuit, CircuitChanged, ToolTimedOut
from finclaw.kernel.message import ToolCall, ToolFailure, ToolResult, ToolStarted, ToolStatus
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.kernel.scope import ToolCallContext
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.contain import Broken
from finclaw.tools.guard.told import without_secrets
from finclaw.tools.limit import CutOff, run_with_limit
from finclaw.tools.registry import ToolRegistry
from finclaw.tools.sources import sources_met

log = logging.getLogger(__name__)

_STATUS: Final[Mapping[type[ToolError], ToolStatus]] = {
    InvalidArguments: "invalid",
    ToolDenied: "denied",
    ToolAwaiting: "awaiting",
    ToolTimeout: "timeout",
    ToolStopped: "stopped",
    ToolUnavailable: "unavailable",
}
_NOT_THE_END_OF_IT: Final = (ToolTimeout, ToolStopped, ToolUnavailable, CutOff)
"""After these an order may have been placed all the same: the line broke, and perhaps behind it."""


class ToolRunner:
    def __init__(
        self, tools: ToolRegistry, arguments: ArgumentCheck, permission: Permission, answers: StructuredAnswers
    ) -> None:
        self._tools = tools
        self._arguments = arguments
        self._permission = permission
        self._answers = answers

    async def __call__(self, ctx: ToolCallContext) -> ToolResult:
        """Whatever happens to a tool becomes a result the model can read; only cancellation passes."""
        call = RunningCall.of(ctx)
        call.word = await self._word(call)
        return call.word

    async def _word(self, ctx: RunningCall) -> ToolResult:
        try:
            output = await self._run(ctx)
        except ToolError as error:
            if isinstance(error, _NOT_THE_END_OF_IT) and _has_begun(ctx):
                return unknown_outcome(ctx.call_id, ctx.tool_name)
            return _failed(ctx, _status_of(error), _failure(error))
        except Exception as error:  # a tool is a stranger: its bug is a result, not the end of the turn
            log.exception("tool %s failed", ctx.tool_name)
            if _has_begun(ctx):
                return unknown_outcome(ctx.call_id, ctx.tool_name)
            name = error.kind if isinstance(error, Broken) else type(error).__name__
            return _failed(ctx, "error", ToolFailure(name, f"{ctx.tool_name} failed: {name}", code="crashed"))
        content = f"{output.content}\n\n{ctx.reread}" if ctx.reread else output.content
        return ToolResult(ctx.call_id, ctx.tool_name, content, facts=output.facts, origin=output.origin)

    async def _run(self, ctx: RunningCall) -> ToolOutput:
        turn = RunningTurn.of(ctx.turn)
        tool = self._offered(ctx, turn)
        # A copy of our own: a layer may still hold the one it was given, and change it while a person decides.
        checked = await self._arguments.check_off_loop(tool.spec, deepcopy(ctx.args))
        args = ctx.given = checked.args
        ctx.reread = checked.note
        scope = self._scope(ctx, turn)
        await self._permission(ctx, tool, args, scope)
        with self._tools.breakers.call(tool.upstream, partial(_tell_circuit, ctx, tool)):
            # On disk before it begins: after a crash what moves money, or was approved once, must not begin again.
            if tool.transactional or ctx.call_id.startswith(APPROVED):
                turn.log.push(ToolStarted(ctx.call_id, ctx.tool_name, transactional=True))
                await turn.log.commit()
            try:
                return await run_with_limit(tool, args, scope)
            except ToolTimeout:
                ctx.emit(ToolTimedOut(call_id=ctx.call_id, tool=ctx.tool_name, timeout=tool.timeout, **ctx.ids))
                raise

    def _scope(self, ctx: RunningCall, turn: RunningTurn) -> ToolScope:
        return ToolScope(
            session=turn.log.claim.session,
            turn_id=turn.log.claim.turn_id,
            call_id=ctx.call_id,
            sender=turn.asked_in.sender,
            channel=turn.asked_in.inbound.channel,
            offered=turn.offered,
            ask=partial(self._answers, turn, ctx.tool_name),
            sources=partial(sources_met, turn.log.conversation, turn.asked_in.inbound),
        )

    def _offered(self, ctx: ToolCallContext, turn: RunningTurn) -> Tool:
        tool = self._tools.get(ctx.tool_name)
        if tool is None or ctx.tool_name not in turn.offered:
            known = ", ".join(sorted(turn.offered)) or "none"
            raise ToolError(f"there is no tool {ctx.tool_name!r} here; the tools are: {known}", code="no_such_tool")
        return tool


def _failed(ctx: ToolCallContext, status: ToolStatus, failure: ToolFailure) -> ToolResult:
    return ToolResult(ctx.call_id, ctx.tool_name, failure.message, status=status, error=failure)


def _status_of(error: ToolError) -> ToolStatus:
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return status
    return "error"


def _failure(error: ToolError) -> ToolFailure:
    return ToolFailure(type(error).__name__, str(error), error.suggestion, code=error.code)


def _tell_circuit(ctx: ToolCallContext, tool: Tool, before: Circuit, after: Circuit) -> None:
    log.warning("the circuit to %s is %s now, after a call of %s", tool.upstream, after, tool.spec.name)
    ctx.emit(CircuitChanged(upstream=tool.upstream, tool=tool.spec.name, before=before, after=after, **ctx.ids))


def _has_begun(ctx: ToolCallContext) -> bool:
    """It moves money or was approved, and has started: only its own word, result or ToolError, says how that ended."""
    return ctx.call_id in RunningTurn.of(ctx.step.turn).log.begun


def refused(call: ToolCall, why: str) -> ToolResult:
    """By the loop guard: it was not run because it would bring nothing new."""
    return ToolResult(call.id, call.name, why, "denied", error=ToolFailure("ToolDenied", why, code="loop"))


def unreadable(call_id: str, name: str, text: str) -> ToolResult:
    shown = without_secrets(text)[:200]  # in this order: no half of one is left
    error = InvalidArguments(f"the arguments of {name} are not one complete JSON object: {shown!r}; call it again")
    return ToolResult(call_id, name, str(error), "invalid", error=_failure(error))


def stopped(call: ToolCall) -> ToolResult:
    """It was running when its turn was stopped: unlike one that was skipped, it may have done some of its work."""
    text = "it was stopped before it gave a result, together with its turn"
    return ToolResult(call.id, call.name, text, "stopped", error=_failure(ToolStopped(text)))


def unknown_outcome(call_id: str, name: str) -> ToolResult:
    """For a transactional call that had begun and came to no known end. It is never begun again to find out."""
    text = "it is unknown whether this happened: it began and was cut off. Do not repeat it: tell the person and ask."
    return ToolResult(call_id, name, text, "unknown", error=ToolFailure("UnknownOutcome", text, code="unknown_outcome"))
