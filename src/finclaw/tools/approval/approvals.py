"""Asking for consent and taking it: every door and the agent come through here, and the store has the last word."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.errors import ToolDenied
from finclaw.kernel.approval import (
    Approval,
    ApprovalScope,
    ApprovalState,
    ApprovalVerdict,
    Decision,
    Grant,
    Refusal,
    action_hash,
    new_approval_id,
    read_approval_id,
)
from finclaw.kernel.approvals import ApprovalStore
from finclaw.kernel.envelope import Capabilities, Inbound
from finclaw.kernel.language import language_of
from finclaw.kernel.people import People, identity_of
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted
from finclaw.tools.approval import telling
from finclaw.tools.approval.card import card
from finclaw.tools.approval.consent import approvers_for, may_decide
from finclaw.tools.approval.drift import has_drifted
from finclaw.tools.approval.settings import ApprovalSettings

MOST_WAITING: Final = 20
"""In one session. A model that asks on and on must not bury the card that matters."""
_MANY: Final = 10_000


class Action(Struct, frozen=True, kw_only=True):
    """What is to be done, and in whose turn. `args` are final: checked, and with their defaults."""

    tool: str
    args: Mapping[str, Any]
    inbound: Inbound
    session: str
    inbound_id: str
    turn_id: str
    call_id: str
    moves_money: bool = True
    quote: Mapping[str, Any] | None = None
    sources: tuple[str, ...] = ()


class Approvals:
    """`submit` is handed every message that a decision, a reminder or an expiry has added."""

    def __init__(
        self,
        store: ApprovalStore,
        people: People,
        settings: ApprovalSettings,
        clock: Clock,
        submit: Callable[[Accepted], None],
        capabilities: Callable[[str], Capabilities],
        prefix: str = "/",
    ) -> None:
        self._store = store
        self._people = people
        self._settings = settings
        self._clock = clock
        self._submit = submit
        self._capabilities = capabilities
        self._prefix = prefix
        self.asked = asyncio.Event()
        """Set whenever another approval has been asked for."""

    # ── the agent's side ────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, action: Action) -> Approval:
        """Keep the question; its card is what the person is to read. A turn taken up again gets the one it asked.

        Raises ToolDenied when nobody may decide, the action cannot be shown in full, or too many wait already;
        InvalidArguments when it cannot be kept exactly.
        """
        await self._room_for(action)
        door = self._capabilities(action.inbound.channel)
        asked = self._question(action, authenticated=door.authenticated)
        shown = card(asked, prefix=self._prefix, max_length=door.max_length)
        kept = await self._store.ask(replace(asked, card=shown))
        self.asked.set()
        return kept

    async def _room_for(self, action: Action) -> None:
        waiting = await self._store.approvals(session=action.session, limit=MOST_WAITING)
        mine = any((each.turn_id, each.call_id) == (action.turn_id, action.call_id) for each in waiting)
        if len(waiting) >= MOST_WAITING and not mine:
            raise ToolDenied(f"{MOST_WAITING} actions wait for a person here already; wait until some are decided")

    def _question(self, action: Action, *, authenticated: bool) -> Approval:
        inbound, money = action.inbound, action.moves_money
        wanted = action_hash(action.tool, action.args)
        args = deepcopy(dict(action.args))  # ours alone: nobody changes them while they are shown and kept
        now = self._clock.now().astimezone(UTC)
        return Approval(
            id=new_approval_id(),
            tool=action.tool,
            args=args,
            hash=wanted,
            session=action.session,
            inbound_id=action.inbound_id,
            turn_id=action.turn_id,
            call_id=action.call_id,
            requester=inbound.sender,
            channel=inbound.channel,
            account=inbound.account,
            conversation=inbound.conversation,
            thread=inbound.thread,
            chat_type=inbound.chat_type,
            approvers=approvers_for(inbound, self._people, self._settings, authenticated=authenticated),
            scopes=("once",) if money else ("once", "session", "always"),
            asked_at=now,
            expires_at=now + timedelta(seconds=self._settings.order_expire_s if money else self._settings.expire_s),
            quote=action.quote,
            sources=action.sources,
            language=language_of(inbound.text),
        )

    async def standing(self, action: Action) -> Grant | None:
        """The yes that somebody gave for exactly this, here or everywhere. There is none for what moves money."""
        if action.moves_money:
            return None
        wanted = action_hash(action.tool, action.args)
        return await self._store.standing(action.tool, wanted, identity_of(action.inbound), action.session)

    async def take(self, approval_id: str, turn_id: str, session: str | None = None) -> Approval:
        """The action that may now run, once. Raises ToolDenied, with words for the person, when it may not.

        A session that is given must be the one that asked. Who calls has looked into the turn's log before: a tool
        that has begun is not begun again.
        """
        asked = await self._store.approval(approval_id)
        if asked is None or session not in (None, asked.session):
            raise ToolDenied(f"there is no approval {approval_id} here; nothing was run")
        if not await self._store.use(approval_id, turn_id, action_hash(asked.tool, asked.args)):
            now = await self._store.approval(approval_id)
            state = "gone" if now is None else now.state
            raise ToolDenied(f"approval {approval_id} is {state}; {asked.tool} was not run")
        return asked

    def has_drifted(self, asked: Approval, quote: Mapping[str, Any] | None) -> bool:
        """Whether the prices are no longer those on the card."""
        return has_drifted(asked.quote, quote, Decimal(str(self._settings.drift_percent)))

    async def fail(self, approval_id: str, turn_id: str) -> None:
        """What was taken did not run, or nobody knows how it ended: the record says so."""
        await self._store.fail(approval_id, turn_id)

    # ── the doors' side ─────────────────────────────────────────────────────────────────────────────────────

    async def decide(
        self,
        typed: str,
        verdict: ApprovalVerdict,
        evidence: Inbound,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval | Refusal:
        """Take a decision. `evidence` is the message that carried it, as its door authenticated it."""
        asked = await self.approval(typed)
        if asked is None:
            return Refusal("unknown")
        why = may_decide(asked, evidence, self._people, self._settings)
        if why is not None:
            return Refusal(why, asked)
        decision = Decision(verdict=verdict, by=identity_of(evidence), scope=scope, reason=reason)
        return await self._store.decide(asked.id, decision, telling.decided(asked, decision), self._submit)

    async def approval(self, typed: str) -> Approval | None:
        """By its id as somebody typed it; whole, or not at all."""
        approval_id = read_approval_id(typed)
        return None if approval_id is None else await self._store.approval(approval_id)

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        return await self._store.approvals(states, session, limit)

    async def open_to(self, evidence: Inbound) -> Sequence[Approval]:
        """What waits for whoever sent this, the newest first."""
        waiting = await self._store.approvals()
        return [each for each in waiting if may_decide(each, evidence, self._people, self._settings) is None]

    async def grants(self, limit: int = 100) -> Sequence[Grant]:
        return await self._store.grants(limit)

    async def revoke(self, typed: str, evidence: Inbound) -> bool:
        """Take a standing yes back. Whoever might have given it may."""
        asked = await self.approval(typed)
        if asked is None or may_decide(asked, evidence, self._people, self._settings) is not None:
            return False
        return await self._store.revoke(asked.id)

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────

    async def sweep(self) -> datetime | None:
        """Tell about those whose time is over, and remind of those that have waited for half of theirs.

        Gives the moment at which there will be something to tell; None while nothing is open.
        """
        await self._store.expire(telling.expired, self._submit)
        await self._store.remind(telling.reminder, self._submit)
        waiting = await self._store.approvals(("pending", "granted"), limit=_MANY)
        return min(map(_next, waiting), default=None)


def _next(asked: Approval) -> datetime:
    """When there is something to tell about it."""
    if asked.state != "pending" or asked.reminded_at is not None:
        return asked.expires_at
    return asked.asked_at + (asked.expires_at - asked.asked_at) / 2
