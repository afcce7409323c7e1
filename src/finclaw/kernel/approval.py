"""Approvals: a person's decision about one exact action, what was asked, of whom, and what became of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from finclaw.ids import identity
from finclaw.kernel.envelope import ChatType, Sender
from finclaw.text import Language

ApprovalState = Literal["pending", "granted", "denied", "expired", "used", "failed"]
ApprovalVerdict = Literal["granted", "denied"]
ApprovalScope = Literal["once", "session", "always"]

RefusalReason = (
    Literal["unknown", "expired", "already_granted", "already_denied", "already_used", "failed", "scope"]
    | Literal["not_an_approver", "own_request", "our_own_words", "forwarded", "elsewhere", "unauthenticated"]
    | Literal["ambiguous", "too_short"]
)


class Addressee(Struct, frozen=True, kw_only=True):
    """An approver who reads in a chat of their own: the card goes there, too, under this message id."""

    name: str
    session: str
    channel: str
    account: str
    conversation: str
    sender: str
    thread: str | None = None
    message_id: str
    card: str


class Approval(Struct, frozen=True, kw_only=True):
    """One action that waits for a person, waited for one, or was decided. `hash` binds the word to the arguments."""

    id: str
    tool: str
    args: Mapping[str, Any]
    hash: str
    definition: str = ""
    """The digest of the tool's definition, where somebody else defines it, as an MCP server does."""
    session: str
    inbound_id: str
    turn_id: str
    call_id: str
    requester: Sender
    channel: str
    account: str
    conversation: str
    thread: str | None = None
    chat_type: ChatType = "direct"
    approvers: tuple[str, ...]
    """Who may decide: identities (see `identity`) or `role:NAME`. Nobody: it can only expire."""
    sent_to: tuple[Addressee, ...] = ()
    """Those of them who are asked in chats of their own."""
    scopes: tuple[ApprovalScope, ...] = ("once",)
    """How far an approval may reach. What moves money takes `once` alone."""
    asked_at: datetime
    expires_at: datetime
    quote: Mapping[str, Any] | None = None
    """Prices as they were shown, where they matter."""
    sources: tuple[str, ...] = ()
    """Strangers' texts that the turn had read before it asked."""
    lapsed: str = ""
    """Who had said yes to this for good and may no longer do so: it is asked for again."""
    language: Language = "en"
    card: str = ""
    state: ApprovalState = "pending"
    scope: ApprovalScope | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    reason: str = ""
    reminded_at: datetime | None = None
    used_by: str | None = None
    """The turn that ran the action, or was the only one that could."""

    @property
    def asked_by(self) -> str:
        return identity(self.channel, self.account, self.requester.id)


class Decision(Struct, frozen=True, kw_only=True):
    """A decision about an approval. `by` is their identity, as their channel authenticated it."""

    verdict: ApprovalVerdict
    by: str
    scope: ApprovalScope = "once"
    reason: str = ""


class Grant(Struct, frozen=True, kw_only=True):
    """A grant: approval of this tool with exactly these arguments for this person, in one session or in all."""

    id: str
    """Of the approval that gave it."""
    tool: str
    hash: str
    requester: str
    session: str | None
    """None: in every session."""
    granted_by: str
    granted_at: datetime


class Standing(Struct, frozen=True, kw_only=True):
    """A grant as it is shown to people: what it lets pass, for whom and until when."""

    id: str
    tool: str
    args: Mapping[str, Any]
    requester: str
    session: str | None
    granted_by: str
    granted_at: datetime
    expires_at: datetime


class Refusal(Struct, frozen=True):
    """The reason why a decision did not count. Nothing was written."""

    why: RefusalReason
    approval: Approval | None = None
