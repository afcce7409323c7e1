"""What a gateway lets its doors do about approvals."""

from collections.abc import Collection, Sequence

from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, Standing
from finclaw.kernel.envelope import Inbound
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

    async def grants(self, limit: int = 100) -> Sequence[Standing]:
        return await self.consents.grants.listed(limit)

    async def revoke(self, typed: str, evidence: Inbound) -> Standing | Refusal:
        return await self.consents.grants.revoke(typed, evidence)
