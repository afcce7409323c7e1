"""What is taken out of a request before it is sent: approval ids always, thoughts where the API refuses them."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.message import Message, Thinking
from finclaw.transcript.approval_ids import holds_no_id, without_approval_ids, without_ids_in_message
from finclaw.transcript.history import behind_pages, pages_of, with_pages

_KEPT: Final = 1_024


class ApprovalIdFilter:
    """Messages that need no change, and changed ones from request to request, stay identical objects for caching."""

    def __init__(self) -> None:
        self._changed: OrderedDict[str, tuple[Message, Message]] = OrderedDict()

    def take_out(self, request: ModelRequest) -> ModelRequest:
        messages = self._clean(request.messages)
        system = without_approval_ids(request.system)
        if messages is request.messages and system is request.system:
            return request
        return replace(request, messages=messages, system=system)

    def _clean(self, messages: Sequence[Message]) -> Sequence[Message]:
        pages = pages_of(messages)
        tail = behind_pages(messages)
        clean_pages = tuple([page.without_approval_ids() for page in pages])
        same_pages = all(map(_is_same, clean_pages, pages))  # by identity: equal ones would be read to the end
        if same_pages and all(map(holds_no_id, tail)):
            return messages
        clean_tail = tuple([self._clean_message(message) for message in tail])
        if same_pages and all(map(_is_same, clean_tail, tail)):
            return messages
        return with_pages(clean_pages, clean_tail)

    def _clean_message(self, message: Message) -> Message:
        if holds_no_id(message):
            return message
        clean = without_ids_in_message(message)
        if clean is message:
            return message
        former = self._changed.get(message.id)
        if former is not None and former[0] is message:
            return former[1]
        self._changed[message.id] = message, clean
        if len(self._changed) > _KEPT:
            self._changed.popitem(last=False)
        return clean


def _is_same(one: object, other: object) -> bool:
    return one is other


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
