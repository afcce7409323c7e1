"""Thinking in requests: the field that asks for it, and which earlier thoughts may go back to the API."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from finclaw.kernel.chunk import ModelRequest, ThinkingOff
from finclaw.kernel.envelope import THOUGHTS
from finclaw.kernel.message import Message, Thinking
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
    features = request.model.features
    level = request.model.thinks_at(request.thinking)
    if level == "off":
        if not features.thinking:
            return None
        return OFF.get(features.thinking_off)
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


# ── signatures ──────────────────────────────────────────────────────────────────────────────────────────────
# Some models' thoughts are bound to all that stood before them. Their API refuses a thought behind anything but what
# it was thought behind: other tools, another prompt, a note that is gone, a summary. So each signature is remembered
# with a hash of what was sent when it came, and goes back behind nothing else. What came to another process, or by
# another key, is not known here and stays out, as all that is left out may.

MOST_SIGNATURES: Final = 16_384
"""Signatures that are remembered: a turn needs one for each of its steps."""


class ThinkingSignatures:
    """A map from a signature to what stood before it. Both are hashes of this process, and of no other."""

    def __init__(self, most: int = MOST_SIGNATURES) -> None:
        self._most = most
        self._before: dict[int, int] = {}

    def remember(self, signature: str, before: int) -> None:
        self._before[hash(signature)] = before
        if len(self._before) > self._most:
            del self._before[next(iter(self._before))]

    def matches(self, message: Message, before: int) -> bool:
        """Whether this stood before its first thought: what follows in a message came with that and goes with it."""
        signature = next((each.signature for each in message.blocks if type(each) is Thinking and each.signature), "")
        return bool(signature) and self._before.get(hash(signature)) == before


def extend_hash(value: int, pieces: Iterable[bytes]) -> int:
    """The hash of these pieces behind the others. The hash of bytes that are cached is computed only once."""
    for piece in pieces:
        if piece:
            value = hash((value, piece))
    return value


def turn_start(messages: Sequence[Message]) -> int:
    """Where the last message stands that neither the model nor a tool wrote, nor anybody for one turn only."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.role not in ("assistant", "tool") and not message.passing:
            return place
    return 0
