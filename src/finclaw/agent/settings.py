"""The agent's piece of the configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Who answers, with which model."""

    name: str = "main"
    model: str = "offline/demo"
    """`provider/model`. The offline one needs neither key nor network."""
    instructions: str = ""
    """Your own words for the system prompt."""
    max_steps: int = 10
    """Model calls with tools in one turn; then the model is asked once more, without tools, for a closing answer."""
    max_tokens: int = 4_096
    temperature: float | None = None
    parallel_tools: int = 8
