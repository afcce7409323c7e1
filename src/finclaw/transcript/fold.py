"""The fold: what the events of a turn make of a conversation, once the turn has ended.

Two others apply the same events step by step and must agree with it (`tests/transcript/test_fold.py`): a running turn's
`Conversation`, which knows passing messages too, and the SQL that changes a conversation's rows where they lie.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, assert_never

from msgspec.structs import replace

from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, ToolEnded, ToolStarted, Truncate, TurnEvent

T = TypeVar("T")


def fold(messages: Sequence[Message], events: Iterable[TurnEvent]) -> list[Message]:
    """The messages after the turn. Those that no event touches are the very same objects; passing ones are left out."""
    return fold_items(messages, events, lambda message: message, lambda message, _: message)


def fold_items(
    items: Sequence[T],
    events: Iterable[TurnEvent],
    message_of: Callable[[T], Message],
    item_with: Callable[[Message, T | None], T],
) -> list[T]:
    """The same for items that hold a message each. `item_with` makes a new item, in place of another or at the end."""
    result = list(items)
    for event in events:
        match event:
            case Append(message):
                if not message.passing:
                    result.append(item_with(message, None))
            case Replace(target, message):
                result = [item_with(message, item) if message_of(item).id == target else item for item in result]
            case Remove(target):
                result = [item for item in result if message_of(item).id != target]
            case Truncate(keep_last):
                result = result[-keep_last:] if keep_last > 0 else []
            case Patch(target, metadata):
                result = [
                    item_with(patch_message(message_of(item), metadata), item)
                    if message_of(item).id == target
                    else item
                    for item in result
                ]
            case ToolStarted() | ToolEnded():
                pass  # it spoke of this turn only
            case _:
                assert_never(event)
    return result


def patch_message(message: Message, metadata: Mapping[str, Any]) -> Message:
    return replace(message, metadata={**message.metadata, **metadata})


def touches_only_own(events: Sequence[TurnEvent]) -> bool:
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
