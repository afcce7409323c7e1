"""How a turn is written down when it ends: the conversation keeps what the person saw, and no call without a result."""

from datetime import datetime

from msgspec.structs import replace

from finclaw.agent.log import TurnLog
from finclaw.kernel.envelope import new_id
from finclaw.kernel.message import Append, Message, Replace, Source, Text, ToolResult

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
    """End a turn that did not get through: open calls get a result, and the person's last sight is the last word."""
    left_open = turn.unanswered()
    if left_open is not None:
        _, calls = left_open
        results = tuple(ToolResult(call.id, call.name, ABORTED, status="skipped") for call in calls)
        turn.push(Append(Message(new_id(), "tool", results, Source("system"), now)))
    say(turn, text, now)
