"""A request without the thinking of earlier answers: its API may refuse a thought for what stands before it.

That shows in nothing but the words of a refusal, and those are not read. So it is tried, once in a turn, wherever
thoughts went along; leaving them out is always allowed, and costs no more than thinking anew.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.message import Message, Thinking


def without_thinking(request: ModelRequest) -> ModelRequest | None:
    """None: no thought went along, so that none can be left out."""
    if not _carries_thoughts(request.messages, request.model):
        return None
    return replace(request, messages=strip_thinking(request.messages))


def strip_thinking(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Messages that have none stay the very same, and so does what is kept of them."""
    return tuple([_drop_thinking(message) if message.role == "assistant" else message for message in messages])


def _drop_thinking(message: Message) -> Message:
    if Thinking not in map(type, message.blocks):
        return message
    return replace(message, blocks=tuple(block for block in message.blocks if not isinstance(block, Thinking)))


def _carries_thoughts(messages: Sequence[Message], model: Model) -> bool:
    """Only signed ones go back, and only to who signed them; bound ones within their own turn."""
    for message in reversed(messages):
        if message.role == "assistant":
            if _is_of(message, model) and any(type(each) is Thinking and each.signature for each in message.blocks):
                return True
        elif model.features.bound_thinking and message.role != "tool" and not message.passing:
            return False
    return False


def _is_of(message: Message, model: Model) -> bool:
    name = message.metadata.get("model")
    return not isinstance(name, str) or name.partition("/")[0] == model.provider
