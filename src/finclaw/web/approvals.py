"""The routes for approvals. The holder of the token decides as themselves; nothing in a request says who they are.
The command line reads the same bodies."""

import re
from collections.abc import Collection
from typing import Annotated, Final, cast, get_args

from msgspec import Meta, Struct
from msgspec.structs import asdict

from finclaw.gateway import ApprovalGateway
from finclaw.kernel.approval import (
    Approval,
    ApprovalScope,
    ApprovalState,
    ApprovalVerdict,
    Refusal,
    RefusalReason,
    Standing,
)
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.scope import OutcomeKind
from finclaw.transcript.approval_ids import SHORTEST_TYPED
from finclaw.web.errors import ApiError
from finclaw.web.exchange import ApiReply, ApiRequest, HttpRoute, json_reply, read_count, read_json
from finclaw.web.principal import CHANNEL, Principal

_STATES: Final = cast("tuple[ApprovalState, ...]", get_args(ApprovalState))
WAIT: Final = 30
"""Seconds that an approval waits for what comes of it, unless the request says otherwise."""
LONGEST_WAIT: Final = 120

REFUSED: Final[dict[RefusalReason, tuple[int, str]]] = {
    "unknown": (404, "there is no such approval; `GET /api/v1/approvals` lists what waits"),
    "ambiguous": (409, "more than one approval begins with these characters; give more of its id"),
    "too_short": (400, f"give at least {SHORTEST_TYPED} characters of its id behind ap-"),
    "expired": (409, "it has expired and was not done; ask for it again"),
    "already_granted": (409, "it has been approved already; an approval counts once"),
    "already_denied": (409, "it has been denied already"),
    "already_used": (409, "it was approved and has been done; an approval counts once"),
    "failed": (409, "it was approved and could not be done; ask for it again"),
    "scope": (409, "an approval of this counts once only; leave the scope out"),
    "not_an_approver": (403, "this token's holder is no approver; approvals.approvers in the settings names them"),
    "own_request": (403, "somebody else has to decide about one's own request; approvals.own in the settings says so"),
    "our_own_words": (403, "only a person may decide"),
    "forwarded": (403, "a forwarded or edited message decides nothing"),
    "unauthenticated": (403, "that channel cannot tell who writes; decide in another one"),
    "elsewhere": (403, "decide in the chat in which it was asked for"),
}
_NOT_REVOKED: Final[dict[RefusalReason, tuple[int, str]]] = {
    **REFUSED,
    "unknown": (404, "there is no grant of this id; give it whole, as `finclaw approvals grants` shows it"),
    "not_an_approver": (
        403,
        "only its holder and approvers may revoke it; approvals.approvers in the settings names them",
    ),
}


