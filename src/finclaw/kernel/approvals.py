"""The port behind approvals: they are kept like messages, and every change of one is a commit of its own."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from finclaw.kernel.approval import (
    Approval,
    ApprovalScope,
    ApprovalState,
    ApprovalVerdict,
    Decision,
    Grant,
    Refusal,
    Standing,
)
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import Outcome

Summary = tuple[str, str]
"""As much of an approval's id as tells it from others in a list, and its action in a line."""


class ApprovalStore(Protocol):
    """What each method writes it has written when it returns. Raises StoreFailed: nothing of it happened.

    `then` runs for every message that a commit has added, after that commit, also if the caller is gone.
    """

    async def ask(self, approval: Approval) -> Approval:
        """Keep it. Idempotent by turn and call: a turn that was taken up again gets the one it had asked for."""
        ...

    async def approval(self, approval_id: str) -> Approval | None: ...

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        """The newest first. One that is past its time is `expired`, whether or not that has been written yet."""
        ...

    async def decide(
        self, approval_id: str, decision: Decision, inbound: Inbound, then: Callable[[Accepted], None]
    ) -> Approval | Refusal:
        """Pending and in time becomes granted or denied, and the message enters the requester's session with it.

        A scope beyond `once` leaves a Grant. Who may decide has been settled before; whether it is still open is
        settled here.
        """
        ...

    async def use(self, approval_id: str, turn_id: str, action: str) -> bool:
        """Take the one right to run the action whose hash this is. False: not granted, too late, or not yours.

        True again for the same turn, which may have died between this and the beginning of the tool: only its own
        log knows whether the tool began (`ToolStarted`), and who calls looks there first.
        """
        ...

    async def fail(self, approval_id: str, turn_id: str) -> bool:
        """The action was granted and could not be run, or nobody knows how it ended."""
        ...

    async def expire(
        self, words: Callable[[Approval], Inbound], then: Callable[[Accepted], None]
    ) -> Sequence[Approval]:
        """Those whose time is over. The requester of one that nobody decided is told in the same commit, once."""
        ...

    async def remind(
        self, words: Callable[[Approval], Inbound], then: Callable[[Accepted], None]
    ) -> Sequence[Approval]:
        """Those that have waited for half of their time, each once; the words go out with the same commit."""
        ...

    async def standing(self, tool: str, action: str, requester: str, session: str) -> Grant | None:
        """The yes under which this person may do exactly this here without asking again."""
        ...

    async def grants(self, limit: int = 100) -> Sequence[Grant]: ...

    async def revoke(self, grant_id: str) -> bool:
        """False: there is no such grant any more."""
        ...


class ApprovalDoor(Protocol):
    """What a door may ask of the house about approvals. Ids are as somebody typed them."""

    async def approval(self, typed: str) -> Approval | None: ...
    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]: ...

    async def decide(
        self,
        typed: str,
        verdict: ApprovalVerdict,
        evidence: Inbound,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval | Refusal:
        """Take a decision. `evidence` is the message that carried it, or what stands for one at this door."""
        ...

    def summaries(self, approvals: Sequence[Approval]) -> Sequence[Summary]:
        """Each in a line, for a list of them."""
        ...

    async def came_of(self, approval_id: str, seconds: float) -> Outcome | None:
        """How the turn behind a yes ended, as soon as it has; None: not within the seconds, or there is none here."""
        ...

    async def grants(self, limit: int = 100) -> Sequence[Standing]:
        """What may pass without being asked for again, the newest first."""
        ...

    async def revoke(self, typed: str, evidence: Inbound) -> Standing | Refusal:
        """Take a standing yes back: what it let pass is asked for again from now on."""
        ...
