"""Settings and options of compaction, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from finclaw.errors import ConfigError
from finclaw.kernel.message import SUMMARY, Message, MessageEvent

Strategy = Literal["summarize", "truncate-oldest", "truncate-tools", "hybrid"]

PINNED: Final = "pinned"  # metadata that a layer sets to keep a message for good


def is_pinned(message: Message) -> bool:
    return bool(message.metadata.get(PINNED))


def is_summary(message: Message) -> bool:
    return SUMMARY in message.metadata


_LEAST_GAIN: Final = 0.05  # of the window; with less, nearly every message would start another compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """Settings of compaction: when a long conversation is made shorter for the model, and how."""

    strategy: Strategy = "hybrid"
    """`hybrid` cuts old tool results first and then asks for a summary of old messages; `summarize` asks at once;
    `truncate-tools` and `truncate-oldest` ask no model and only cut."""
    start: Annotated[float, Meta(gt=0, lt=0.95)] = 0.85
    """The share of the model's window that a request may fill before that."""
    target: Annotated[float, Meta(gt=0, lt=0.95)] = 0.5
    """The share that it is brought down to."""
    recent: Annotated[int, Meta(ge=0)] = 6
    """Messages at the end that are left as they are, as long as they alone do not fill the target."""

    def __post_init__(self) -> None:
        if self.start - self.target < _LEAST_GAIN:
            raise ConfigError(
                f"compaction.target is {self.target:g}; it must be at least {_LEAST_GAIN:g} below compaction.start, "
                f"which is {self.start:g}"
            )


class Options(Struct, frozen=True, kw_only=True):
    target_tokens: int  # of the messages alone, without system prompt and tools
    strategy: Strategy = "hybrid"
    recent: int = 6  # messages at the end, unless they fill the target by themselves
    input_id: str = ""  # the person's current input: never touched
    summaries: int = 2  # how many may be asked for; 0: only what needs no model


class Compaction(Struct, frozen=True, kw_only=True):
    """`messages` is what `events` make of the conversation; the same object when nothing had to be done."""

    messages: Sequence[Message]
    before_tokens: int
    after_tokens: int
    strategy: Strategy  # the one that did it; not always the one asked for
    events: tuple[MessageEvent, ...] = ()
    summary: str | None = None
    removed_count: int = 0
    summaries: int = 0  # how many were asked for, whether or not they came
    fits: bool = True  # False: the input and what is pinned exceed the target
