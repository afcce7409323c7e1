"""The agent's piece of the configuration."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Who answers, with which model."""

    name: Annotated[str, Meta(min_length=1, max_length=64)] = "main"
    """The first part of every session's key: a new name begins new conversations."""
    model: str = "offline/demo"
    """`provider/model`. The offline one needs neither key nor network."""
    instructions: str = ""
    """Your own words for the system prompt."""
    max_steps: Annotated[int, Meta(ge=1)] = 10
    """Model calls with tools in one turn; then the model is asked once more, without tools, for a closing answer."""
    max_tokens: Annotated[int, Meta(ge=1)] = 4_096
    """The longest answer of one model call, in tokens."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """How freely the model words its answers; null leaves that to the model."""
    delegate: bool = False
    """Whether it may give tasks to helpers, each in a turn of its own that is paid for like any other."""
    parallel_tools: Annotated[int, Meta(ge=1)] = 8
    """How many tools of one model call run at once, where all of them allow it."""
    extensions: tuple[ExtensionRef | str, ...] = ()
    """What extends it, outermost first: names, modules, paths like `./mine.py`, or `{use: …, settings: {…}}`."""
