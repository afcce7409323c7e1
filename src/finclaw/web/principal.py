"""The principal of an HTTP request: the token's holder, whatever a request says about itself."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from finclaw.kernel.envelope import Inbound, InboundKind, QueueMode, Sender, TurnOptions
from finclaw.kernel.record import InboundRecord

CHANNEL = "web"

Scope = Literal["messages", "status", "sessions", "approvals", "extensions", "impersonate"]


class Principal(Struct, frozen=True):
    """An authenticated holder of a token. Roles and scopes are bound here, by the server, and nowhere else. `name` is
    made of letters, digits and dashes, so that `name/label` can mean only one thing."""

    name: str
    roles: tuple[str, ...] = ()
    scopes: frozenset[Scope] = frozenset()


OWNER = Principal("owner", ("owner",), frozenset({"messages", "status", "sessions", "approvals", "extensions"}))

Id = Annotated[str, Meta(min_length=1, max_length=200)]


class MessageBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of a posted message. `sender` is a label inside the principal's account, never an identity."""

    message_id: Id
    text: str
    conversation: Id = "main"
    sender: Id | None = None
    edits: Id | None = None
    """The id of an earlier message of one's own, of which these are the new words."""
    deletes: Id | None = None
    """The id of an earlier message of one's own that is not to be answered any more. The text is empty then."""
    model: Id | None = None
    """By which model this one message is to be answered; only the owner may choose."""
    mode: QueueMode | None = None
    """What it does while another message of its conversation is being answered."""


def inbound(principal: Principal, body: MessageBody) -> Inbound:
    kind: InboundKind = "message"
    if body.deletes:
        kind = "delete"
    if body.edits:
        kind = "edit"
    return Inbound(
        channel=CHANNEL,
        account=principal.name,
        conversation=body.conversation,
        message_id=body.message_id,
        sender=_sender(principal, body.sender),
        text=body.text,
        wishes=TurnOptions(model=body.model, queue=body.mode) if body.model or body.mode else None,
        kind=kind,
        target=body.edits or body.deletes,
        edited=body.edits is not None,
    )


def _sender(principal: Principal, label: str | None) -> Sender:
    if label is None:
        return Sender(principal.name, roles=principal.roles)
    roles = principal.roles if "impersonate" in principal.scopes else ()
    return Sender(f"{principal.name}/{label}", name=label, roles=roles)


def owns(principal: Principal, record: InboundRecord) -> bool:
    return record.channel == CHANNEL and record.account == principal.name
