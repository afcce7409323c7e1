"""All settings in one value. Each package owns its piece; this page puts the pieces together."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from finclaw.agent.settings import AgentSettings
from finclaw.errors import ConfigError
from finclaw.pipeline.settings import PipelineSettings
from finclaw.web.settings import WebSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What goes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is worth a line."""
    format: Literal["json", "plain", "auto"] = "auto"
    """`auto`: plain at a terminal, JSON elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Read once at start; values flow down from here and nobody looks them up again."""

    state: Path
    """The directory that holds everything that lasts. It cannot be set in the file, which may live inside it."""
    market: Literal["demo", "live"] = "demo"
    """`demo` makes its prices up and says so; `live` asks real sources."""
    agent: AgentSettings = field(default_factory=AgentSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    web: WebSettings = field(default_factory=WebSettings)
    log: LogSettings = field(default_factory=LogSettings)

    def __post_init__(self) -> None:
        if self.market == "live":
            raise ConfigError(
                "market is live, but no live market is configured yet; start with --demo, or write `market: demo`"
            )
