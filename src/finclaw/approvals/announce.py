"""The announcer of approvals: one event for every change of an approval's state."""

from collections.abc import Iterable

from finclaw.kernel.approval import Approval
from finclaw.kernel.event import ApprovalChange, ApprovalChanged, Emit


class Announcer:
    """An emitter of `ApprovalChanged` events."""

    def __init__(self, emit: Emit, agent: str) -> None:
        self._emit = emit
        self._agent = agent

    def __call__(self, change: ApprovalChange, approval: Approval, by: str = "") -> None:
        self._emit(
            ApprovalChanged(
                agent=self._agent,
                session=approval.session,
                inbound_id=approval.inbound_id,
                turn_id=approval.turn_id,
                approval_id=approval.id,
                call_id=approval.call_id,
                tool=approval.tool,
                change=change,
                by=by,
                channel=approval.channel,
                account=approval.account,
                conversation=approval.conversation,
            )
        )

    def each(self, change: ApprovalChange, approvals: Iterable[Approval]) -> None:
        for approval in approvals:
            self(change, approval)


def unheard() -> Announcer:
    """Where nobody observes: without a gateway."""
    return Announcer(lambda _: None, "")
