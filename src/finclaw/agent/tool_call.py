"""One tool call, from outside to inside: loop guard, ring of layers, core; then the guard over its result.

`ToolCallRunner` is what surrounds the ring and tells both ends of the call. `ToolCallCore` lies inside it, where no
layer is: final arguments are checked there, policy judges, and the tool runs under a limit.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from copy import deepcopy
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from finclaw.agent.model.structured import StructuredAnswers
from finclaw.agent.permission import Permission
from finclaw.agent.tool_results import (
    OverflowResult,
    OverflowResults,
    crashed_result,
    failed_result,
    refuse_unreadable,
    stopped_result,
)
from finclaw.agent.turn_state.state import CallState, RecordedTurn, TurnState
from finclaw.agent.turn_state.turn_log import APPROVED, unknown_outcome
from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import ExtensionError, ToolError, ToolLoop, ToolStopped, ToolTimeout, ToolUnavailable
from finclaw.kernel.event import (
    Circuit,
    CircuitChanged,
    ToolEndedEvent,
    ToolFailedEvent,
    ToolLooped,
    ToolStartedEvent,
    ToolTimedOut,
    ToolUsed,
    ToolUseEnded,
)
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolCall, ToolEnded, ToolFailure, ToolResult, ToolStarted
from finclaw.kernel.middleware import Ring
from finclaw.kernel.port import Clock, Tool, ToolOutput, ToolScope
from finclaw.kernel.scope import StepContext, ToolCallContext
from finclaw.redaction.redact import describe_error
from finclaw.taint.origin import format_origin, origin_of
from finclaw.taint.sources import sources_met
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.outbound_files import PutBlob, keep_what_fits
from finclaw.tools.registry import ToolRegistry
from finclaw.tools.result_guard import GuardOptions, guard, guard_off_loop
from finclaw.tools.settings import GuardChoice
from finclaw.tools.time_limit import Broken, CutOff, run_with_limit

log = logging.getLogger(__name__)

_MAY_HAVE_HAPPENED: Final = (ToolTimeout, ToolStopped, ToolUnavailable, CutOff)
"""After these an order may have been placed all the same: the line broke, and perhaps behind it."""


class ToolCallRunner:
    def __init__(
        self,
        ring: Ring[ToolCallContext, ToolResult],
        core: Callable[[CallState, ToolCallContext], Coroutine[Any, Any, ToolResult]],
        clock: Clock,
        tools: ToolRegistry,
        overflow: OverflowResults | None,
        guards: GuardChoice,
    ) -> None:
        self._ring = ring
        self._core = core
        self._clock = clock
        self._tools = tools
        self._overflow = overflow
        self._guards = guards

    async def __call__(self, turn: TurnState, ctx: StepContext, call: ToolCall) -> ToolResult:
        """Only cancellation, a loop without end and a layer's mistake get out as exceptions."""
        started = self._clock.monotonic()
        ctx.emit(ToolStartedEvent(call_id=call.id, tool=call.name, **ctx.ids))
        status = "error"
        try:
            result = await self._run_unless_looping(turn, ctx, call)
            status = result.status
        except asyncio.CancelledError:
            status = "aborted"
            if call.id not in turn.log.started:  # of those nobody knows
                turn.log.pending_results.setdefault(call.id, stopped_result(call))
            raise
        except Exception as error:
            self._tell_failure(ctx, call, describe_error(error))
            raise
        finally:
            ms = round((self._clock.monotonic() - started) * 1000, 3)
            ctx.emit(ToolEndedEvent(call_id=call.id, tool=call.name, status=status, duration_ms=ms, **ctx.ids))
        result = replace(result, ms=ms)
        turn.log.pending_results[call.id] = result  # a turn that is cut off still knows what has happened
        if call.id in turn.log.started:  # what moved money is known on disk, at once
            crash_point("tools:money_moved")
            turn.log.push(ToolEnded(result))
            await turn.log.commit()
        ctx.emit(ToolUseEnded(call_id=call.id, tool=call.name, status=status, **ctx.ids))
        ctx.emit(ToolUsed(call_id=call.id, tool=call.name, status=status, duration_ms=ms, **ctx.ids))
        return result

    async def _run_unless_looping(self, turn: TurnState, ctx: StepContext, call: ToolCall) -> ToolResult:
        verdict = turn.loop.judge(call.name, call.given_args)
        action = verdict.action
        if action != "run":
            ctx.emit(ToolLooped(call_id=call.id, tool=call.name, repeats=verdict.repeats, action=action, **ctx.ids))
        if action == "end":
            raise ToolLoop(verdict.words)
        if action == "refuse":
            failure = ToolFailure("ToolDenied", verdict.words, code="loop")
            result = ToolResult(call.id, call.name, verdict.words, "denied", error=failure)
        else:
            result = await self._run_ring(turn, ctx, call)
        if result.is_error:
            error = result.content
            if result.error is not None:
                error = f"{result.error.name}: {result.error.message}"
            self._tell_failure(ctx, call, error)
        turn.loop.note(call.name, call.given_args, result.content)
        if action == "run":
            return result
        return replace(result, content=verdict.with_warning(result.content))

    async def _run_ring(self, turn: TurnState, ctx: StepContext, call: ToolCall) -> ToolResult:
        if call.bad_args is not None:
            return refuse_unreadable(call.id, call.name, call.bad_args)
        shown = ToolCallContext(
            ids=ctx.ids,
            emit=ctx.emit,
            metadata=ctx.metadata.new_child(),
            step=ctx,
            call_id=call.id,
            tool_name=call.name,
            args=dict(call.args),
        )
        inner = CallState(ctx=shown, turn=turn, call=call)
        result = _hold_to_core_result(inner, await self._ring(shown, partial(self._core, inner)))
        if inner.checked_args is not None and (shown.args != call.args or inner.coercion_note):
            turn.log.changed[call.id] = inner.checked_args
        return await self._guard_result(result, inner)

    async def _guard_result(self, result: ToolResult, inner: CallState) -> ToolResult:
        """Guard what leaves the ring: a layer may take facts, files and buttons away, and never make one up."""
        call = inner.call
        options = self._guards.of(call.name)
        guarded = await guard_off_loop(result.content, options, is_error=result.is_error)
        origin = self._origin_of(result, inner)
        if guarded.full is not None and self._overflow is not None:
            session = inner.turn.log.claim.session
            await self._overflow.keep(session, OverflowResult(call.name, call.id, guarded.full, origin))
        own = inner.core_result or ToolResult(call.id, call.name, "")
        facts: tuple[Fact, ...] = ()
        if result.facts:  # of this call, or of an earlier one of this turn that a layer has remembered
            known = {fact for core in (own, *inner.turn.log.results) for fact in core.facts}
            facts = tuple(fact for fact in result.facts if fact in known)
        return ToolResult(
            call_id=call.id,
            name=call.name,
            content=guarded.content,
            status=result.status,
            facts=facts,
            error=safe_failure(result.error, options),
            origin=origin,
            files=tuple(file for file in result.files if file in own.files),
            actions=tuple(button for button in result.actions if button in own.actions),
        )

    def _origin_of(self, result: ToolResult, inner: CallState) -> str:
        """A layer may say that words are a stranger's, never that they are not; and it may have kept some of them."""
        core = inner.core_result
        if core is not None:
            if core.status in ("denied", "awaiting", "invalid") and result.content == core.content:
                return ""  # nothing ran, so the words are our own
            if origin := format_origin(core.origin):
                return origin
        if origin := format_origin(result.origin):
            return origin
        tool = self._tools.get(inner.ctx.tool_name)
        if tool is None:
            return ""
        return origin_of(tool, inner.checked_args or inner.ctx.args)

    @staticmethod
    def _tell_failure(ctx: StepContext, call: ToolCall, error: str) -> None:
        ctx.emit(ToolFailedEvent(call_id=call.id, tool=call.name, error=error, **ctx.ids))


