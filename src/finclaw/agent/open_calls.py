"""Calls that a turn leaves open: each gets a true result, for a conversation with an open call cannot be sent again."""

from datetime import datetime

from finclaw.agent.log import TurnLog
from finclaw.agent.tool_call import unknown_outcome
from finclaw.kernel.envelope import new_id
from finclaw.kernel.message import Append, Message, Source, ToolCall, ToolResult
from finclaw.transcript.integrity import ABORTED


def answer_open_calls(turn: TurnLog, now: datetime) -> None:
    """A layer may catch the error that cut a step off, and answer in its own words: then its calls are still open."""
    left_open = turn.unanswered()
    if left_open is not None:
        _, calls = left_open
        results = tuple(_last_known(turn, call) for call in calls)
        turn.push(Append(Message(new_id(), "tool", results, Source("tool"), now)))


def _last_known(turn: TurnLog, call: ToolCall) -> ToolResult:
    """A call may have finished while another was running, and one that moves money may have done so unseen."""
    if call.id in turn.heard:
        return turn.heard[call.id]
    if call.id in turn.begun:
        return turn.ended.get(call.id) or unknown_outcome(call.id, call.name)
    return ToolResult(call.id, call.name, ABORTED, status="skipped")