class ApprovalsApi:
    def __init__(self, gateway: ApprovalGateway) -> None:
        self._gateway = gateway

    async def get_approvals(self, request: ApiRequest, _: Principal) -> ApiReply:
        session = request.query.get("session")
        found = await self._gateway.approvals(_states(request), session, read_count(request, "limit", 100))
        summaries = zip(found, self._gateway.summaries(found), strict=True)
        items = tuple(ListedApproval(**asdict(each), short_id=id, action=action) for each, (id, action) in summaries)
        return json_reply(ApprovalsView(items))

    async def get_approval(self, request: ApiRequest, _: Principal) -> ApiReply:
        found = await self._gateway.approval(request.path_values["id"])
        if found is None:
            raise _refusal_error("unknown")
        return json_reply(found)

    async def post_approve(self, request: ApiRequest, principal: Principal) -> ApiReply:
        body = read_json(request, ApproveBody, empty=b"{}")
        wait = _wait(request)
        decided = await self._decide(request, principal, "granted", scope=body.scope)
        outcome = await self._gateway.came_of(decided.id, wait) if wait else None
        now = await self._gateway.approval(decided.id) or decided
        run = outcome and RunView(outcome=outcome.kind, reply=outcome.reply, turn_id=outcome.turn_id)
        return json_reply(DecidedApproval(**asdict(now), run=run))

    async def post_deny(self, request: ApiRequest, principal: Principal) -> ApiReply:
        body = read_json(request, DenyBody, empty=b"{}")
        return json_reply(await self._decide(request, principal, "denied", reason=body.reason))

    async def _decide(
        self,
        request: ApiRequest,
        principal: Principal,
        verdict: ApprovalVerdict,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval:
        by = evidence(principal)
        decided = await self._gateway.decide(request.path_values["id"], verdict, by, scope=scope, reason=reason)
        if isinstance(decided, Refusal):
            raise _refusal_error(decided.why)
        return decided

    async def get_grants(self, request: ApiRequest, _: Principal) -> ApiReply:
        return json_reply(GrantsView(tuple(await self._gateway.grants(read_count(request, "limit", 100)))))

    async def post_revoke(self, request: ApiRequest, principal: Principal) -> ApiReply:
        read_json(request, NoBody, empty=b"{}")
        revoked = await self._gateway.revoke(request.path_values["id"], evidence(principal))
        if isinstance(revoked, Refusal):
            raise _refusal_error(revoked.why, _NOT_REVOKED, "no_such_grant")
        return json_reply(revoked)

    def routes(self) -> tuple[HttpRoute, ...]:
        one = "/api/v1/approvals/{id}"
        return (
            HttpRoute("GET", "/api/v1/approvals", "approvals", self.get_approvals),
            HttpRoute("GET", one, "approvals", self.get_approval),
            HttpRoute("POST", f"{one}/approve", "approvals", self.post_approve),
            HttpRoute("POST", f"{one}/deny", "approvals", self.post_deny),
            HttpRoute("GET", "/api/v1/grants", "approvals", self.get_grants),
            HttpRoute("POST", "/api/v1/grants/{id}/revoke", "approvals", self.post_revoke),
        )


def _refusal_error(
    why: RefusalReason,
    table: dict[RefusalReason, tuple[int, str]] = REFUSED,
    unknown: str = "no_such_approval",
) -> ApiError:
    status, message = table[why]
    if why == "unknown":
        return ApiError(status, unknown, message)
    return ApiError(status, why, message)


def _states(request: ApiRequest) -> Collection[ApprovalState]:
    wanted = request.query.get("state", "pending")
    if wanted == "all":
        return _STATES
    if wanted not in _STATES:
        raise ApiError(400, "bad_request", f"state must be all or one of {', '.join(_STATES)}")
    return (wanted,)


def _wait(request: ApiRequest) -> int:
    text = request.query.get("wait", str(WAIT))
    if not re.fullmatch("[0-9]{1,3}", text) or int(text) > LONGEST_WAIT:
        raise ApiError(400, "bad_request", f"wait must be a whole number of seconds from 0 to {LONGEST_WAIT}")
    return int(text)


class ApproveBody(Struct, frozen=True, forbid_unknown_fields=True):
    scope: ApprovalScope = "once"


class DenyBody(Struct, frozen=True, forbid_unknown_fields=True):
    reason: Annotated[str, Meta(max_length=300)] = ""
    """For the person who asked."""


class NoBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object, or nothing at all; the path says it all."""


class ListedApproval(Approval, frozen=True, kw_only=True):
    """An approval in a list, with its action in a line and as much of its id as tells it from the others."""

    short_id: str = ""
    action: str = ""


class RunView(Struct, frozen=True, kw_only=True):
    outcome: OutcomeKind
    reply: str | None
    turn_id: str | None


class DecidedApproval(Approval, frozen=True, kw_only=True):
    """An approval that was decided, with the result of its action where that is known by now."""

    run: RunView | None = None


class ApprovalsView(Struct, frozen=True):
    items: tuple[ListedApproval, ...]


class GrantsView(Struct, frozen=True):
    items: tuple[Standing, ...]


def evidence(principal: Principal) -> Inbound:
    """Evidence of who decides, in the place of a message: the token was shown, and by whom."""
    return Inbound(text="", channel=CHANNEL, account=principal.name, sender=Sender(principal.name))
