"""The agent's piece of the configuration."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from finclaw.agent.prompt.sections import ComplianceLevel, PromptMode
from finclaw.kernel.envelope import ThinkingLevel, Verbosity
from finclaw.redaction import Follow


@dataclass(frozen=True, slots=True)
class ExtensionRef:
    """An extension in the list: what to load, and what to tell it."""

    use: str
    """The name of an installed one, a module (`package.module` or `package.module:object`), or a path (`./mine.py`)."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its own settings, whatever it takes."""

    @property
    def is_path(self) -> bool:
        return self.use.startswith((".", "~")) or self.use.endswith(".py") or os.sep in self.use


def as_ref(given: ExtensionRef | str) -> ExtensionRef:
    """Return an item of `agent.extensions`, which may be a name alone, as a reference."""
    return ExtensionRef(given) if isinstance(given, str) else given


@dataclass(frozen=True, slots=True)
class LocatedRef(ExtensionRef):
    """A reference read from a file: its path is whole, and its references to secrets can be followed from there."""

    follow: Follow | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Who answers, with which model."""

    name: Annotated[str, Meta(min_length=1, max_length=64)] = "main"
    """The first part of every session's key: a new name begins new conversations."""
    model: str = "offline/demo"
    """`provider/model`, or an alias of one. The offline one needs neither key nor network."""
    fallbacks: tuple[str, ...] = ()
    """Models that are asked, in this order, when `model` does not answer; for that one call only."""
    instructions: str = ""
    """Your own words for the system prompt. They stand last in it, and cannot lift its rules."""
    compliance: ComplianceLevel = "retail"
    """Whom it speaks to, and so which rules of conduct it is given; `retail` has the strictest."""
    prompt_mode: PromptMode = "full"
    """`minimal` keeps who it is, its tools and its limits; `none` little but compliance and risk, which always stay."""
    prompt_tokens: Annotated[int, Meta(ge=1)] | None = None
    """The longest system prompt, in tokens: what is optional gives way. Null takes a quarter of the model's window."""
    max_steps: Annotated[int, Meta(ge=1)] = 10
    """Model calls with tools in one turn; then the model is asked once more, without tools, for a closing answer."""
    attempts: Annotated[int, Meta(ge=1, le=10)] = 3
    """How often a model that is busy or out of reach is asked the same, the first time included; 1 asks it once."""
    max_tokens: Annotated[int, Meta(ge=1)] = 4_096
    """The longest answer of one model call, in tokens."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """How freely the model words its answers; null leaves that to the model."""
    stop_sequences: tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...] = ()
    """Words at which an answer ends, wherever they come in it; most models take up to four."""
    thinking: ThinkingLevel = "off"
    """How much a model that can think does so before it speaks. Thoughts are paid for like an answer."""
    verbosity: Verbosity = "medium"
    """How long its answers are: `low` is brief, `high` goes into detail, `medium` leaves it to the model."""
    delegate: bool = False
    """Whether it may give tasks to helpers, each in a turn of its own that is paid for like any other."""
    parallel_tools: Annotated[int, Meta(ge=1)] = 8
    """How many tools of one model call run at once, where all of them allow it."""
    default_extensions: tuple[Literal["memory", "web"], ...] = ("memory", "web")
    """Extensions that are on without being listed below: notes kept for a person, reading web pages. `[]` for none."""
    extensions: tuple[ExtensionRef | str, ...] = ()
    """What extends it, outermost first: names, modules, paths like `./mine.py`, or `{use: …, settings: {…}}`."""
