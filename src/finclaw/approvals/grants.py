"""Grants, approvals that hold for later calls too: who may rely on one, who may see it, and who may revoke it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from finclaw.approvals.action import Action
from finclaw.approvals.announce import Announcer
from finclaw.approvals.people import People, identity_of, may_revoke, may_still_give
from finclaw.approvals.remote_approvers import ChatDirectory
from finclaw.approvals.settings import ApprovalSettings
from finclaw.kernel.approval import Approval, Grant, Refusal, RefusalReason, Standing
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Clock
from finclaw.kernel.store_port import ApprovalStore
from finclaw.transcript.approval_ids import SHORTEST_TYPED, action_hash, read_approval_id, read_short_id

_MANY: Final = 1_000


class Grants:
    def __init__(
        self,
        store: ApprovalStore,
        people: People,
        settings: ApprovalSettings,
        clock: Clock,
        chats: ChatDirectory,
        announce: Announcer,
    ) -> None:
        self._store = store
        self._people = people
        self._settings = settings
        self._clock = clock
        self._chats = chats
        self._announce = announce

    async def standing(self, action: Action) -> Grant | None:
        """Return the grant that matches this action, if its giver may still give it; none for what moves money."""
        first = await self._first(action)
        if first is None or await self._giver_may(first) is not None:
            return first
        return next((grant for grant, _ in await self._valid(_MANY) if _is_for(grant, action)), None)

    async def lapse(self, action: Action) -> str:
        """End those whose givers may no longer give them; gives the identity of the last of these."""
        lapsed = ""
        while (grant := await self._first(action)) is not None and await self._giver_may(grant) is None:
            asked = await self._store.approval(grant.id)
            if await self._store.revoke(grant.id) and asked is not None:
                lapsed = grant.granted_by
                self._announce("lapsed", asked, by=lapsed)
        return lapsed

    async def _first(self, action: Action) -> Grant | None:
        if action.moves_money:
            return None
        wanted = action_hash(action.tool, action.args, action.definition)
        who = identity_of(action.inbound)
        while grant := await self._store.find_grant(action.tool, wanted, who, action.session):
            if self._until(grant) > self._clock.now():
                return grant
            await self._store.revoke(grant.id)  # its time is over, and it stands before a newer one
        return None

    async def _giver_may(self, grant: Grant) -> Approval | None:
        """The approval that gave it; None when whoever decided about that might not do so now."""
        asked = await self._store.approval(grant.id)
        if asked is None or not self.may_still_give(asked):
            return None
        return asked

    def may_still_give(self, asked: Approval) -> bool:
        authenticated = self._chats.capabilities(asked.channel).authenticated
        return may_still_give(asked, self._people, self._settings, authenticated=authenticated)

    async def list_grants(self, limit: int = 100) -> Sequence[Standing]:
        return [self._describe_grant(grant, asked) for grant, asked in await self._valid(limit)]

    async def open_to(self, evidence: Inbound) -> Sequence[Standing]:
        """Those that whoever sent this may take back; where others read along, only those that were given there."""
        valid = await self._valid(_MANY)
        return [self._describe_grant(grant, asked) for grant, asked in valid if self._may_see(asked, evidence)]

    async def _valid(self, limit: int) -> list[tuple[Grant, Approval]]:
        now = self._clock.now()
        grants = [grant for grant in await self._store.grants(limit) if self._until(grant) > now]
        pairs = [(grant, await self._giver_may(grant)) for grant in grants]
        return [(grant, asked) for grant, asked in pairs if asked is not None]

    async def revoke(self, typed: str, evidence: Inbound) -> Standing | Refusal:
        """Whoever a grant lets act may give it up, and whoever might give it may take it back."""
        grant_id = await self._id_of(typed)
        asked = grant_id and await self._store.approval(grant_id)
        if not asked:
            return Refusal("unknown")
        why = self._may_revoke(asked, evidence)
        if why is not None:
            return Refusal(why, asked)
        if asked.decided_by is None or not await self._store.revoke(asked.id):
            return Refusal("unknown", asked)
        self._announce("revoked", asked, by=identity_of(evidence))
        return self._describe_grant(_as_given(asked), asked)

    async def _id_of(self, typed: str) -> str | None:
        """Resolve a full id or an unambiguous prefix."""
        begins = read_short_id(typed)
        if begins is None or len(begins) < len("ap-") + SHORTEST_TYPED:
            return read_approval_id(typed)
        found = [grant.id for grant in await self._store.grants(_MANY) if grant.id.startswith(begins)]
        return found[0] if len(found) == 1 else None

    def _may_revoke(self, asked: Approval, evidence: Inbound) -> RefusalReason | None:
        authenticated = self._chats.capabilities(evidence.channel).authenticated
        return may_revoke(asked, evidence, self._people, self._settings, authenticated=authenticated)

    def _may_see(self, asked: Approval, evidence: Inbound) -> bool:
        if self._may_revoke(asked, evidence) is not None:
            return False
        here = (asked.channel, asked.account, asked.conversation)
        return evidence.chat_type == "direct" or here == (evidence.channel, evidence.account, evidence.conversation)

    def _until(self, grant: Grant) -> datetime:
        return grant.granted_at + timedelta(days=self._settings.standing_days)

    def _describe_grant(self, grant: Grant, asked: Approval) -> Standing:
        return Standing(
            id=grant.id,
            tool=grant.tool,
            args=asked.args,
            requester=grant.requester,
            session=grant.session,
            granted_by=grant.granted_by,
            granted_at=grant.granted_at,
            expires_at=self._until(grant),
        )


def _is_for(grant: Grant, action: Action) -> bool:
    wanted = action_hash(action.tool, action.args, action.definition)
    exactly = (action.tool, wanted, identity_of(action.inbound))
    return (grant.tool, grant.hash, grant.requester) == exactly and grant.session in (None, action.session)


def _as_given(asked: Approval) -> Grant:
    """The grant that an approval left behind, told from the approval: its own row is gone."""
    return Grant(
        id=asked.id,
        tool=asked.tool,
        hash=asked.hash,
        requester=asked.asked_by,
        session=asked.session if asked.scope == "session" else None,
        granted_by=asked.decided_by or "",
        granted_at=asked.decided_at or asked.asked_at,
    )
