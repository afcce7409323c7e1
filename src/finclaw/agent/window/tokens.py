"""Token estimates: characters per token by script, times the correction factor learned from the model's own usage.

An estimate of ordinary text (English, Korean, code, JSON, tables) is never under by more than a fifth, which is what
the margins of compaction and budget cover (CP-12).
"""

import re
from collections import deque
from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

from finclaw.kernel.chunk import ToolSpec, Vocabulary
from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult

CountMessage = Callable[[Message], int]
CountText = Callable[[str], int]

A_MESSAGE: Final = 4
A_CALL: Final = 12  # the id of a tool call or result and the names of its fields
AN_IMAGE: Final = 1_600  # the most that a large picture costs with most models; they scale a larger one down
_RATES: Final[Mapping[Vocabulary, tuple[float, ...]]] = {
    "o200k": (0.25, 0.90, 0.37, 0.77, 0.80, 3.0, 0.30),
    "claude": (0.29, 0.86, 0.40, 1.60, 1.10, 4.2, 0.70),
}
"""Tokens per letter, digit, sign, Hangul, CJK, emoji and other character, fitted to `tests/agent/token_corpus.json`."""
_ASCII: Final = re.sub(r"[^a\d]", ".", re.sub(r"[A-Za-z\s]", "a", bytes(range(0x80)).decode()))
_SCRIPTS: Final = (re.sub(r"\d", "0", _ASCII) + "-" * 66 + "x" * 33 + "c" * 7 + "h" * 4 + "xx" + "e" * 16).encode()
"""The script of a character by its first byte in UTF-8: `a` letter or blank (most go with a word), `0` digit, `.` sign,
`x` other, `c` CJK, `h` Hangul, `e` emoji; `-` is a later byte."""


def count_tokens(text: str, vocabulary: Vocabulary = "o200k") -> float:
    letter, digit, sign, hangul, cjk, emoji, other = _RATES[vocabulary]
    encoded = text.encode("utf-8", "surrogatepass")  # a person's text may hold a lone surrogate
    count = encoded.translate(_SCRIPTS).count
    tokens = letter * count(b"a") + digit * count(b"0") + sign * count(b".")
    if len(encoded) > len(text):
        tokens += hangul * count(b"h") + cjk * count(b"c") + emoji * count(b"e") + other * count(b"x")
    return tokens


class CorrectionFactor:
    """The factor between the tokens of one model and our estimates. Budget and window share it."""

    def __init__(self) -> None:
        self._ratios: deque[float] = deque([1.0], maxlen=15)  # the estimate has one vote until there are more answers
        self.factor = 1.0

    def to_model(self, counted: int) -> int:
        return ceil(counted * self.factor)

    def learn(self, counted: int, measured: int) -> None:
        """Learn from an uncorrected estimate and the model's own count. An absurd one does not change the median."""
        if counted >= 200 and measured > 0:  # in a shorter request, what the provider adds outweighs our error
            self._ratios.append(measured / counted)
            median = sorted(self._ratios)[len(self._ratios) // 2]
            self.factor = min(3.0, max(0.5, median))

    def learn_overflow(self, counted: int, limit: int) -> None:
        """The model refused a request as too long: it counts more than its limit at least."""
        self.factor = min(16.0, max(1.25 * self.factor, limit / max(1, counted)))


class Estimator:
    """The estimates for one model, before correction. At `kept_tokens` the cache of message counts is emptied."""

    def __init__(self, vocabulary: Vocabulary = "o200k", *, kept_tokens: int = 4_000_000) -> None:
        self._vocabulary: Vocabulary = vocabulary
        self._limit = kept_tokens
        self._kept_tokens = 0
        self._kept: dict[str, tuple[tuple[Block, ...], int]] = {}  # by id, valid for these very blocks
        self._head: tuple[str, tuple[ToolSpec, ...], int] = ("", (), 0)
        self.correction = CorrectionFactor()

    def tokens_in(self, text: str) -> int:
        return ceil(count_tokens(text, self._vocabulary))

    def tokens_of(self, message: Message) -> int:
        kept = self._kept.get(message.id)
        if kept is not None and kept[0] is message.blocks:
            return kept[1]
        tokens = A_MESSAGE
        for block in message.blocks:
            text, around = _read_block(block)
            tokens += around + self.tokens_in(text)
        if self._kept_tokens > self._limit:
            self._kept_tokens = 0
            self._kept.clear()
        self._kept_tokens += tokens
        self._kept[message.id] = (message.blocks, tokens)
        return tokens

    def tokens_of_tool(self, tool: ToolSpec) -> int:
        return A_CALL + self.tokens_in(f"{tool.name} {tool.description} {tool.input_schema}")

    def tokens_of_head(self, system: str, tools: tuple[ToolSpec, ...]) -> int:
        """Count what stands before the messages, when it changes."""
        if (system, tools) != self._head[:2]:
            self._head = (system, tools, self.tokens_in(system) + sum(map(self.tokens_of_tool, tools)))
        return self._head[2]


def _read_block(block: Block) -> tuple[str, int]:
    """Return what the model reads of a block, and the tokens around it."""
    match block:
        case Text(text):
            return text, 0
        case ToolResult():
            return block.content, A_CALL
        case ToolCall():
            return f"{block.name} {arguments_text(block)}", A_CALL
        case Image():
            return "", AN_IMAGE
        case Thinking():
            sealed = len(block.signature) // 5 if block.redacted else 0  # characters of an encrypted thought per token
            return block.text, sealed


def arguments_text(call: ToolCall) -> str:
    """Return the arguments as Python shows them, which is as long as their JSON."""
    try:
        return call.bad_args or str(call.args)
    except RecursionError:  # nested so deep that it could be read but cannot be written: it is sent as this
        return "{}"


def characters_of(message: Message) -> int:
    """Return an upper bound without a count: nearly every text has fewer tokens than characters."""
    total = 0
    for block in message.blocks:
        text, around = _read_block(block)
        total += len(text) + around
        if isinstance(block, Thinking):
            total += len(block.signature)
    return total
