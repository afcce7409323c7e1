"""What the events of a turn make of a conversation, line by line: the same as the fold in SQLite makes of its rows."""

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, ToolEnded, ToolStarted, Truncate, TurnEvent
from finclaw.storage.jsonl.record import MessageLine


def folded(lines: Sequence[MessageLine], turn: str, events: Sequence[TurnEvent]) -> list[MessageLine]:
    """The lines after the turn. Those that no event touches are the very same objects."""
    result = list(lines)
    for event in events:
        match event:
            case Append(message):
                if not message.passing:
                    result.append(MessageLine(turn, message))
            case Replace(target, message):
                result = [_with(line, message) if line.message.id == target else line for line in result]
            case Remove(target):
                result = [line for line in result if line.message.id != target]
            case Truncate(keep_last):
                result = result[-keep_last:] if keep_last > 0 else []
            case Patch(target, metadata):
                result = [
                    _with(line, replace(line.message, metadata={**line.message.metadata, **metadata}))
                    if line.message.id == target
                    else line
                    for line in result
                ]
            case ToolStarted() | ToolEnded():
                pass  # it spoke of this turn only
            case _:
                assert_never(event)
    return result


def _with(line: MessageLine, message: Message) -> MessageLine:
    return MessageLine(line.turn, message)


def stays_within(events: Sequence[TurnEvent]) -> bool:
    """Whether the turn speaks of nothing but its own messages: then what was there before need not even be read."""
    own: set[str] = set()
    for event in events:
        match event:
            case Append(message):
                own.add(message.id)
            case Replace(target, message):
                if target not in own:
                    return False
                own.add(message.id)
            case Remove(target) | Patch(target):
                if target not in own:
                    return False
            case Truncate():
                return False
            case ToolStarted() | ToolEnded():
                pass
            case _:
                assert_never(event)
    return True


def begins_with(lines: Sequence[MessageLine], before: Sequence[MessageLine]) -> bool:
    """Whether nothing happened to what was there before."""
    return len(lines) >= len(before) and all(one is other for one, other in zip(before, lines, strict=False))
