"""A filter that keeps approval ids from models: every request passes it before it is sent."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.message import Message
from finclaw.transcript.approval_ids import holds_no_id, without_approval_ids, without_ids_in_message
from finclaw.transcript.history import behind_pages, pages_of, with_pages

_KEPT: Final = 1_024


class ApprovalIdFilter:
    """A filter that takes approval ids out of requests. A message without one stays the very same object.

    So does a changed one from request to request, for who sends the beginning of a conversation again compares those.
    """

    def __init__(self) -> None:
        self._changed: OrderedDict[str, tuple[Message, Message]] = OrderedDict()

    def take_out(self, request: ModelRequest) -> ModelRequest:
        messages, system = self._clean(request.messages), without_approval_ids(request.system)
        if messages is request.messages and system is request.system:
            return request
        return replace(request, messages=messages, system=system)

    def _clean(self, messages: Sequence[Message]) -> Sequence[Message]:
        pages, tail = pages_of(messages), behind_pages(messages)
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
