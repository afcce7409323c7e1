"""Results that the core itself gives for a tool call: refused, unreadable, stopped or skipped.

Each call of a turn gets a true result, for a conversation with an open call cannot be sent to a model again.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from msgspec import Struct, convert, to_builtins

from finclaw.errors import (
    InvalidArguments,
    ToolAwaiting,
    ToolDenied,
    ToolError,
    ToolStopped,
    ToolTimeout,
    ToolUnavailable,
)
from finclaw.kernel.message import ToolCall, ToolFailure, ToolResult, ToolStatus
from finclaw.redaction.redact import redact_for_display

_STATUS: Final[Mapping[type[ToolError], ToolStatus]] = {
    InvalidArguments: "invalid",
    ToolDenied: "denied",
    ToolAwaiting: "awaiting",
    ToolTimeout: "timeout",
    ToolStopped: "stopped",
    ToolUnavailable: "unavailable",
}


def failed_result(call_id: str, name: str, error: ToolError) -> ToolResult:
    status: ToolStatus = "error"
    for kind, known in _STATUS.items():
        if isinstance(error, kind):
            status = known
    return ToolResult(call_id, name, str(error), status, error=failure_of(error))


def crashed_result(call_id: str, name: str, kind: str) -> ToolResult:
    """Of a tool with a bug: what it raised is named, and not quoted."""
    text = f"{name} failed: {kind}"
    return ToolResult(call_id, name, text, "error", error=ToolFailure(kind, text, code="crashed"))


def failure_of(error: ToolError) -> ToolFailure:
    return ToolFailure(type(error).__name__, str(error), error.suggestion, code=error.code)


def refuse_unreadable(call_id: str, name: str, text: str) -> ToolResult:
    excerpt = redact_for_display(text)[:200]  # in this order: no half of one is left
    error = InvalidArguments(f"the arguments of {name} are not one complete JSON object: {excerpt!r}; call it again")
    return ToolResult(call_id, name, str(error), "invalid", error=failure_of(error))


def stopped_result(call: ToolCall) -> ToolResult:
    """It was running when its turn was stopped: unlike one that was skipped, it may have done some of its work."""
    text = "it was stopped before it gave a result, together with its turn"
    return ToolResult(call.id, call.name, text, "stopped", error=failure_of(ToolStopped(text)))


def skipped_result(call: ToolCall) -> ToolResult:
    """Behind one that waits for a person: what they say may change whether this is wanted at all."""
    return ToolResult(call.id, call.name, "skipped: another call waits for a person's approval", "skipped")


def skipped_for_message(call: ToolCall) -> ToolResult:
    """Not begun because the person has written again: the model reads that first, and may ask anew."""
    return ToolResult(call.id, call.name, "skipped: new message", "skipped")


KEEPER: Final = "read-result"
_MOST: Final = 8  # for each session; nobody reads on in what is an hour old


class OverflowResult(Struct, frozen=True):
    tool: str
    call_id: str
    text: str
    origin: str = ""  # whose words it holds, on every later page too


class OverflowResults:
    """The rests of long results. `recall` and `remember` are the store's, as extensions have them."""

    def __init__(
        self, recall: Callable[[str, str], Awaitable[Any]], remember: Callable[[str, str, Any], Awaitable[None]]
    ) -> None:
        self._recall = recall
        self._remember = remember

    async def keep(self, session: str, aside: OverflowResult) -> None:
        others = [each for each in await self.of(session) if each.call_id != aside.call_id]
        await self._remember(KEEPER, session, to_builtins([aside, *others][:_MOST]))

    async def of(self, session: str) -> list[OverflowResult]:
        kept = cast("list[Any] | None", await self._recall(KEEPER, session))
        return convert(kept or [], list[OverflowResult])
