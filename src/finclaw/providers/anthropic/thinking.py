"""The thinking field of a request: how it asks for thinking, when it had better not, and how it asks for none."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from finclaw.kernel.chunk import ModelRequest, ThinkingOff
from finclaw.kernel.envelope import THOUGHTS
from finclaw.kernel.message import Message
from finclaw.providers.anthropic.message import opens_with_thinking

ThinkingField = dict[str, Any]

ADAPTIVE: Final[ThinkingField] = {"type": "adaptive"}
"""The model itself finds out how much; how hard it tries is told by the effort."""
LEAST: Final = 1_024
"""The API takes no smaller budget; and so much at least is left for the answer."""


OFF: Final[Mapping[ThinkingOff, ThinkingField]] = {
    "disabled": {"type": "disabled"},
    "between_tools": {"type": "between_tools"},
}
"""For models that think unless they are told not to."""


def thinking_field(request: ModelRequest) -> ThinkingField | None:
    """None: nothing is said about it."""
    features, level = request.model.features, request.model.thinks_at(request.thinking)
    if level == "off":
        return OFF.get(features.thinking_off) if features.thinking else None
    if features.adaptive_thinking:
        return ADAPTIVE
    budget = min(THOUGHTS[level], request.max_tokens - LEAST)
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
