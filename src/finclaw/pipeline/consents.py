"""What a gateway lets its doors do about approvals."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, Standing
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Summary
from finclaw.kernel.record import InboundRecord
from finclaw.kernel.scope import Outcome
from finclaw.tools.approval.approvals import Approvals
from finclaw.tools.approval.summary import summaries


class Consents(ABC):
    """The part of `Gateway` that is about approvals."""

    consents: Approvals

    @abstractmethod
    async def wait(self, inbound_id: str, seconds: float) -> InboundRecord | None: ...

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

    def summaries(self, approvals: Sequence[Approval]) -> Sequence[Summary]:
        return summaries(approvals)

    async def came_of(self, approval_id: str, seconds: float) -> Outcome | None:
        inbound_id = self.consents.run_of(approval_id)
        record = None if inbound_id is None else await self.wait(inbound_id, seconds)
        return None if record is None else record.outcome

    async def grants(self, limit: int = 100) -> Sequence[Standing]:
        return await self.consents.grants.listed(limit)

    async def revoke(self, typed: str, evidence: Inbound) -> Standing | Refusal:
        return await self.consents.grants.revoke(typed, evidence)
