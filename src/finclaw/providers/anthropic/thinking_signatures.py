"""The signatures of bound thinking: which thoughts may go back to their API.

Some models' thoughts are bound to all that stood before them. Their API refuses a thought behind anything but what it
was thought behind: other tools, another prompt, a note that is gone, a summary. So each signature is remembered with a
hash of what was sent when it came, and goes back behind nothing else. What came to another process, or by another key,
is not known here and stays out, as all that is left out may.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from finclaw.kernel.message import Message, Thinking

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
