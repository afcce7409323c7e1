"""How a turn is written down when it ends: the conversation keeps what the person saw, and no call without a result."""

from datetime import datetime

from msgspec.structs import replace

from finclaw.agent.log import TurnLog
from finclaw.agent.tool_call import unknown_outcome
from finclaw.kernel.envelope import new_id
from finclaw.kernel.message import Append, Message, Replace, Source, Text, ToolCall, ToolResult

ABORTED = "[Execution aborted]"


def say(turn: TurnLog, text: str, now: datetime) -> None:
    """Make `text` the turn's last words: what layers or the gate changed is changed in the conversation too."""
    last = turn.messages[-1] if turn.messages else None
    if last is None or last.role != "assistant" or last.tool_calls:
        turn.push(Append(Message(new_id(), "assistant", (Text(text),), Source("system"), now)))
    elif last.text != text:
        kept = tuple(block for block in last.blocks if not isinstance(block, Text))
        turn.push(Replace(last.id, replace(last, blocks=(*kept, Text(text)))))


def close_conversation(turn: TurnLog, text: str, now: datetime) -> None:
    """End a turn that did not get through: every call gets a true result, the person's last sight is the last word."""
    left_open = turn.unanswered()
    if left_open is not None:
        _, calls = left_open
        results = tuple(_last_known(turn, call) for call in calls)
        turn.push(Append(Message(new_id(), "tool", results, Source("system"), now)))
    say(turn, text, now)


def _last_known(turn: TurnLog, call: ToolCall) -> ToolResult:
    """A call may have finished while another was running, and one that moves money may have done so unseen."""
    if call.id in turn.heard:
        return turn.heard[call.id]
    if call.id in turn.begun:
        return unknown_outcome(call.id, call.name)
    return ToolResult(call.id, call.name, ABORTED, status="skipped")
