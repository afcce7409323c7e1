"""Model requests, and the chunks of an answer's stream. A whole answer is a stream, collected."""

from collections.abc import Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from finclaw.kernel.envelope import THOUGHTS, ThinkingLevel
from finclaw.kernel.message import Message

StopReason = Literal["end", "tool_use", "max_tokens", "stop_sequence", "refusal"]
Vocabulary = Literal["o200k", "claude"]
ThinkingOff = Literal["unasked", "disabled", "between_tools", "none", "never"]
"""How a model is told not to think. `unasked`: it does not unless it is asked to, and nothing need be said; `never`: it
cannot be told; the others are the word that its API has for it.
"""
_AS_INPUT = Decimal(-1)
_LONGEST_COUNT = 30
_HIGHEST_COUNT = 2**53
"""Exact in JSON, and sums of a thousand fit into a database."""


class Usage(Struct, frozen=True):
    """Tokens of one call, or of many added up. `input` never includes what the cache gave."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def hit_rate(self) -> float:
        """The part of what was asked that came from the cache, from 0 to 1."""
        return self.cache_read / max(1, self.input + self.cache_read + self.cache_write)

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


def read_token_count(value: object) -> int | None:
    """Return a count of tokens as a server reported it, from 0 to 2**53; None for what is not a number."""
    if type(value) is int and 0 <= value <= _HIGHEST_COUNT:
        return value
    if isinstance(value, str) and len(value) <= _LONGEST_COUNT and value.isascii() and value.isdigit():
        return min(int(value), _HIGHEST_COUNT)
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(max(0, int(value)), _HIGHEST_COUNT)


def read_token_counts(value: object) -> dict[str, int]:
    """Return the fields of a server's report that are counts of tokens."""
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    counts = {name: read_token_count(each) for name, each in fields.items()}
    return {name: count for name, count in counts.items() if count is not None}


class Price(Struct, frozen=True):
    """US dollars for a million tokens. What the cache costs is taken to be the price of the input unless it is stated:
    no discount is counted on that nobody promised.
    """

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    cache_read: Decimal = _AS_INPUT
    cache_write: Decimal = _AS_INPUT

    def __post_init__(self) -> None:
        for name in ("cache_read", "cache_write"):
            if getattr(self, name) == _AS_INPUT:
                force_setattr(self, name, self.input)

    def cost(self, usage: Usage) -> Decimal:
        return (
            self.input * usage.input
            + self.output * usage.output
            + self.cache_read * usage.cache_read
            + self.cache_write * usage.cache_write
        ) / 1_000_000

    def saved(self, usage: Usage) -> Decimal:
        """By the cache, against the same tokens without one. Negative where more was written to it than read."""
        read = (self.input - self.cache_read) * usage.cache_read
        written = (self.cache_write - self.input) * usage.cache_write
        return (read - written) / 1_000_000


class Features(Struct, frozen=True):
    """Features of a model. The defaults are the least that any server offers."""

    tools: bool = True
    images: bool = False
    thinking: bool = False
    caching: bool = False
    temperature: bool = True
    """Models that think often refuse it."""
    stop_sequences: bool = True
    """So do some of them with words at which to stop."""
    max_completion_tokens: bool = False
    """It wants its output limit by this name, and not as `max_tokens`."""
    adaptive_thinking: bool = False
    """It finds out itself how much to think: it is told how hard to try, and refuses a budget of tokens for it."""
    thinks_without_tools: bool = False
    """It takes tools only while it does not think; a request with tools tells it not to."""
    bound_thinking: bool = False
    """Its thoughts are tied to all that stood before them: behind anything else they are refused."""
    thinking_off: ThinkingOff = "unasked"


class Model(Struct, frozen=True):
    provider: str
    name: str
    window: int = 200_000
    max_output: int = 4_096
    price: Price | None = None
    """None: nobody said. That is not the same as free."""
    features: Features = Features()
    vocabulary: Vocabulary = "o200k"
    """Whose tokens come nearest to its own, for estimates."""

    @property
    def id(self) -> str:
        """`provider/name`, as in settings, records and the books."""
        return f"{self.provider}/{self.name}"

    @property
    def priced(self) -> bool:
        return self.price is not None

    def cost(self, usage: Usage) -> Decimal:
        """In US dollars, as far as it is known: nothing, where the price is not."""
        return Decimal(0) if self.price is None else self.price.cost(usage)

    def saved(self, usage: Usage) -> Decimal:
        return Decimal(0) if self.price is None else self.price.saved(usage)

    def thinks_at(self, level: ThinkingLevel) -> ThinkingLevel:
        """What a wish comes to: little for one that cannot stop thinking, nothing for one that cannot think."""
        if not self.features.thinking:
            return "off"
        return "low" if level == "off" and self.features.thinking_off == "never" else level

    def longest_answer(self, max_tokens: int, thinking: ThinkingLevel) -> int:
        """Return the most tokens that one call may write: its thoughts come on top of the answer."""
        return min(max_tokens + self.room_to_think(thinking), self.max_output)

    def room_to_think(self, level: ThinkingLevel) -> int:
        """Tokens beyond those of the answer; none for a model that cannot."""
        return THOUGHTS[self.thinks_at(level)]


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it: three fields and nothing else."""

    name: str
    description: str
    input_schema: dict[str, Any]


class AnswerSchema(Struct, frozen=True):
    """The form that an answer must have: a JSON Schema of an object, under a name that every API takes."""

    name: str
    schema: dict[str, Any]


class ModelRequest(Struct, frozen=True, kw_only=True):
    model: Model
    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 4_096
    """Of all that it writes, its thoughts among it."""
    temperature: float | None = None
    thinking: ThinkingLevel = "off"
    """A wish: what it comes to is the model's to say (`Model.thinks_at`)."""
    answer_schema: AnswerSchema | None = None
    stop_sequences: tuple[str, ...] = ()


class TextDelta(Struct, frozen=True):
    text: str
    index: int = 0


class ThinkingDelta(Struct, frozen=True):
    """`signature` comes with the end of a block; the API that gave it wants it back with the thinking.

    A `redacted` block is a signature and nothing else.
    """

    text: str
    index: int = 0
    signature: str = ""
    redacted: bool = False


class ToolUseStart(Struct, frozen=True):
    id: str
    name: str
    index: int = 0


class ToolInputDelta(Struct, frozen=True):
    delta: str
    index: int = 0


class ToolUseEnd(Struct, frozen=True):
    index: int = 0


class UsageReport(Struct, frozen=True):
    """The usage of this call so far; the last report counts."""

    usage: Usage


class Done(Struct, frozen=True):
    stop: StopReason = "end"


Chunk = TextDelta | ThinkingDelta | ToolUseStart | ToolInputDelta | ToolUseEnd | UsageReport | Done
