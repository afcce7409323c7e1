"""Approvals: asking a person and taking the decision, for all channels and the agent. The store has the last word."""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final, Protocol, cast, get_args

from msgspec.structs import replace

from finclaw.approvals import messages
from finclaw.approvals.action import Action, has_drifted
from finclaw.approvals.announce import Announcer
from finclaw.approvals.card import card, decision_buttons
from finclaw.approvals.grants import Grants
from finclaw.approvals.people import People, approvers_for, decides_here, identity_of, may_decide
from finclaw.approvals.remote_approvers import ApprovalLimits, ChatDirectory, Crowded, KnownAs, RemoteApprovers
from finclaw.approvals.settings import ApprovalSettings
from finclaw.errors import SessionError, ToolDenied
from finclaw.kernel.approval import (
    Approval,
    ApprovalScope,
    ApprovalState,
    ApprovalVerdict,
    Decision,
    Refusal,
    RefusalReason,
)
from finclaw.kernel.envelope import ActionButton, Inbound
from finclaw.kernel.event import ApprovalChange
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import ApprovalStore, Inbox
from finclaw.redaction.redact import redact_for_display
from finclaw.transcript.approval_ids import (
    SHORTEST_TYPED,
    action_hash,
    new_approval_id,
    read_approval_id,
    read_short_id,
)

log = logging.getLogger(__name__)

_MANY: Final = 10_000
_RECENT: Final = 1_000
_OPEN: Final[tuple[ApprovalState, ...]] = ("pending", "granted")
_EVERY: Final = cast("tuple[ApprovalState, ...]", get_args(ApprovalState))


class ApprovalAndInboxStore(ApprovalStore, Inbox, Protocol):
    pass


