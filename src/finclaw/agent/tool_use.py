"""One tool use from outside: the loop guard before its ring, the result guard behind it, and both ends told."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from msgspec.structs import replace

from finclaw.agent.asides import Aside, Asides
from finclaw.agent.running import RunningCall, RunningTurn
from finclaw.agent.tool_call import refused, stopped, unknown_outcome, unreadable
from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import ToolLoop
from finclaw.kernel.event import (
    ToolEndedEvent,
    ToolFailedEvent,
    ToolLooped,
    ToolStartedEvent,
    ToolUsed,
    ToolUseEnded,
)
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolCall, ToolEnded, ToolFailure, ToolResult
from finclaw.kernel.port import Clock
from finclaw.kernel.scope import StepContext, ToolCallContext
from finclaw.tools.guard import GuardOptions, guard, guard_off_loop
from finclaw.tools.guard.choice import GuardChoice
from finclaw.tools.guard.told import reason_of
from finclaw.tools.loop import LoopVerdict
from finclaw.tools.origin import origin_of, shown
from finclaw.tools.registry import ToolRegistry

ToolRing = Callable[[ToolCallContext], Coroutine[Any, Any, ToolResult]]


class UseTool:
    def __init__(
        self,
        ring: ToolRing,
        clock: Clock,
        tools: ToolRegistry | None = None,
        asides: Asides | None = None,
        guards: GuardChoice | None = None,
    ) -> None:
        self._ring = ring
        self._clock = clock
        self._tools = tools
        self._asides = asides
        self._guards = guards or GuardChoice()

    async def __call__(self, ctx: StepContext, call: ToolCall) -> ToolResult:
        """What the model gets for this call. Only cancellation, a loop without end and a layer's mistake get out."""
        turn = RunningTurn.of(ctx.turn)
        started = self._clock.monotonic()
        ctx.emit(ToolStartedEvent(call_id=call.id, tool=call.name, **ctx.ids))
        status = "error"
        try:
            result = await self._unless_looping(ctx, turn, call)
            status = result.status
        except asyncio.CancelledError:
            status = "aborted"
            if call.id not in turn.log.begun:  # of those nobody knows
                turn.log.heard.setdefault(call.id, stopped(call))
            raise
        except Exception as error:
            self._tell_failure(ctx, call, reason_of(error))
            raise
        finally:
            ms = round((self._clock.monotonic() - started) * 1000, 3)
            ctx.emit(ToolEndedEvent(call_id=call.id, tool=call.name, status=status, duration_ms=ms, **ctx.ids))
        result = replace(result, ms=ms)
        await self._keep(turn, result)
        ctx.emit(ToolUseEnded(call_id=call.id, tool=call.name, status=status, **ctx.ids))
        ctx.emit(ToolUsed(call_id=call.id, tool=call.name, status=status, duration_ms=ms, **ctx.ids))
        return result

    async def _unless_looping(self, ctx: StepContext, turn: RunningTurn, call: ToolCall) -> ToolResult:
        args = call.args if call.bad_args is None else {"": call.bad_args}
        verdict = turn.loop.judge(call.name, args)
        if verdict.action != "run":
            self._tell(ctx, call, verdict)
        if verdict.action == "end":
            raise ToolLoop(verdict.words)
        result = refused(call, verdict.words) if verdict.action == "refuse" else await self._through_ring(ctx, call)
        if result.is_error:
            error = result.content if result.error is None else f"{result.error.name}: {result.error.message}"
            self._tell_failure(ctx, call, error)
        turn.loop.note(call.name, args, result.content)
        return result if verdict.action == "run" else replace(result, content=verdict.warned(result.content))

    async def _through_ring(self, ctx: StepContext, call: ToolCall) -> ToolResult:
        if call.bad_args is not None:
            return unreadable(call.id, call.name, call.bad_args)
        inner = RunningCall(
            ids=ctx.ids,
            emit=ctx.emit,
            metadata=ctx.metadata.new_child(),
            step=ctx,
            call_id=call.id,
            tool_name=call.name,
            args=dict(call.args),
            call=call,
        )
        result = _true_to_its_word(inner, await self._ring(inner))
        if inner.given is not None and (inner.args != call.args or inner.reread):
            RunningTurn.of(ctx.turn).log.changed[call.id] = inner.given
        return await self._guarded(result, inner, self._given(inner) if result.facts else ())

    async def _guarded(self, result: ToolResult, inner: RunningCall, given: Collection[Fact]) -> ToolResult:
        """Applied to whatever leaves the ring, so that no layer can put anything unguarded, or another's, past it.

        Of the facts only those stay that a tool has `given`: a layer may take one away, and never make one up.
        """
        call, options = inner.call, self._guards.of(inner.call.name)
        guarded = await guard_off_loop(result.content, options, is_error=result.is_error)
        origin = self._origin(result, inner)
        if guarded.full is not None and self._asides is not None:
            session = RunningTurn.of(inner.turn).log.claim.session
            await self._asides.keep(session, Aside(call.name, call.id, guarded.full, origin))
        facts = tuple(fact for fact in result.facts if fact in given)
        failure = safe_failure(result.error, options)
        return ToolResult(call.id, call.name, guarded.content, result.status, facts, failure, origin=origin)

    def _origin(self, result: ToolResult, inner: RunningCall) -> str:
        """A layer may say that words are a stranger's, never that they are not; and it may have kept some of them."""
        word = inner.word
        if word is not None and word.status in ("denied", "awaiting", "invalid") and result.content == word.content:
            return ""  # nothing ran, so nobody else has said a word
        tool = None if self._tools is None else self._tools.get(inner.tool_name)
        told = ("" if word is None else word.origin) or result.origin
        return shown(told) or ("" if tool is None else origin_of(tool, inner.given or inner.args))

    @staticmethod
    def _given(inner: RunningCall) -> Collection[Fact]:
        """By this call, or by an earlier one of this turn that a layer has remembered."""
        own = () if inner.word is None else inner.word.facts
        earlier = RunningTurn.of(inner.turn).log.results
        return (*own, *(fact for result in earlier for fact in result.facts))

    @staticmethod
    async def _keep(turn: RunningTurn, result: ToolResult) -> None:
        """A turn that is cut off still knows what has happened; what moved money is known on disk, at once."""
        turn.log.heard[result.call_id] = result
        if result.call_id in turn.log.begun:
            crash_point("tools:money_moved")
            turn.log.push(ToolEnded(result))
            await turn.log.commit()

    @staticmethod
    def _tell_failure(ctx: StepContext, call: ToolCall, error: str) -> None:
        ctx.emit(ToolFailedEvent(call_id=call.id, tool=call.name, error=error, **ctx.ids))

    @staticmethod
    def _tell(ctx: StepContext, call: ToolCall, verdict: LoopVerdict) -> None:
        action = verdict.action
        if action != "run":
            ctx.emit(ToolLooped(call_id=call.id, tool=call.name, repeats=verdict.repeats, action=action, **ctx.ids))


def safe_failure(failure: ToolFailure | None, options: GuardOptions) -> ToolFailure | None:
    """Its words were a tool's or a layer's too."""
    if failure is None:
        return None
    suggestion = None if failure.suggestion is None else guard(failure.suggestion, options, is_error=True).content
    return replace(failure, message=guard(failure.message, options, is_error=True).content, suggestion=suggestion)


def _true_to_its_word(inner: RunningCall, result: ToolResult) -> ToolResult:
    """Of what has begun to move money a layer may say more or less, and never that it ended otherwise.

    Nor may it hide that a person is asked, or say so where nobody is.
    """
    asked = inner.word is not None and inner.word.status == "awaiting"
    if asked or result.status == "awaiting":
        return inner.word if inner.word is not None and asked else replace(result, status="error")
    if inner.call_id not in RunningTurn.of(inner.turn).log.begun:
        return result
    if inner.word is None:  # a layer did not wait for it
        return unknown_outcome(inner.call_id, inner.tool_name)
    return result if result.status == inner.word.status else inner.word
