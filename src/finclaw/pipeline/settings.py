"""Settings of the pipeline and of commands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from msgspec import Meta

from finclaw.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class AckSettings:
    """Settings of the signs that work goes on: a reaction to the message, and typing."""

    scope: Literal["off", "direct", "group-mentions", "all"] = "all"
    """Where they are shown: nowhere, in private chats, in groups where we are mentioned, or everywhere."""
    done: str = ""
    """The reaction when the answer is ready, such as 👍; empty: none is left."""
    failed: str = "😢"
    """The reaction when there will be no answer; empty: none is left. A platform may have few emoji to choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSettings:
    """Settings of blocks: how much of an answer becomes a message of its own while the model still writes the rest."""

    gather: bool = True
    """Gather small pieces into blocks; else each is sent as it comes."""
    shortest: Annotated[int, Meta(ge=1)] = 800
    """Characters of a block, unless nothing is added to it for a while."""
    longest: Annotated[int, Meta(ge=1)] = 1_200
    """Characters after which it is cut, at the end of a paragraph where there is one."""
    idle_ms: Annotated[int, Meta(ge=0)] = 1_000
    """After this long without a new piece, what has been gathered is sent."""


Prefix = Annotated[str, Meta(min_length=1, max_length=8)]
DEFAULT_PREFIX: Final = "/"
DIRECTIVES: Final = ("model", "think", "verbose", "queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """Settings of the pools: how many turns of a kind run at once; the others wait."""

    main: Annotated[int, Meta(ge=1)] = 256
    """Turns that answer people."""
    cron: Annotated[int, Meta(ge=1)] = 8
    """Turns that a schedule began."""
    subagent: Annotated[int, Meta(ge=1)] = 8
    """Turns that another turn delegated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Settings of the pipeline: how messages are taken in and answered."""

    timeout_ms: Annotated[int, Meta(ge=1)] = 300_000
    """The whole pipeline of one message, waiting in the lane not counted. Every wait inside it ends with it."""
    enable_ack: bool = True
    """Show a reaction and a typing sign while working, where the channel can."""
    ack: AckSettings = field(default_factory=AckSettings)
    max_response_length: Annotated[int, Meta(ge=200)] | None = None
    """The longest message of an answer, as its channel counts. A longer answer goes on in further messages, each of
    which begins with "(continued)". None: as long as the channel takes."""
    streaming_enabled: bool = True
    """Show an answer while it is being written, where the channel can: in a message that is edited, or in blocks."""
    blocks: BlockSettings = field(default_factory=BlockSettings)
    tool_notes: bool = False
    """Say which tools are used while an answer is made, on channels that show answers early."""
    still_working_s: Annotated[float, Meta(ge=0)] = 20
    """Say what is being done, once, when a person has seen nothing new for this long; 0: never. On channels that show
    answers early."""
    command_prefix: Prefix | None = None
    """The older name of `commands.prefix`, which still works."""
    require_mention: bool = True
    """In groups and channels, answer only when we are mentioned."""
    respect_market_hours: bool = False
    """Answer only while the person's home market is open, or KRX or NYSE for those who have none. At other hours one
    line says when it opens next; commands work at any hour."""
    max_text: Annotated[int, Meta(ge=1)] = 200_000
    """Characters of one message. A longer one is refused kindly; it would fit no model's window anyway."""
    max_waiting: Annotated[int, Meta(ge=1)] = 200
    """Messages of one session that may be unanswered at a time. Until one has ended, programs are told
    to send the next one later, and people in a chat that theirs is not taken. Commands work all the same."""
    max_attempts: Annotated[int, Meta(ge=1)] = 3
    """A message whose turn crashed the process this often is not tried again; its sender is told. If other turns ran
    in each of those crashes, it is tried once more, alone, before it is blamed."""
    expire_after_s: Annotated[float, Meta(gt=0)] = 3_600
    """After a restart, messages older than this are not answered any more; their senders are told."""
    stall_warn_s: Annotated[float, Meta(gt=0)] = 120
    """A running turn that shows no sign of life for this long is logged."""
    stall_abort_s: Annotated[float, Meta(gt=0)] = 360
    """After this long it is stopped, and its sender told. Waiting for the turn is not counted. It is longer than any
    model may take to begin (`first_byte_s`); `timeout_ms`, where it is shorter, comes first."""
    pools: PoolSettings = field(default_factory=PoolSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """Settings of commands: what they begin with, and which there are. Commands are named without the prefix."""

    prefix: Prefix = DEFAULT_PREFIX
    """What a command begins with, as in `/help`."""
    disabled: tuple[str, ...] = ()
    """Commands that nobody may use, such as `[reset]`. Who tries is told so."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """More names for commands, such as `forget: reset`."""
    cooldown_s: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds after which the same person may use a command again, such as `reset: 60`, instead of its own."""

    directives: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Roles of which a directive needs one, by its name: `model`, `think`, `verbose` or `queue`. Only the owner may
    choose a model unless this says otherwise; `[]` is for everybody."""
    suggest: bool = True
    """Answer a misspelled command with the one that may be meant, instead of giving it to the model."""

    def __post_init__(self) -> None:
        for name in self.directives:
            if name not in DIRECTIVES:
                raise ConfigError(f"directives has {name!r}; the directives are {', '.join(DIRECTIVES)}")
        for key, name in self._written_names():
            if not name or name.split() != [name] or name.startswith(self.prefix):
                raise ConfigError(f"{key} has {name!r}; write the name of a command as one word without {self.prefix}")
        for name, seconds in self.cooldown_s.items():
            if not 0 <= seconds <= 86_400:
                raise ConfigError(f"cooldown_s of {name} is {seconds:g}; it is a number of seconds from 0 to 86400")

    def _written_names(self) -> Iterator[tuple[str, str]]:
        yield from (("disabled", name) for name in self.disabled)
        yield from (("aliases", name) for pair in self.aliases.items() for name in pair)
        yield from (("cooldown_s", name) for name in self.cooldown_s)