class Approvals:
    """`submit` is handed every message that a decision, a reminder or an expiry has added."""

    def __init__(
        self,
        store: ApprovalAndInboxStore,
        people: People,
        settings: ApprovalSettings,
        clock: Clock,
        submit: Callable[[Accepted], None],
        chats: ChatDirectory,
        announce: Announcer,
        prefix: str = "/",
    ) -> None:
        self._store = store
        self._people = people
        self._settings = settings
        self._clock = clock
        self._submit = submit
        self._chats = chats
        self._announce = announce
        self._prefix = prefix
        self._remote_approvers = RemoteApprovers(store, people, chats, submit, announce, prefix)
        self._limits = ApprovalLimits(people, settings)
        self._asking = asyncio.Lock()  # callers at once must not find the same room
        self._limit_message_suffix = secrets.token_hex(8)
        """Nobody knows it beforehand: a client that names its own messages cannot have taken what we call ours."""
        self.grants = Grants(store, people, settings, clock, chats, announce)
        self._runs: OrderedDict[str, str] = OrderedDict()
        self._givers: OrderedDict[str, tuple[Inbound, str]] = OrderedDict()
        """Who approved what in another chat than it was asked for in, and the session of that chat."""
        self.asked = asyncio.Event()  # set whenever another approval has been asked for

    # ── the agent's side ────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, action: Action) -> Approval:
        """Keep the question; its card is what the person is to read. A turn taken up again gets the one it asked.

        Raises ToolDenied when nobody may decide, the action cannot be shown in full, or too many wait already;
        InvalidArguments when it cannot be kept exactly.
        """
        channel = self._chats.capabilities(action.inbound.channel)
        asked = self._question(action, authenticated=channel.authenticated)
        asked = replace(asked, lapsed=await self.grants.lapse(action))
        async with self._asking:
            deciders = await self._find_deciders(asked)
            asked = replace(asked, sent_to=await self._remote_approvers.addressees(asked, deciders))
            shown = card(asked, prefix=self._prefix, max_length=channel.max_length)
            kept = await self._store.ask(replace(asked, card=shown))
        if kept.hash != asked.hash:
            raise ToolDenied(f"this call has asked for something else already; {asked.tool} was not run. Call it anew")
        if kept.id == asked.id:
            self._announce("asked", kept, by=kept.asked_by)
        self.asked.set()
        return kept

    async def asked_by_calls(self, session: str, turn_id: str, calls: Sequence[str]) -> Sequence[Approval]:
        found: dict[str, Approval] = {}
        for states in (_OPEN, _EVERY):
            if any(call not in found for call in calls):
                kept = await self._store.approvals(states, session, _MANY)
                found = {each.call_id: each for each in kept if each.turn_id == turn_id} | found
        return [found[call] for call in calls if call in found]

    def buttons(self, asked: Sequence[Approval]) -> tuple[ActionButton, ...]:
        """Buttons below the cards in the chat in which they were asked for, if anybody there may decide."""
        people = self._people
        shown = [each for each in asked if each.chat_type != "direct" or decides_here(each, people, self._settings)]
        return decision_buttons(shown, self._prefix)

    async def _find_deciders(self, asked: Approval) -> Sequence[KnownAs]:
        waiting = await self._store.approvals(limit=_MANY)
        if any((each.turn_id, each.call_id) == (asked.turn_id, asked.call_id) for each in waiting):
            return ()  # the one that this turn has asked stays as it is
        try:
            return self._limits.deciders_with_room(asked, waiting)
        except Crowded:
            told = messages.line_message(asked, "crowded")
            told = replace(told, message_id=f"{asked.turn_id}:crowded:{self._limit_message_suffix}")  # once for a turn
            await self._store.accept(told, asked.session, self._submit)
            raise

    def _question(self, action: Action, *, authenticated: bool) -> Approval:
        inbound = action.inbound
        args = deepcopy(dict(action.args))  # ours alone: nobody changes them while they are shown and kept
        now = self._clock.now().astimezone(UTC)
        scopes: tuple[ApprovalScope, ...] = ("once", "session", "always")
        seconds = self._settings.expire_s
        if action.moves_money:
            scopes = ("once",)
            seconds = self._settings.order_expire_s
        return Approval(
            id=new_approval_id(),
            tool=action.tool,
            args=args,
            hash=action_hash(action.tool, action.args, action.definition),
            definition=action.definition,
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
            scopes=scopes,
            asked_at=now,
            expires_at=now + timedelta(seconds=seconds),
            quote=action.quote,
            sources=action.sources,
            language=inbound.reply_language,
        )

    async def take(self, approval_id: str, turn_id: str, session: str | None = None) -> Approval:
        """Take an action to run, once. Raises ToolDenied when it may not run, or when another session asked for it.

        The caller has read the turn's log before: a tool that was started is not started again.
        """
        asked = await self._store.approval(approval_id)
        if asked is None or session not in (None, asked.session):
            raise ToolDenied("there is no such approval here; nothing was run")
        if asked.state == "granted" and not self.grants.may_still_give(asked):  # other settings may have come since
            await self.fail(asked, turn_id)
            raise ToolDenied(f"{asked.decided_by} may no longer approve it; {asked.tool} was not run. Ask again")
        if not await self._store.use(approval_id, turn_id, action_hash(asked.tool, asked.args, asked.definition)):
            now = await self._store.approval(approval_id)
            state = now.state if now else "gone"
            raise ToolDenied(f"its approval is {state}; {asked.tool} was not run")
        self._announce("run", asked, by=turn_id)
        return asked

    def has_drifted(self, asked: Approval, quote: Mapping[str, Any] | None) -> bool:
        """Whether the prices are no longer those on the card. Observers are told when they are not."""
        drifted = has_drifted(asked.quote, quote, Decimal(str(self._settings.drift_percent)))
        if drifted:
            self._announce("drifted", asked)
        return drifted

    async def fail(self, approved: Approval, turn_id: str) -> None:
        """Record that what was taken did not run, or that nobody knows how it ended."""
        if await self._store.fail(approved.id, turn_id):
            self._announce("failed", approved, by=turn_id)

    # ── the channels' side ──────────────────────────────────────────────────────────────────────────────────

    async def decide(
        self,
        typed: str,
        verdict: ApprovalVerdict,
        evidence: Inbound,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
        session: str | None = None,
    ) -> Approval | Refusal:
        """`evidence` is the message that carried the decision, `session` the session of that message."""
        asked = await self._find(typed)
        if isinstance(asked, str):
            return Refusal(asked)
        why = self._may_decide(asked, evidence)
        if why is not None:
            return Refusal(why, asked)
        # The reason is told to whoever asked, who is often somebody else.
        told = redact_for_display(reason)
        decision = Decision(verdict=verdict, by=identity_of(evidence), scope=scope, reason=told)
        if verdict == "granted":
            giver = None
            if session is not None and session != asked.session:
                giver = (evidence, session)
            submit_run = partial(self._submit_run, asked.id, giver)
            message = messages.decision_message(asked, decision)
            decided = await self._store.decide(asked.id, decision, message, submit_run)
            change: ApprovalChange = "approved"
        else:
            # The answer to this very decision tells of a denial in the chat where it was asked for.
            message = None if session == asked.session else messages.decision_message(asked, decision)
            decided = await self._store.decide(asked.id, decision, message, self._submit)
            change = "denied"
        if not isinstance(decided, Refusal):
            self._announce(change, decided, by=decision.by)
        return decided

    def _submit_run(self, approval_id: str, giver: tuple[Inbound, str] | None, accepted: Accepted) -> None:
        """Called by the commit of the decision. The giver is known before the run begins, which may end at once."""
        _keep_newest(self._runs, approval_id, accepted.id)
        if giver is not None:
            _keep_newest(self._givers, approval_id, giver)
        self._submit(accepted)

    def run_of(self, approval_id: str) -> str | None:
        """The message whose turn runs what was approved in this process."""
        return self._runs.get(approval_id)

    async def tell_giver(self, approved: Approval, line: str) -> None:
        """Tell whoever approved it in another chat what came of it."""
        giver = self._givers.pop(approved.id, None)
        if giver is not None:
            evidence, session = giver
            await self._store.accept(messages.outcome_message(approved, evidence, line), session, self._submit)

    def _may_decide(self, asked: Approval, evidence: Inbound) -> RefusalReason | None:
        authenticated = self._chats.capabilities(evidence.channel).authenticated
        return may_decide(asked, evidence, self._people, self._settings, authenticated=authenticated)

    async def approval(self, typed: str) -> Approval | None:
        """By its id as somebody typed it: whole, or an unambiguous beginning."""
        found = await self._find(typed)
        return None if isinstance(found, str) else found

    async def _find(self, typed: str) -> Approval | RefusalReason:
        whole = read_approval_id(typed)
        if whole is not None:
            return await self._store.approval(whole) or "unknown"
        begins = read_short_id(typed)
        if begins is None:
            return "unknown"
        if len(begins) < len("ap-") + SHORTEST_TYPED:
            return "too_short"
        for states, limit in ((_OPEN[:1], _MANY), (_EVERY, _RECENT)):
            found = [each for each in await self._store.approvals(states, limit=limit) if each.id.startswith(begins)]
            if len(found) > 1:
                return "ambiguous"
            if found:
                return found[0]
        return "unknown"

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        return await self._store.approvals(states, session, limit)

    async def open_to(self, evidence: Inbound) -> Sequence[Approval]:
        """What waits for whoever sent this, the newest first; behind it what others can decide for themselves."""
        waiting = await self._store.approvals(limit=_MANY)
        theirs = [each for each in waiting if self._may_decide(each, evidence) is None]
        who = identity_of(evidence)
        return sorted(theirs, key=lambda each: not any(who in person for person in self._limits.deciders_of(each)))

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────

    async def sweep(self) -> datetime | None:
        """Tell of expired approvals, remind, and ask remote approvers. Returns when the next one is due."""
        for expired in await self._store.expire(partial(messages.line_message, line="expired"), self._submit):
            self._announce("expired", expired)
        for reminded in await self._store.remind(partial(messages.line_message, line="reminder"), self._submit):
            self._announce("reminded", reminded)
        waiting = await self._store.approvals(_OPEN, limit=_MANY)
        await self._remote_approvers.send(waiting)
        return min(map(_next, waiting), default=None)


