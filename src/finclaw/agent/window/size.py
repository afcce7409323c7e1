"""The size of a conversation in tokens, and the capacity of a model's context window."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final, Literal

import msgspec
from msgspec import Struct

from finclaw.agent.window.tokens import CorrectionFactor, CountMessage, CountText
from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Model, ToolSpec, Usage
from finclaw.kernel.event import ContextStatusChanged, ContextThresholdCrossed, Emit
from finclaw.kernel.message import SUMMARY, Message
from finclaw.kernel.scope import ConversationView, Ids

Status = Literal["safe", "warning", "critical", "exceeded"]

_SMALL_WINDOW: Final = 32_768
_FLOOR_SMALL: Final = 16_384
_FLOOR: Final = 32_768
_MOST_FOR_FLOOR: Final = 0.5
_MOST_FOR_ANSWER: Final = 0.25  # of the window, so that a small one has room left


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
    system: int = 0
    tools: int = 0
    conversation: int = 0
    tool_results: int = 0
    summary: int = 0

    @property
    def total(self) -> int:
        return self.system + self.tools + self.conversation + self.tool_results + self.summary


class WindowState(Struct, frozen=True, kw_only=True):
    """`breakdown` is as counted; `current_tokens` is the same corrected by what the model itself has measured."""

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
        return min(max(self.asked, self.table.reserve), int(self.window * _MOST_FOR_ANSWER))

    @property
    def limit(self) -> int:
        """The most that may go in."""
        return self.window - self.reserve

    @property
    def full(self) -> float:
        """What ratios are measured by: the window, or less, so that the hard stop is never beyond the limit."""
        return min(float(self.window), self.limit / self.table.stop)

    @property
    def floor(self) -> int:
        """Below it nothing is compacted."""
        absolute = _FLOOR_SMALL if self.window < _SMALL_WINDOW else _FLOOR
        return min(absolute, int(self.window * _MOST_FOR_FLOOR))

    @property
    def target(self) -> int:
        return max(1, self.floor, int(self.full * self.table.target))

    def ratio(self, tokens: int) -> float:
        return tokens / self.full

    def status(self, tokens: int) -> Status:
        ratio = self.ratio(tokens)
        if ratio >= self.table.stop:
            return "exceeded"
        if ratio >= self.table.compact:
            return "critical"
        if ratio >= self.table.warn:
            return "warning"
        return "safe"

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
        return max(1, min(self.asked, self.window - tokens))

    def at(self, threshold: float) -> int:
        return ceil(self.full * threshold)


Correction = Callable[[Model], CorrectionFactor]
_Part = Literal["conversation", "tool_results", "summary"]
_LEAST_RATIO: Final = 0.25
_MOST_RATIO: Final = 16.0  # measured by counted: beyond these it is nonsense


def part_of(message: Message) -> _Part:
    if SUMMARY in message.metadata:
        return "summary"
    if message.role == "tool":
        return "tool_results"
    return "conversation"


class ContextSize:
    """The size of one session's requests, across turns. What the model measures corrects what is counted."""

    def __init__(self, count: CountMessage, count_text: CountText, correction: Correction) -> None:
        self._count = count
        self._count_text = count_text
        self._sums: dict[_Part, int] = {"conversation": 0, "tool_results": 0, "summary": 0}
        self._head: tuple[str, tuple[ToolSpec, ...]] = ("", ())
        self._system = 0
        self._tools = 0
        self.notifier = ContextNotifier()
        self._model: str = ""
        self._correction_of = correction
        self._correction = CorrectionFactor()
        self._measured: tuple[int, int] | None = None

    def follow(self, conversation: ConversationView) -> None:
        """Count the messages of the next request. The counter knows those that it has counted before."""
        self._sums = dict.fromkeys(self._sums, 0)
        for message in conversation.next_messages:
            self._sums[part_of(message)] += self._count(message)
        if self._measured is not None and self._measured[1] > self.counted:
            self._measured = None  # it was of a longer conversation

    def head(self, system: str, tools: Sequence[ToolSpec]) -> None:
        fresh = (system, tuple(tools))
        if fresh != self._head:
            self._head = fresh
            self._system = self._count_text(system)
            self._tools = sum(self._count_text(msgspec.json.encode(each).decode()) for each in tools)

    @property
    def breakdown(self) -> Breakdown:
        return Breakdown(system=self._system, tools=self._tools, **self._sums)

    @property
    def counted(self) -> int:
        return self._system + self._tools + sum(self._sums.values())

    @property
    def tokens(self) -> int:
        """The size of the next request: as measured, and what came since, corrected."""
        if self._measured is None:
            return self._correction.to_model(self.counted)
        measured, counted = self._measured
        return max(0, measured + self._correction.to_model(self.counted - counted))

    def tokens_with(self, message: Message | None) -> int:
        counted = self._system + self._tools
        if message is not None:
            counted += self._count(message)
        return self._correction.to_model(counted)

    def as_counted(self, tokens: int) -> int:
        return int(tokens / self._correction.factor)

    def note_usage(self, usage: Usage, answer: Message) -> None:
        """The model's own figures for the request as it stands; `answer` is not in the conversation yet."""
        sent = usage.input + usage.cache_read + usage.cache_write
        counted = self.counted
        if sent <= 0 or counted <= 0 or not _LEAST_RATIO <= sent / counted <= _MOST_RATIO:
            return  # some servers report nothing, and some report nonsense
        self._measured = (sent + usage.output, counted + self._count(answer))

    def note_overflow(self, limit: int) -> None:
        self._correction.learn_overflow(self.counted, limit)
        self._measured = None

    def use(self, model: Model) -> None:
        if model.id != self._model:
            self._model = model.id
            self._correction = self._correction_of(model)
            self._measured = None  # what one model measured says nothing about another

    def forget_measured(self) -> None:
        self._measured = None


class ContextNotifier:
    """Says once which threshold was crossed. It lives longer than a turn: a new turn is not a new crossing."""

    def __init__(self) -> None:
        self._status: Status = "safe"
        self._above: set[float] = set()

    def tell(self, state: WindowState, table: Thresholds, emit: Emit, ids: Ids) -> None:
        ratio = round(state.usage_ratio, 4)
        if state.status != self._status:
            self._status = state.status
            emit(ContextStatusChanged(status=state.status, ratio=ratio, **ids))
        for threshold in (table.notify, table.stop):
            if state.usage_ratio < threshold:
                self._above.discard(threshold)
            elif threshold not in self._above:
                self._above.add(threshold)
                emit(ContextThresholdCrossed(ratio=ratio, threshold=threshold, **ids))
