"""Token estimates: tokens per character by script, corrected by the usage that the model itself reports.

An estimate of ordinary text (English, Korean, code, JSON, tables) is never under by more than a fifth, which is what
the margins of compaction and budget cover (CP-12). It is made for every message, so the counting is left to C.
"""

from collections import deque
from collections.abc import Callable, Mapping
from math import ceil
from typing import Final, NamedTuple

from msgspec import Struct

from finclaw.kernel.chunk import ToolSpec, Vocabulary
from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult

CountMessage = Callable[[Message], int]
CountText = Callable[[str], int]

A_MESSAGE: Final = 4
"""Tokens around a message."""
A_CALL: Final = 12
"""Tokens around a tool, a call or its result: the id and the names of the fields."""
AN_IMAGE: Final = 1_600
"""The most that a large picture costs with most models; they scale a larger one down."""
_SEALED: Final = 5
"""Characters of an encrypted thought for each of its tokens."""
_LEAST_COUNTED: Final = 200
"""Tokens. In a shorter request, what the provider adds outweighs the error of the estimate."""
_LEAST_FACTOR: Final = 0.5
_MOST_FACTOR: Final = 3.0
_AFTER_OVERFLOW: Final = 1.25
_MOST_AFTER_OVERFLOW: Final = 16.0


class _Rates(NamedTuple):
    """Tokens per character."""

    letter: float
    digit: float
    sign: float
    hangul: float
    cjk: float
    emoji: float
    other: float


_RATES: Final[Mapping[Vocabulary, _Rates]] = {
    "o200k": _Rates(letter=0.25, digit=0.90, sign=0.37, hangul=0.77, cjk=0.80, emoji=3.0, other=0.30),
    "claude": _Rates(letter=0.29, digit=0.86, sign=0.40, hangul=1.60, cjk=1.10, emoji=4.2, other=0.70),
}
"""Fitted to the counts of two real tokenizers, which `tests/agent/token_corpus.json` holds."""


def count_tokens(text: str, vocabulary: Vocabulary = "o200k") -> float:
    """An estimate, not yet rounded."""
    rates = _RATES[vocabulary]
    encoded = text.encode("utf-8", "surrogatepass")  # a person's text may hold a lone surrogate
    scripts = encoded.translate(_SCRIPTS)
    tokens = rates.letter * scripts.count(b"a") + rates.digit * scripts.count(b"0") + rates.sign * scripts.count(b".")
    if len(encoded) > len(text):
        tokens += rates.hangul * scripts.count(b"h") + rates.cjk * scripts.count(b"c")
        tokens += rates.emoji * scripts.count(b"e") + rates.other * scripts.count(b"x")
    return tokens


def _script(byte: int) -> str:
    """The script of a character by its first byte in UTF-8. Blanks count as letters: most go with a word."""
    if byte < 0x80:
        character = chr(byte)
        if character.isdigit():
            return "0"
        return "a" if character.isalpha() or character.isspace() else "."
    starts = {0x80: "-", 0xC2: "x", 0xE3: "c", 0xEA: "h", 0xEE: "x", 0xF0: "e"}
    return starts[max(start for start in starts if start <= byte)]


_SCRIPTS: Final = "".join(map(_script, range(256))).encode()


class CorrectionFactor:
    """The factor between the tokens of one model and our estimates. Budget and window share it."""

    def __init__(self) -> None:
        self._ratios: deque[float] = deque([1.0], maxlen=15)  # the estimate has one vote until there are more answers
        self.factor = 1.0

    def to_model(self, counted: int) -> int:
        """Convert estimated tokens to those of the model."""
        return ceil(counted * self.factor)

    def to_ours(self, tokens: int) -> int:
        """Convert tokens of the model to estimated ones."""
        return int(tokens / self.factor)

    def learn(self, counted: int, measured: int) -> None:
        """Learn from an answer: the estimate of its request, uncorrected, and the model's own count.

        The median of the last ratios counts, within bounds: an absurd report now and then changes nothing.
        """
        if counted >= _LEAST_COUNTED and measured > 0:
            self._ratios.append(measured / counted)
            median = sorted(self._ratios)[len(self._ratios) // 2]
            self.factor = min(_MOST_FACTOR, max(_LEAST_FACTOR, median))

    def learn_overflow(self, counted: int, limit: int) -> None:
        """The model refused a request as too long: it counts more than its limit at least."""
        least = limit / max(1, counted)
        self.factor = min(_MOST_AFTER_OVERFLOW, max(self.factor * _AFTER_OVERFLOW, least))


class _Counted(Struct, frozen=True, gc=False):
    """The tokens of a message, untracked by the garbage collector: there may be ten thousand of them."""

    blocks: tuple[Block, ...]
    tokens: int


class Estimator:
    """An estimator of tokens for one model. What it counts never changes with what it learns, so sums may be kept.

    Messages are counted once. A message is known by its id and the identity of its blocks. At `kept_tokens` the cache
    is emptied.
    """

    def __init__(self, vocabulary: Vocabulary = "o200k", *, kept_tokens: int = 4_000_000) -> None:
        self._vocabulary: Vocabulary = vocabulary
        self._limit = kept_tokens
        self._kept_tokens = 0
        self._kept: dict[str, _Counted] = {}
        self._head: tuple[str, tuple[ToolSpec, ...], int] = ("", (), 0)
        self.correction = CorrectionFactor()

    def tokens_in(self, text: str) -> int:
        return ceil(count_tokens(text, self._vocabulary))

    def tokens_of(self, message: Message) -> int:
        kept = self._kept.get(message.id)
        if kept is None or kept.blocks is not message.blocks:
            kept = _Counted(message.blocks, A_MESSAGE + sum(map(self._block, message.blocks)))
            if self._kept_tokens > self._limit:
                self._kept_tokens = 0
                self._kept.clear()
            self._kept_tokens += kept.tokens
            self._kept[message.id] = kept
        return kept.tokens

    def tokens_of_tool(self, tool: ToolSpec) -> int:
        return A_CALL + self.tokens_in(f"{tool.name} {tool.description} {tool.input_schema}")

    def tokens_of_head(self, system: str, tools: tuple[ToolSpec, ...]) -> int:
        """The tokens of what stands before the messages; counted when it changes."""
        if (system, tools) != self._head[:2]:
            self._head = (system, tools, self.tokens_in(system) + sum(map(self.tokens_of_tool, tools)))
        return self._head[2]

    def _block(self, block: Block) -> int:
        match block:
            case Text(text):
                return self.tokens_in(text)
            case ToolResult():
                return A_CALL + self.tokens_in(block.content)
            case ToolCall():
                return A_CALL + self.tokens_in(f"{block.name} {arguments_text(block)}")
            case Image():
                return AN_IMAGE
            case Thinking(redacted=True):
                return len(block.signature) // _SEALED
            case Thinking():
                return self.tokens_in(block.text)


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call. An object as Python shows it is as long as its JSON."""
    try:
        return call.bad_args or str(call.args)
    except RecursionError:  # nested so deep that it could be read but cannot be written: it is sent as this
        return "{}"


def characters_of(message: Message) -> int:
    """An upper bound without a count: nearly every text has fewer tokens than characters."""
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