def _keep_newest(kept: OrderedDict[str, Any], key: str, value: object) -> None:
    kept[key] = value
    if len(kept) > _RECENT:
        kept.popitem(last=False)


def _next(asked: Approval) -> datetime:
    if asked.state != "pending" or asked.reminded_at is not None:
        return asked.expires_at
    return asked.asked_at + (asked.expires_at - asked.asked_at) / 2


_LONGEST_NAP: Final = 60.0  # seconds, after which a changed clock is noticed
_AFTER_TROUBLE: Final = 5.0


class ApprovalWatch:
    def __init__(self, approvals: Approvals, clock: Clock) -> None:
        self._approvals = approvals
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="approvals")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        while True:
            self._approvals.asked.clear()
            try:
                due = await self._approvals.sweep()
            except SessionError as error:  # the disk may do better in a moment; nothing was told
                log.error("approvals could not be looked at: %s", error)
                await self._clock.sleep(_AFTER_TROUBLE)
            else:
                await self._until(due)

    async def _until(self, due: datetime | None) -> None:
        """Until then, or until somebody asks for another approval, which may be due before it."""
        if due is None:
            await self._approvals.asked.wait()
            return
        seconds = (due - self._clock.now()).total_seconds()
        nap = asyncio.create_task(self._clock.sleep(min(max(0.0, seconds), _LONGEST_NAP)))
        asked = asyncio.create_task(self._approvals.asked.wait())
        try:
            await asyncio.wait([nap, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()
            asked.cancel()
            await asyncio.wait([nap, asked])
