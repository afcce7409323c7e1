"""An estimator of the tokens of messages: counted from their text, corrected by what the model itself measured."""

from collections import deque
from collections.abc import Collection
from math import ceil
from typing import Final

from msgspec import Struct

from finclaw.agent.window.tokens.count import count_tokens
from finclaw.kernel.chunk import ToolSpec, Vocabulary
from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult

A_MESSAGE: Final = 4
"""Tokens around a message that tell whose it is."""
A_CALL: Final = 12
"""Tokens around a tool, a call or its result: the id, and the names of the fields."""
AN_IMAGE: Final = 1_600
"""What a large picture costs at most with most models; they scale a larger one down."""

_SEALED: Final = 5
"""Characters of an encrypted thought for each token of the thought."""
_TELLING: Final = 200
"""Tokens. In a shorter request what the provider adds of its own weighs more than our error."""
_LEAST, _MOST = 0.5, 3.0
_MEMORY: Final = 15
_AFTER_OVERFLOW: Final = 1.25
_MOST_AFTER_OVERFLOW: Final = 16.0


class _Kept(Struct, frozen=True, gc=False):
    """There may be ten thousand of them, and so the collector of garbage does not look at them."""

    blocks: tuple[Block, ...]
    tokens: int


def arguments_text(call: ToolCall) -> str:
    """Its arguments. An object as Python shows it is as long as one of JSON."""
    try:
        return call.bad_args or str(call.args)
    except RecursionError:  # nested so deep that it could be read but cannot be written: it is sent as this
        return "{}"


class CorrectionFactor:
    """A correction factor: by how much one model counts more tokens than we do. Budget and window share it."""

    def __init__(self) -> None:
        self._ratios: deque[float] = deque([1.0], maxlen=_MEMORY)  # one vote for ourselves, for the first few answers
        self.factor = 1.0

    def to_model(self, counted: int) -> int:
        """So many of our tokens, in those of the model."""
        return ceil(counted * self.factor)

    def to_ours(self, tokens: int) -> int:
        """So many of the model's tokens, in ours."""
        return int(tokens / self.factor)

    def learn(self, counted: int, measured: int) -> None:
        """Learn from an answer: what we counted for its request, uncorrected, and what the model did.

        The median of the last few ratios counts, within bounds: an absurd report now and then changes nothing.
        """
        if counted >= _TELLING and measured > 0:
            self._ratios.append(measured / counted)
            self.factor = min(_MOST, max(_LEAST, _median(self._ratios)))

    def learn_overflow(self, counted: int, limit: int) -> None:
        """The model refused a request as too long, so it counts more than we thought: above its limit at least."""
        least = limit / max(1, counted)
        self.factor = min(_MOST_AFTER_OVERFLOW, max(self.factor * _AFTER_OVERFLOW, least))


class Estimator:
    """An estimator of tokens for one model.

    What it counts never changes with what it learns, so sums may be kept and taken apart.

    Messages are counted once and kept in two generations, so that a hit is one look: when the young one is full it
    becomes the old one, and what nobody asked for meanwhile is gone. `kept_tokens` bounds them. A message is known by
    its id and the identity of its blocks, as where requests are written.
    """

    def __init__(self, vocabulary: Vocabulary = "o200k", *, kept_tokens: int = 4_000_000) -> None:
        self._vocabulary: Vocabulary = vocabulary
        self._half = kept_tokens // 2
        self._size = 0
        self._young: dict[str, _Kept] = {}
        self._old: dict[str, _Kept] = {}
        self._head: tuple[str, tuple[ToolSpec, ...], int] = ("", (), 0)
        self.correction = CorrectionFactor()

    # ── counting ────────────────────────────────────────────────────────────────────────────────────────────

    def tokens_in(self, text: str) -> int:
        return ceil(count_tokens(text, self._vocabulary))

    def tokens_of(self, message: Message) -> int:
        kept = self._young.get(message.id)
        if kept is None or kept.blocks is not message.blocks:
            kept = self._keep(message)
        return kept.tokens

    def tokens_of_tool(self, tool: ToolSpec) -> int:
        return A_CALL + self.tokens_in(f"{tool.name} {tool.description} {tool.input_schema}")

    def tokens_of_head(self, system: str, tools: tuple[ToolSpec, ...]) -> int:
        """Of what stands before the messages: it seldom changes, and is counted when it does."""
        if (system, tools) != self._head[:2]:
            self._head = (system, tools, self.tokens_in(system) + sum(map(self.tokens_of_tool, tools)))
        return self._head[2]

    def evict(self) -> None:
        """Forget every kept message; what was learned stays."""
        self._young, self._old, self._size = {}, {}, 0

    def _keep(self, message: Message) -> _Kept:
        kept = self._old.get(message.id)
        if kept is None or kept.blocks is not message.blocks:
            tokens = A_MESSAGE
            for block in message.blocks:
                if isinstance(block, Text):  # as nearly all are, and there may be ten thousand
                    tokens += ceil(count_tokens(block.text, self._vocabulary))
                else:
                    tokens += self._block(block)
            kept = _Kept(message.blocks, tokens)
        self._size += kept.tokens
        self._young[message.id] = kept
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, 0
        return kept

    def _block(self, block: Block) -> int:
        if isinstance(block, ToolResult):
            return A_CALL + self.tokens_in(block.content)
        if isinstance(block, ToolCall):
            return A_CALL + self.tokens_in(f"{block.name} {arguments_text(block)}")
        if isinstance(block, Image):
            return AN_IMAGE
        if isinstance(block, Thinking) and block.redacted:
            return len(block.signature) // _SEALED
        return self.tokens_in(block.text)


def _median(ratios: Collection[float]) -> float:
    """Of these; the library's takes 3 ms to load."""
    ordered = sorted(ratios)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2


def characters_of(message: Message) -> int:
    """At a token each they are more than the tokens of nearly everything."""
    total = 0
    for block in message.blocks:
        match block:
            case Text(text):
                total += len(text)
            case ToolResult():
                total += len(block.content)
            case ToolCall():
                total += len(block.id) + len(block.name) + len(arguments_text(block))
            case Thinking():
                total += len(block.text) + len(block.signature)
            case Image():
                total += AN_IMAGE
    return total
