"""One event for every change of an approval's state."""

from finclaw.kernel.approval import Approval
from finclaw.kernel.event import ApprovalChange, ApprovalChanged, Emit


class Announcer:
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


def unheard() -> Announcer:
    """Where nobody observes: without a gateway."""
    return Announcer(lambda _: None, "")
