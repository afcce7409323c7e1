"""What observers hear of approvals: every change of one, from the question to its end."""

from typing import ClassVar, Literal

from finclaw.kernel.event import Event

ApprovalChange = Literal[
    "asked", "notified", "reminded", "approved", "denied", "expired", "run", "failed", "drifted", "revoked", "lapsed"
]
"""Notified: an approver in another chat has the card. Drifted: prices moved since the card, and it is asked for anew.
Revoked: a standing yes was taken back. Lapsed: whoever gave one (`by`) may no longer do so; it is asked for anew."""


class ApprovalChanged(Event, frozen=True, kw_only=True):
    """The ids are those of the question, whenever and wherever the change came; so is the place.

    `by` is who brought it about: a person's identity, or the turn in which the action ran or failed.
    """

    name: ClassVar[str] = "approval:change"
    approval_id: str
    call_id: str
    tool: str
    change: ApprovalChange
    by: str = ""
    channel: str
    account: str
    conversation: str
