"""What a gateway lets its doors do about approvals."""

from collections.abc import Callable, Collection, Mapping, Sequence

from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal
from finclaw.kernel.envelope import Capabilities, Inbound
from finclaw.kernel.port import Channel
from finclaw.tools.approval.approvals import Approvals


class Consents:
    """The part of `Gateway` that is about approvals."""

    consents: Approvals

    async def approval(self, typed: str) -> Approval | None:
        return await self.consents.approval(typed)

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        return await self.consents.approvals(states, session, limit)

    async def decide(
        self,
        typed: str,
        verdict: ApprovalVerdict,
        evidence: Inbound,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval | Refusal:
        return await self.consents.decide(typed, verdict, evidence, scope=scope, reason=reason)


def capabilities_of(channels: Mapping[str, Channel]) -> Callable[[str], Capabilities]:
    """What each channel can do; one that is not there any more can do what most can."""

    def capabilities(channel: str) -> Capabilities:
        door = channels.get(channel)
        return Capabilities() if door is None else door.capabilities

    return capabilities
