"""The request sanitizer: a repaired conversation as every model's API takes it.

History keeps its names and ids; stand-ins live in the request. Messages that need no change are the same objects, so
that whoever keeps their bytes finds them again.
"""

import operator
import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.message import Block, Image, Message, Source, Text, Thinking, ToolCall, ToolResult

OPENING: Final = "[The conversation begins here]"
"""In the user's name, for APIs that do not let the assistant speak first."""
UNSEEN: Final = "[image left out: this model cannot see images]"
"""In place of an image, for a model that would refuse it."""

_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_LENGTH: Final = 64
_ID_LENGTH: Final = 40


def sanitize_request(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Give it what `mend` gave: it relies on every result standing right behind its call."""
    ids = _Ids()
    sent = [each for message in messages if (each := _sendable(message, ids)) is not None]
    if sent and sent[0].role == "assistant":
        first = sent[0]
        sent.insert(0, Message(f"{first.id}~opening", "user", (Text(OPENING),), Source("system"), first.created_at))
    if sent and sent[-1].role == "assistant":
        sent[-1] = _without_trailing_space(sent[-1])
    return tuple(sent)


def legal_name(name: str) -> str:
    """The name itself, or one as near to it as APIs allow."""
    return _ILLEGAL.sub("_", name)[:_NAME_LENGTH] or "unnamed"


class _Ids:
    """Call ids that are legal, and unique in the request: some models count theirs anew in every answer."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}
        self._waiting: dict[str, list[str]] = {}

    def assign(self, calls: Sequence[ToolCall]) -> list[str]:
        """The ids to send for the calls of one message; `answered` then tells them to the results behind it."""
        sent = [self._unique(call.id) for call in calls]
        self._waiting = {}
        for call, id in zip(calls, sent, strict=True):
            self._waiting.setdefault(call.id, []).append(id)
        return sent

    def take(self, call_id: str) -> str:
        waiting = self._waiting.get(call_id)
        return waiting.pop(0) if waiting else call_id

    def _unique(self, id: str) -> str:
        legal = _ILLEGAL.sub("_", id)[:_ID_LENGTH] or "call"
        sent = legal
        while sent in self._used:
            number = self._next[legal] = self._next.get(legal, 1) + 1
            sent = f"{legal[: _ID_LENGTH - len(str(number)) - 1]}-{number}"
        self._used.add(sent)
        return sent


def _sendable(message: Message, ids: _Ids) -> Message | None:
    """None when nothing in it can be sent."""
    blocks = message.blocks
    if len(blocks) == 1 and isinstance(text := blocks[0], Text):  # nearly all of them
        return message if text.text.strip() else None
    call_ids = iter(ids.assign(calls)) if (calls := message.tool_calls) else iter(())
    sent: list[Block] = []
    for block in blocks:
        match block:
            case ToolCall():
                sent.append(_call(block, next(call_ids)))
            case ToolResult():
                sent.append(_result(block, ids.take(block.call_id)))
            case Text() | Image() | Thinking():
                if _is_taken(block, message.role == "assistant"):
                    sent.append(block)
    while sent and isinstance(sent[-1], Thinking):  # no message may end in thinking
        sent.pop()
    return _with(message, sent)


def _is_taken(block: Text | Image | Thinking, is_assistant: bool) -> bool:
    match block:
        case Text(text):
            return bool(text.strip())
        case Image():
            return not is_assistant
        case Thinking():
            return is_assistant and bool(block.signature)


def _call(call: ToolCall, id: str) -> ToolCall:
    name = legal_name(call.name)
    return call if (id, name) == (call.id, call.name) else replace(call, id=id, name=name)


def _result(result: ToolResult, id: str) -> ToolResult:
    return result if id == result.call_id else replace(result, call_id=id)


def _with(message: Message, blocks: list[Block]) -> Message | None:
    if not blocks:
        return None
    same = len(blocks) == len(message.blocks) and all(map(operator.is_, blocks, message.blocks))
    return message if same else replace(message, blocks=tuple(blocks))


def _without_trailing_space(message: Message) -> Message:
    final = message.blocks[-1]
    if not isinstance(final, Text) or final.text == final.text.rstrip():
        return message
    return replace(message, blocks=(*message.blocks[:-1], Text(final.text.rstrip())))


def without_thinking(request: ModelRequest) -> ModelRequest | None:
    """None: no thought went along."""
    if not _carries_thoughts(request.messages, request.model):
        return None
    return replace(request, messages=strip_thinking(request.messages))


def strip_thinking(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple([_drop_thinking(message) if message.role == "assistant" else message for message in messages])


def _drop_thinking(message: Message) -> Message:
    if Thinking not in map(type, message.blocks):
        return message
    return replace(message, blocks=tuple(block for block in message.blocks if not isinstance(block, Thinking)))


def _carries_thoughts(messages: Sequence[Message], model: Model) -> bool:
    """Only signed ones go back, and only to who signed them; bound ones within their own turn."""
    for message in reversed(messages):
        if message.role == "assistant":
            name = message.metadata.get("model")
            is_own = not isinstance(name, str) or name.partition("/")[0] == model.provider
            if is_own and any(type(each) is Thinking and each.signature for each in message.blocks):
                return True
        elif model.features.bound_thinking and message.role != "tool" and not message.passing:
            return False
    return False
