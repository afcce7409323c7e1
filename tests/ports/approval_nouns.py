"""Approvals in few words, for tests of whatever keeps them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from finclaw.kernel.approval import Approval, ApprovalScope, Decision
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.transcript.approval_ids import action_hash, new_approval_id

ADA = "memory:local:ada"
BOB = "memory:local:bob"
SESSION = "main:memory:local:direct:ada"


def wish(
    now: datetime,
    *,
    args: Mapping[str, Any] | None = None,
    turn: str = "t-1",
    call: str = "c-1",
    seconds: float = 300,
    session: str = SESSION,
    scopes: tuple[ApprovalScope, ...] = ("once",),
    approvers: tuple[str, ...] = (ADA,),
) -> Approval:
    args = {"symbol": "AAPL", "quantity": 10} if args is None else args
    return Approval(
        id=new_approval_id(),
        tool="broker__order",
        args=args,
        hash=action_hash("broker__order", args),
        session=session,
        inbound_id="m-1",
        turn_id=turn,
        call_id=call,
        requester=Sender("ada"),
        channel="memory",
        account="local",
        conversation="ada",
        approvers=approvers,
        scopes=scopes,
        asked_at=now,
        expires_at=now + timedelta(seconds=seconds),
        card="the card",
    )


def yes(scope: ApprovalScope = "once", by: str = ADA) -> Decision:
    return Decision(verdict="granted", by=by, scope=scope)


def no(reason: str = "", by: str = ADA) -> Decision:
    return Decision(verdict="denied", by=by, reason=reason)


def word(about: Approval, text: str = "decided") -> Inbound:
    """A message that follows a change of an approval."""
    return Inbound(
        text=text, channel="memory", conversation="ada", message_id=f"{about.id}:{text}", sender=about.requester
    )


def said(about: Approval) -> Inbound:
    return Inbound(
        text="over",
        channel="memory",
        conversation="ada",
        message_id=f"{about.id}:said",
        sender=about.requester,
        from_extension="approvals",
    )
