"""The store's port for approvals: hops to the writer, as in `store.py`."""

from collections.abc import Callable, Collection, Sequence

from finclaw.kernel.approval import Approval, ApprovalState, Decision, Grant, Refusal
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.storage.sqlite import approvals
from finclaw.storage.sqlite.approval_times import ApprovalTimes
from finclaw.storage.sqlite.approvals import Words
from finclaw.storage.sqlite.writer import WriterClient

Told = tuple[list[Approval], list[Accepted]]


class ApprovalRows(WriterClient):
    """The part of a store that keeps approvals."""

    _times: ApprovalTimes

    async def ask(self, approval: Approval) -> Approval:
        return self._note_expiry(await self._commit(lambda db: approvals.ask(db, approval)))

    async def approval(self, approval_id: str) -> Approval | None:
        expiry = self._times.now()
        found = await self._read(lambda db: approvals.find(db, approval_id, expiry))
        return None if found is None else self._note_expiry(found)

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        expiry = self._times.now()
        found = await self._read(lambda db: approvals.list_approvals(db, states, session, limit, expiry))
        self._times.see(found)
        return found

    async def decide(
        self, approval_id: str, decision: Decision, inbound: Inbound | None, then: Callable[[Accepted], None]
    ) -> Approval | Refusal:
        def committed(decided: tuple[Approval, Accepted | None] | Refusal) -> None:
            if not isinstance(decided, Refusal) and decided[1] is not None and not decided[1].duplicate:
                then(decided[1])

        now = self._clock.now()
        expiry = self._times.now()
        decided = await self._commit(
            lambda db: approvals.decide(db, self._ids, approval_id, decision, inbound, now, expiry), committed
        )
        if isinstance(decided, Refusal):
            return decided
        if decided[0].state == "denied":
            self._times.forget([approval_id])
        return decided[0]

    async def use(self, approval_id: str, turn_id: str, action: str) -> bool:
        expiry = self._times.now()
        used = await self._commit(lambda db: approvals.use(db, approval_id, turn_id, action, expiry))
        if used:
            self._times.forget([approval_id])
        return used

    async def fail(self, approval_id: str, turn_id: str) -> bool:
        failed = await self._commit(lambda db: approvals.fail(db, approval_id, turn_id))
        if failed:
            self._times.forget([approval_id])
        return failed

    async def expire(self, words: Words, then: Callable[[Accepted], None]) -> Sequence[Approval]:
        now = self._clock.now()
        expiry = self._times.now()
        gone, _ = await self._commit(lambda db: approvals.expire(db, self._ids, words, now, expiry), _each(then))
        self._times.forget([each.id for each in gone])
        return gone

    async def remind(self, words: Words, then: Callable[[Accepted], None]) -> Sequence[Approval]:
        now = self._clock.now()
        expiry = self._times.now()
        late, _ = await self._commit(lambda db: approvals.remind(db, self._ids, words, now, expiry), _each(then))
        return late

    def _note_expiry(self, approval: Approval) -> Approval:
        self._times.see([approval])
        return approval

    async def find_grant(self, tool: str, action: str, requester: str, session: str) -> Grant | None:
        return await self._read(lambda db: approvals.find_grant(db, tool, action, requester, session))

    async def grants(self, limit: int = 100) -> Sequence[Grant]:
        return await self._read(lambda db: approvals.list_grants(db, limit))

    async def revoke(self, grant_id: str) -> bool:
        return await self._commit(lambda db: approvals.revoke_grant(db, grant_id))


def _each(then: Callable[[Accepted], None]) -> Callable[[Told], None]:
    def committed(told: Told) -> None:
        for accepted in told[1]:
            if not accepted.duplicate:
                then(accepted)

    return committed
