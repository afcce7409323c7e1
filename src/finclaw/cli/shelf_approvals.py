"""Approvals in the state itself, when no gateway runs: the next one takes up what was decided."""

from collections.abc import Sequence
from typing import cast, get_args

from finclaw.config.schema import Settings
from finclaw.errors import SessionError
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.people import People
from finclaw.kernel.port import Clock, Store
from finclaw.kernel.record import Accepted
from finclaw.tools.approval.approvals import Approvals
from finclaw.web.approvals_view import REFUSED, evidence
from finclaw.web.principal import OWNER


class ApprovalsHere:
    """Whoever may open the state is its owner, as with the token that lies in it."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        people = People(settings.people)
        self._approvals = Approvals(store, people, settings.approvals, clock, _for_the_next_start, _any_door)

    async def listed(self, *, everything: bool) -> Sequence[Approval]:
        states = cast("tuple[ApprovalState, ...]", get_args(ApprovalState)) if everything else ("pending",)
        return await self._approvals.approvals(states)

    async def approval(self, typed: str) -> Approval | None:
        return await self._approvals.approval(typed)

    async def decide(self, typed: str, verdict: ApprovalVerdict, scope: ApprovalScope, reason: str) -> Approval:
        decided = await self._approvals.decide(typed, verdict, evidence(OWNER), scope=scope, reason=reason)
        if isinstance(decided, Refusal):
            raise refused(decided)
        return decided


def refused(refusal: Refusal) -> SessionError:
    return SessionError(REFUSED[refusal.why][1])


def _for_the_next_start(_: Accepted) -> None:
    """It is on disk; nobody here runs turns."""


def _any_door(_: str) -> Capabilities:
    return Capabilities()