def safe_failure(failure: ToolFailure | None, options: GuardOptions) -> ToolFailure | None:
    """Its words were a tool's or a layer's too."""
    if failure is None:
        return None
    message = guard(failure.message, options, is_error=True).content
    suggestion = failure.suggestion and guard(failure.suggestion, options, is_error=True).content
    return replace(failure, message=message, suggestion=suggestion)


def _hold_to_core_result(inner: CallState, result: ToolResult) -> ToolResult:
    """No layer may hide or invent that a person is asked, or how a call that moved money ended."""
    core = inner.core_result
    if core is not None and core.status == "awaiting":
        return core
    if result.status == "awaiting":
        return replace(result, status="error")
    if inner.ctx.call_id not in inner.turn.log.started:
        return result
    if core is None:  # a layer did not wait for it
        return unknown_outcome(inner.ctx.call_id, inner.ctx.tool_name)
    return result if result.status == core.status else core


# ── the core ────────────────────────────────────────────────────────────────────────────────────────────────


class ToolCallCore:
    def __init__(
        self,
        tools: ToolRegistry,
        arguments: ArgumentCheck,
        permission: Permission,
        answers: StructuredAnswers,
        recorded: RecordedTurn | None,
        put_blob: PutBlob | None,
    ) -> None:
        """`recorded`: tools are not run, but answer as they did in a turn that is run again."""
        self._tools = tools
        self._arguments = arguments
        self._permission = permission
        self._answers = answers
        self._recorded = recorded
        self._put_blob = put_blob

    async def __call__(self, call: CallState, ctx: ToolCallContext) -> ToolResult:
        """Whatever happens to a tool becomes a result the model can read; only cancellation passes."""
        if (ctx.tool_name, ctx.call_id) != (call.call.name, call.call.id):
            raise ExtensionError(f"a layer changed which tool {call.call.id!r} calls; only ctx.args may be changed")
        recorded = await self._recorded.answer_call(call) if self._recorded else None
        result = call.core_result = recorded or await self._run_to_result(call)
        return result

    async def _run_to_result(self, call: CallState) -> ToolResult:
        ctx = call.ctx
        try:
            output = await self._run(call)
        except ToolError as error:
            if isinstance(error, _MAY_HAVE_HAPPENED) and _has_begun(call):
                return unknown_outcome(ctx.call_id, ctx.tool_name)
            return failed_result(ctx.call_id, ctx.tool_name, error)
        except Exception as error:  # a tool is a stranger: its bug is a result, not the end of the turn
            log.exception("tool %s failed", ctx.tool_name)
            if _has_begun(call):
                return unknown_outcome(ctx.call_id, ctx.tool_name)
            kind = type(error).__name__
            if isinstance(error, Broken):
                kind = error.kind
            return crashed_result(ctx.call_id, ctx.tool_name, kind)
        files, refused = await keep_what_fits(self._put_blob, output.files)
        content = "\n\n".join(filter(None, (output.content, call.coercion_note, refused)))
        return ToolResult(
            call_id=ctx.call_id,
            name=ctx.tool_name,
            content=content,
            facts=output.facts,
            origin=output.origin,
            files=files,
            actions=output.actions,
        )

    async def _run(self, call: CallState) -> ToolOutput:
        turn = call.turn
        ctx = call.ctx
        tool = self._find_offered(call)
        # A copy of our own: a layer may still hold the one it was given, and change it while a person decides.
        checked = await self._arguments.check_off_loop(tool.spec, deepcopy(ctx.args))
        args = call.checked_args = checked.args
        call.coercion_note = checked.note
        scope = self._scope(call)
        await self._permission(call, tool, args, scope)
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

    def _scope(self, call: CallState) -> ToolScope:
        turn = call.turn
        ctx = call.ctx
        return ToolScope(
            session=turn.log.claim.session,
            turn_id=turn.log.claim.turn_id,
            call_id=ctx.call_id,
            sender=turn.asked_in.sender,
            channel=turn.asked_in.inbound.channel,
            person=turn.asked_in.person.id,
            offered=turn.offered,
            ask=partial(self._answers, turn, ctx.tool_name),
            sources=partial(sources_met, turn.log.conversation, turn.asked_in.inbound),
            facts=turn.log.known_facts,
        )

    def _find_offered(self, call: CallState) -> Tool:
        name = call.ctx.tool_name
        offered = call.turn.offered
        tool = self._tools.get(name)
        if tool is None or (name not in offered and name not in call.turn.denied):  # of those policy says why
            known = ", ".join(sorted(offered)) or "none"
            raise ToolError(f"there is no tool {name!r} here; the tools are: {known}", code="no_such_tool")
        return tool


def _tell_circuit(ctx: ToolCallContext, tool: Tool, before: Circuit, after: Circuit) -> None:
    log.warning("the circuit to %s is %s now, after a call of %s", tool.upstream, after, tool.spec.name)
    ctx.emit(CircuitChanged(upstream=tool.upstream, tool=tool.spec.name, before=before, after=after, **ctx.ids))


def _has_begun(call: CallState) -> bool:
    """It moves money or was approved, and has started: only its own word, result or ToolError, says how that ended."""
    return call.ctx.call_id in call.turn.log.started
