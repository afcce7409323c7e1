"""Settings of channels: where people write, under names of the operator's own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from msgspec import Meta

from finclaw.errors import ConfigError
from finclaw.kernel.envelope import QueueMode
from finclaw.redaction import Secret

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
GATEWAYS_OWN: Final = ("api", "web", "subagent")
"""Channels that are there without being configured."""
MOST_PAUSE_MS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """Settings of a channel. Its name stands in front of everybody who writes there."""

    kind: str
    """What it is: `mailbox`, `telegram`, or a kind that an extension brings. `finclaw channels list` shows them."""
    account: str = "default"
    """Our own account there, such as the name of a bot: people are `name:account:sender-id`."""
    secrets: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    """What the platform knows us by, such as `{token: env:TELEGRAM_TOKEN}`. Only the names are ever shown."""
    allow_senders: tuple[str, ...] = ()
    """The ids of those who are heard everywhere, or `["*"]` for everybody. Where neither list names anybody, everybody
    is heard, but on Telegram, where anybody can write, nobody. What others write is skipped; its record says why."""
    allow_conversations: tuple[str, ...] = ()
    """The ids of chats in which everybody is heard."""
    queue: QueueMode | None = None
    """What a message does while another of its conversation is being answered, as in `sessions.queue.mode`, for this
    channel."""
    debounce_ms: Annotated[int, Meta(ge=0, le=5_000)] | None = None
    """The pause after which quick messages of one person are taken for one, such as 800; 0: none is waited for.
    Without it, as the kind of channel has it. Commands, stop words and files never wait."""
    pause_ms: tuple[int, int] | None = None
    """The shortest and the longest pause before a further block of an answer, such as `[800, 2500]`: as a person would
    need to write it. Without it there is none."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Whatever else its kind takes."""

    def __post_init__(self) -> None:
        if not self.account or re.search(r"[:\s]", self.account):
            raise ConfigError(f"account {self.account!r} is no name; leave out colons and white space")
        if self.pause_ms is not None and not 0 <= self.pause_ms[0] <= self.pause_ms[1] <= MOST_PAUSE_MS:
            raise ConfigError(f"pause_ms {list(self.pause_ms)} is no range; give two numbers, such as [800, 2500]")


def must_name_channels(names: Mapping[str, object]) -> None:
    """Raises ConfigError for a name that could not stand in front of a person's id, or is the gateway's own."""
    for name in names:
        if name in GATEWAYS_OWN:
            raise ConfigError(f"channels has the name {name!r}, which is one of the gateway's own; choose another")
        if not _NAME.fullmatch(name):
            raise ConfigError(f"channels has the name {name!r}; use small letters, digits, '-' and '_'")
