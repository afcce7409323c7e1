"""How a request asks for thinking, and when it had better not."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.message import Message
from finclaw.kernel.wishes import THOUGHTS
from finclaw.providers.anthropic.message import opens_with_thinking

Thoughts = dict[str, Any]

ADAPTIVE: Final[Thoughts] = {"type": "adaptive"}
"""The model itself finds out how much; how hard it tries is told by the effort."""
LEAST: Final = 1_024
"""The API takes no smaller budget; and so much at least is left for the answer."""


def thoughts(request: ModelRequest) -> Thoughts | None:
    """None: nothing is said about it.

    The models that refuse a temperature are those that refuse a budget for thoughts; the others know nothing else.
    """
    features = request.model.features
    if request.thinking == "off" or not features.thinking:
        return None
    if not features.temperature:
        return ADAPTIVE
    budget = min(THOUGHTS[request.thinking], request.max_tokens - LEAST)
    if budget < LEAST or _goes_on_without(request.messages, request.model.provider):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _goes_on_without(messages: Sequence[Message], provider: str) -> bool:
    """Whether calls are being answered that began without a thought: thinking cannot be turned on in their midst."""
    first: Message | None = None
    for is_theirs, side in groupby(reversed(messages), key=_is_theirs):
        if is_theirs:
            *_, first = side
        elif not any(message.tool_results for message in side):
            break
    return first is not None and not opens_with_thinking(first, provider)


def _is_theirs(message: Message) -> bool:
    return message.role == "assistant"
