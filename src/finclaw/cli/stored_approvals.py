"""The approvals in the store, for when no gateway runs: the next one continues with what was decided."""

from collections.abc import Sequence
from typing import Final, cast, get_args

from finclaw.config.schema import Settings
from finclaw.errors import SessionError
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, Standing
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Store
from finclaw.tools.approval.announce import unheard
from finclaw.tools.approval.approvals import Approvals
from finclaw.tools.approval.doors import NoDoors
from finclaw.web.approvals_view import REFUSED, evidence, not_revoked
from finclaw.web.principal import OWNER

MOST_LISTED: Final = 500


class StoredApprovals:
    """Approvals decided by the owner: only the owner can open the state, as with the token in it."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._approvals = Approvals(
            store, settings.everybody(), settings.approvals, clock, _leave_to_next_start, NoDoors(), unheard()
        )

    async def list_approvals(self, *, everything: bool, session: str | None = None) -> Sequence[Approval]:
        states = cast("tuple[ApprovalState, ...]", get_args(ApprovalState)) if everything else ("pending",)
        return await self._approvals.approvals(states, session, MOST_LISTED)

    async def find_approval(self, typed: str) -> Approval | None:
        return await self._approvals.approval(typed)

    async def decide_approval(
        self, typed: str, verdict: ApprovalVerdict, scope: ApprovalScope, reason: str
    ) -> Approval:
        decided = await self._approvals.decide(typed, verdict, evidence(OWNER), scope=scope, reason=reason)
        if isinstance(decided, Refusal):
            raise SessionError(REFUSED[decided.why][1])
        return decided

    async def list_grants(self) -> Sequence[Standing]:
        return await self._approvals.grants.listed()

    async def revoke_grant(self, typed: str) -> Standing:
        revoked = await self._approvals.grants.revoke(typed, evidence(OWNER))
        if isinstance(revoked, Refusal):
            raise SessionError(not_revoked(revoked.why)[1])
        return revoked


def _leave_to_next_start(_: Accepted) -> None:
    """It is on disk; nobody here runs turns."""
