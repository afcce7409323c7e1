"""Approvals, erasure and backup in the store, for when no gateway runs.

The next gateway continues with what was decided here; extensions are loaded to erase their own data.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, cast, get_args

from msgspec.structs import replace

from finclaw.approvals.announce import unheard
from finclaw.approvals.approvals import Approvals
from finclaw.approvals.chat_directory import NoChats
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.errors import SessionError
from finclaw.extensions.registration import NULL_SERVICES
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, Standing
from finclaw.kernel.erasure import Erased, SenderId
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Store
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase
from finclaw.upkeep.backup_copy import copy_for_backup
from finclaw.upkeep.erasure import Eraser
from finclaw.web.approvals_view import REFUSED, evidence, not_revoked
from finclaw.web.principal import OWNER

MOST_LISTED: Final = 500


class StoredApprovals:
    """Approvals decided by the owner: only the owner can open the state, as with the token in it."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._approvals = Approvals(
            store, settings.everybody(), settings.approvals, clock, _leave_to_next_start, NoChats(), unheard()
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
        return await self._approvals.grants.list_grants()

    async def revoke_grant(self, typed: str) -> Standing:
        revoked = await self._approvals.grants.revoke(typed, evidence(OWNER))
        if isinstance(revoked, Refusal):
            raise SessionError(not_revoked(revoked.why)[1])
        return revoked


def _leave_to_next_start(_: Accepted) -> None:
    """It is on disk; nobody here runs turns."""


# ── erasure and backup ──────────────────────────────────────────────────────────────────────────────────────────


class StoredErasure:
    """Erasure in a store that this process holds the lock of."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def erase_session(self, session: str, *, dry_run: bool) -> Erased:
        if dry_run:
            return await self._store.erase_session(session, dry_run=True)
        return await self._with_extensions(lambda forgetting: forgetting.erase_session(session))

    async def forget_person(self, person: SenderId, *, dry_run: bool) -> Erased:
        return await self._with_extensions(lambda forgetting: forgetting.forget_person(person, dry_run=dry_run))

    async def copy_for_backup(self) -> str:
        return await copy_for_backup(self._store, self._settings.state)

    async def _with_extensions(self, work: Callable[[Eraser], Awaitable[Erased]]) -> Erased:
        databases = self._settings.state / EXTENSIONS
        services = replace(
            NULL_SERVICES,
            recall=self._store.recall,
            remember=self._store.remember,
            database=partial(ExtensionDatabase, databases),
            clock=self._clock,
        )
        registrar = load_registrar(self._settings, services)
        try:
            return await work(Eraser(self._store, registrar, self._settings.state))
        finally:
            await registrar.close()
