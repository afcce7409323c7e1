"""The agent's piece of the configuration."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


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
    parallel_tools: Annotated[int, Meta(ge=1)] = 8
    """How many tools of one model call run at once, where all of them allow it."""
