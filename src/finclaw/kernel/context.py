"""The context of a message, for its turn: who wrote it, where, in which conversation. Frozen, all of it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Final

from msgspec import UNSET, Struct

from finclaw.kernel.envelope import Attachment, Capabilities, Inbound, QueueMode, Sender, TurnOptions
from finclaw.kernel.message import SUMMARY, Message
from finclaw.kernel.person import NOBODY, Person


class QueueAdmission(Struct, frozen=True, kw_only=True):
    """How dispatch let a message in: by which queue mode, behind how many, and what happened meanwhile."""

    mode: QueueMode = "followup"  # in force for this message; never `auto`
    origin: str = "auto"  # who has chosen it: `message`, `session`, `channel`, `settings` or `auto`
    position: int = 0  # messages of the same session that were before it when it came
    interrupted: str = ""  # the id of the message whose turn it has stopped
    joined: tuple[str, ...] = ()  # ids of messages that waited and that its turn answers too, from its start on
    running: int = 0  # turns that ran at that moment, this one among them
    dispatched_at: datetime | None = None


class Context(Struct, frozen=True, kw_only=True):
    """Built by the context stage; what could go stale while the message waited is filled in when its turn begins."""

    inbound: Inbound
    accepted: Inbound | None = None
    """The message before message layers saw it; who asked for consent and who gives it is told by this one."""
    inbound_id: str
    body: str
    """The text for the agent, as it was written; `inbound.text` is the raw one."""
    command_text: str
    """One tidy line, for matching only."""
    sender: Sender
    person: Person = NOBODY
    session_key: str
    agent: str
    capabilities: Capabilities
    mentions: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    accepted_at: datetime
    transcript: Sequence[Message] = ()
    session_started_at: datetime | None = None
    provided: Mapping[str, Any] = {}
    """What extensions know about this moment, by field; what failed or came too late is absent."""
    admission: QueueAdmission = QueueAdmission()
    wishes: TurnOptions = TurnOptions()
    """For this turn; what they leave open is for the settings to say."""

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        return self.inbound.attachments

    @property
    def as_accepted(self) -> Inbound:
        return self.inbound if self.accepted is None else self.accepted

    @property
    def timestamp(self) -> datetime:
        """When it was written, as far as the channel knows; else when we took it."""
        return self.inbound.sent_at or self.accepted_at

    @property
    def is_direct_message(self) -> bool:
        return self.inbound.chat_type == "direct"

    @property
    def is_thread(self) -> bool:
        return self.inbound.thread is not None

    @property
    def is_new_session(self) -> bool:
        return not self.transcript

    @property
    def conversation_length(self) -> int:
        return len(self.transcript)

    @property
    def is_compacted(self) -> bool:
        return any(SUMMARY in message.metadata for message in self.transcript)

    @property
    def last_assistant_message(self) -> str | None:
        spoken = (message.text for message in reversed(self.transcript) if message.role == "assistant")
        return next((text for text in spoken if text), None)


current_turn: Final[ContextVar[str | None]] = ContextVar("finclaw_current_turn", default=None)

MARKET_FIELDS: Final = (
    "prices_are_live",
    "market_session",
    "preferred_currency",
    "preferred_market",
    "held_instruments",
    "watchlist",
    "last_quote_request",
    "currency_rates",
    "market_sentiment",
    "news_context",
)
"""The fields of finance in `Context.provided`, in the order in which a model reads them."""


class ContextField(Struct, frozen=True):
    """A field of a turn's context that an extension provides when the turn begins, within so many seconds."""

    field: str
    fetch: Callable[[Context], Any]
    budget: float
    logger: logging.Logger
    default: Any = UNSET
    when: Callable[[Context], bool] | None = None
    is_computed: bool = False
