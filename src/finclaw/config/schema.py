"""All settings in one value. Each package owns its piece; this page puts the pieces together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.agent.window.compaction.options import CompactionSettings
from finclaw.approvals.people import TOKEN_HOLDER, People, PersonSettings
from finclaw.approvals.settings import ApprovalSettings
from finclaw.channels.settings import ChannelSettings, must_name_channels
from finclaw.errors import ConfigError
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.pipeline.settings import DEFAULT_PREFIX, CommandSettings, PipelineSettings
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.sessions.settings import SessionSettings
from finclaw.tools.settings import ToolsSettings
from finclaw.web.settings import WebServerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What goes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is worth a line."""
    format: Literal["json", "plain", "auto"] = "auto"
    """`auto`: plain at a terminal, JSON elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """How conversations are kept, and for how long."""

    kind: Literal["sqlite", "jsonl"] = "sqlite"
    """`sqlite`: in the database; `jsonl`: as plain files beside it."""
    retention_days: Annotated[int, Meta(ge=30, le=100_000)] = 365
    """What `finclaw prune` leaves alone: everything used within so many days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Read once at start; values flow down from here and nobody looks them up again."""

    state: Path
    """The directory that holds everything that lasts. It cannot be set in the file, which may live inside it."""
    market: Literal["demo", "live"] = "demo"
    """`demo` makes its prices up and says so; `live` asks real sources, and needs no key."""
    market_data: MarketDataSettings = field(default_factory=MarketDataSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
    """Who answers, by name, such as `ollama: {kind: openai, base_url: "http://127.0.0.1:11434/v1"}`; a `key` says
    where it is kept. `anthropic`, `openai` and `ollama` are known, and want their key at most."""
    models: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    """What the catalog does not know or has wrong, such as `ollama/qwen3: {window: 32768, input_price: 0,
    output_price: 0}`. `finclaw models list` shows what it knows."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """Short names of your own, such as `fast: ollama/qwen3`."""
    compaction: CompactionSettings = field(default_factory=CompactionSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    tools: ToolsSettings = field(default_factory=ToolsSettings)
    people: tuple[PersonSettings, ...] = ()
    """Who is who, such as `{name: Mina, known_as: ["telegram:bot1:12345"], roles: [approver]}`. Whoever is at this
    machine is the `owner`."""
    channels: Mapping[str, ChannelSettings] = field(default_factory=dict[str, ChannelSettings])
    """Where people write, by a name of your own, such as `desk: {kind: mailbox, allow_senders: [mina]}`.
    `finclaw chat`, `finclaw ask` and the HTTP API need none."""
    approvals: ApprovalSettings = field(default_factory=ApprovalSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    commands: CommandSettings = field(default_factory=CommandSettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    web: WebServerSettings = field(default_factory=WebServerSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    log: LogSettings = field(default_factory=LogSettings)

    @property
    def command_prefix(self) -> str:
        return self.pipeline.command_prefix or self.commands.prefix

    def everybody(self) -> People:
        return People(self.people, (TOKEN_HOLDER,) if self.web.impersonate else ())

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", Path(self.state))  # a program of one's own may well give a text
        must_name_channels(self.channels)
        self.everybody()  # raises for a sender who would be two people
        if self.command_prefix != self.commands.prefix != DEFAULT_PREFIX:
            raise ConfigError(
                f"pipeline.command_prefix is {self.command_prefix!r} and commands.prefix {self.commands.prefix!r}; "
                "write commands.prefix alone, the other is its older name"
            )
