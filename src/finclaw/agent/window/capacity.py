"""The capacity of a model's context window, by one table of thresholds. Pure arithmetic: others count and act."""

from math import ceil
from typing import Final, Literal

from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Model

Status = Literal["safe", "warning", "critical", "exceeded"]

_SMALL_WINDOW: Final = 32_768
_FLOOR_SMALL: Final = 16_384
_FLOOR: Final = 32_768
_MOST_FOR_FLOOR: Final = 0.5
_MOST_FOR_ANSWER: Final = 0.25
"""Of the window, so that a small one still has room for a conversation."""


class Thresholds(Struct, frozen=True, kw_only=True):
    """The one table, as fractions of the window; `target` is what compaction leaves, `reserve` is for the answer."""

    target: float = 0.50
    warn: float = 0.70
    notify: float = 0.80
    compact: float = 0.85
    stop: float = 0.95
    reserve: int = 4_096

    def __post_init__(self) -> None:
        row = (0.0, self.target, self.warn, self.notify, self.compact, self.stop)
        if not all(low < high for low, high in zip(row, (*row[1:], 1.0), strict=True)):
            raise ConfigError("thresholds must rise from above 0 to below 1: target, warn, notify, compact, stop")
        if self.reserve < 0:
            raise ConfigError(f"reserve is {self.reserve} tokens; it must be 0 or more")


class Breakdown(Struct, frozen=True):
    """Tokens by where they come from."""

    system: int = 0
    tools: int = 0
    conversation: int = 0
    tool_results: int = 0
    summary: int = 0

    @property
    def total(self) -> int:
        return self.system + self.tools + self.conversation + self.tool_results + self.summary


class WindowState(Struct, frozen=True, kw_only=True):
    """The state of the window.

    `breakdown` is as counted; `current_tokens` is the same corrected by what the model itself has measured.
    """

    current_tokens: int
    max_tokens: int
    usage_ratio: float
    status: Status
    compaction_needed: bool
    breakdown: Breakdown


class Capacity(Struct, frozen=True):
    """The capacity of a model's window. `asked` is the longest answer that a request may ask for."""

    window: int
    asked: int = 4_096
    table: Thresholds = Thresholds()

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ConfigError(f"a window of {self.window} tokens holds nothing; declare the model's real `window`")

    @staticmethod
    def of(model: Model, max_tokens: int, table: Thresholds) -> "Capacity":
        return Capacity(model.window, min(max_tokens, model.max_output), table)

    @property
    def reserve(self) -> int:
        """Kept free for the answer."""
        return min(max(self.asked, self.table.reserve), int(self.window * _MOST_FOR_ANSWER))

    @property
    def limit(self) -> int:
        """The most that may go in."""
        return self.window - self.reserve

    @property
    def full(self) -> float:
        """What ratios are measured by: the window, or less where the answer needs so much that the limit comes before
        the hard stop. So the hard stop never lies beyond what the model takes in.
        """
        return min(float(self.window), self.limit / self.table.stop)

    @property
    def floor(self) -> int:
        """Below it nothing is compacted."""
        absolute = _FLOOR_SMALL if self.window < _SMALL_WINDOW else _FLOOR
        return min(absolute, int(self.window * _MOST_FOR_FLOOR))

    @property
    def target(self) -> int:
        """What compaction brings a request down to."""
        return max(1, self.floor, int(self.full * self.table.target))

    def ratio(self, tokens: int) -> float:
        return tokens / self.full

    def status(self, tokens: int) -> Status:
        ratio = self.ratio(tokens)
        if ratio >= self.table.stop:
            return "exceeded"
        if ratio >= self.table.compact:
            return "critical"
        return "warning" if ratio >= self.table.warn else "safe"

    def state(self, tokens: int, breakdown: Breakdown) -> WindowState:
        ratio = self.ratio(tokens)
        return WindowState(
            current_tokens=tokens,
            max_tokens=self.window,
            usage_ratio=ratio,
            status=self.status(tokens),
            compaction_needed=ratio >= self.table.compact and tokens > self.floor,
            breakdown=breakdown,
        )

    def answer_room(self, tokens: int) -> int:
        """The longest answer that may be asked for behind so many tokens; never more than was wanted."""
        return max(1, min(self.asked, self.window - tokens))

    def at(self, threshold: float) -> int:
        """The first number of tokens that is at the threshold."""
        return ceil(self.full * threshold)
