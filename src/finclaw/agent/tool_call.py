"""The core of one tool use: final arguments checked, policy judged, run under a limit. No layer is inside this."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Final

from finclaw.agent.running import RunningCall, RunningTurn
from finclaw.agent.structured import StructuredAnswers
from finclaw.errors import InvalidArguments, ToolDenied, ToolError, ToolTimeout
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolCall, ToolFailure, ToolResult, ToolStarted, ToolStatus
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.kernel.scope import ToolCallContext
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.guard import guard_result
from finclaw.tools.policy import Consent, judge
from finclaw.tools.registry import ToolRegistry

log = logging.getLogger(__name__)

GRACE: Final = 2.0
"""Seconds a tool gets to clean up when its time is over; then it is left behind."""
STOP_GRACE: Final = 0.5
"""When the turn is stopped a person waits for that, and a tool gets less."""

_STATUS: Final[dict[type[ToolError], ToolStatus]] = {ToolDenied: "denied", ToolTimeout: "timeout"}


class _CutOff(ToolError):
    """The tool was cancelled, and not by us."""


class ToolRunner:
    def __init__(
        self, tools: ToolRegistry, arguments: ArgumentCheck, consent: Consent, answers: StructuredAnswers
    ) -> None:
        self._tools = tools
        self._arguments = arguments
        self._consent = consent
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
            if isinstance(error, ToolTimeout | _CutOff) and _has_begun(ctx):
                return unknown_outcome(ctx.call_id, ctx.tool_name)
            failure = ToolFailure(type(error).__name__, str(error), error.suggestion)
            return _failed(ctx, _STATUS.get(type(error), "error"), failure)
        except Exception as error:  # a tool is a stranger: its bug is a result, not the end of the turn
            log.exception("tool %s failed", ctx.tool_name)
            if _has_begun(ctx):
                return unknown_outcome(ctx.call_id, ctx.tool_name)
            name = type(error).__name__
            return _failed(ctx, "error", ToolFailure(name, f"{ctx.tool_name} failed: {name}"))
        return ToolResult(ctx.call_id, ctx.tool_name, output.content, facts=output.facts)

    async def _run(self, ctx: RunningCall) -> ToolOutput:
        turn = RunningTurn.of(ctx.turn)
        tool = self._offered(ctx, turn)
        # A copy of our own: a layer may still hold the one it was given, and change it while a person decides.
        args = ctx.given = self._arguments.check(tool.spec, deepcopy(ctx.args))
        scope = ToolScope(
            session=turn.log.claim.session,
            turn_id=turn.log.claim.turn_id,
            call_id=ctx.call_id,
            sender=turn.asked_in.sender,
            channel=turn.asked_in.inbound.channel,
            offered=turn.offered,
            ask=partial(self._answers, turn, ctx.tool_name),
        )
        await self._permit(tool, args, scope)
        if tool.transactional:  # on disk before it begins: after a crash it must not begin again
            turn.log.push(ToolStarted(ctx.call_id, ctx.tool_name, transactional=True))
            await turn.log.commit()
        return await run_with_limit(tool, args, scope)

    def _offered(self, ctx: ToolCallContext, turn: RunningTurn) -> Tool:
        tool = self._tools.get(ctx.tool_name)
        if tool is None or ctx.tool_name not in turn.offered:
            known = ", ".join(sorted(turn.offered)) or "none"
            raise ToolError(f"there is no tool {ctx.tool_name!r} here; the tools are: {known}")
        return tool

    async def _permit(self, tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> None:
        verdict = judge(tool)
        if verdict == "require-approval" and await self._consent(tool, deepcopy(dict(args)), scope):
            return
        if verdict != "allow":
            raise ToolDenied(f"{tool.spec.name} needs a person's approval and nobody has given it; it was not run")


async def run_with_limit(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
    """Run a tool at most as long as it may. One that ignores its cancellation is left behind and reported."""
    running = asyncio.ensure_future(tool.run(args, scope))
    try:
        done, _ = await asyncio.wait([running], timeout=tool.timeout)
    except asyncio.CancelledError:
        await _abandon(running, tool, STOP_GRACE)
        raise
    if running.cancelled():  # from inside: nobody has asked it to stop
        raise _CutOff(f"{tool.spec.name} was cancelled by something it uses and gave no result")
    if done:
        return running.result()
    await _abandon(running, tool, GRACE)
    raise ToolTimeout(f"{tool.spec.name} took longer than {tool.timeout:g} s and was stopped; try something smaller")


async def _abandon(running: "asyncio.Future[ToolOutput]", tool: Tool, grace: float) -> None:
    running.cancel()
    running.add_done_callback(_look_away)
    done, _ = await asyncio.wait([running], timeout=grace)
    if not done:
        log.error("tool %s ignored its cancellation and was left behind", tool.spec.name)


def _look_away(running: "asyncio.Future[ToolOutput]") -> None:
    if not running.cancelled():
        running.exception()


def _failed(ctx: ToolCallContext, status: ToolStatus, failure: ToolFailure) -> ToolResult:
    return ToolResult(ctx.call_id, ctx.tool_name, failure.message, status=status, error=failure)


def _has_begun(ctx: ToolCallContext) -> bool:
    """Something that moves money has been started: only its own word, result or ToolError, can say how that ended."""
    return ctx.call_id in RunningTurn.of(ctx.step.turn).log.begun


def guarded(result: ToolResult, call: ToolCall, given: Collection[Fact]) -> ToolResult:
    """Applied to whatever leaves the ring, so that no layer can put anything unguarded, or another's, past it.

    Of the facts only those stay that a tool has `given`: a layer may take one away, and never make one up.
    """
    content = guard_result(result.content)
    facts = tuple(fact for fact in result.facts if fact in given)
    if (content, result.call_id, result.name, facts) == (result.content, call.id, call.name, result.facts):
        return result
    return ToolResult(call.id, call.name, content, result.status, facts, result.error)


def refused(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call.id, call.name, why, status="denied", error=ToolFailure("ToolDenied", why))


def unreadable(call_id: str, name: str, text: str) -> ToolResult:
    error = InvalidArguments(f"the arguments of {name} are not one complete JSON object: {text[:200]!r}; call it again")
    return ToolResult(call_id, name, str(error), status="error", error=ToolFailure("InvalidArguments", str(error)))


def unknown_outcome(call_id: str, name: str) -> ToolResult:
    """For a transactional call that had begun and came to no known end. It is never begun again to find out."""
    text = "it is unknown whether this happened: it began and was cut off. Do not repeat it: tell the person and ask."
    return ToolResult(call_id, name, text, status="unknown")
