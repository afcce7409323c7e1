"""The routes for approvals. The holder of the token decides as themselves; nothing in a request says who they are."""

import re
from collections.abc import Collection
from typing import Final, cast, get_args

from finclaw.gateway import StoredGateway
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, RefusalReason
from finclaw.web.approvals_view import (
    LONGEST_WAIT,
    REFUSED,
    WAIT,
    ApprovalsView,
    ApproveBody,
    DenyBody,
    GrantsView,
    NoBody,
    decided_view,
    evidence,
    listed_views,
    not_revoked,
)
from finclaw.web.errors import ApiError
from finclaw.web.exchange import ApiReply, ApiRequest, HttpRoute, json_reply, read_count, read_json
from finclaw.web.principal import Principal

_STATES: Final = cast("tuple[ApprovalState, ...]", get_args(ApprovalState))


class ApprovalsApi:
    """The handlers for approvals and grants."""

    def __init__(self, gateway: StoredGateway) -> None:
        self._gateway = gateway

    async def get_approvals(self, request: ApiRequest, _: Principal) -> ApiReply:
        session = request.query.get("session")
        found = await self._gateway.approvals(_states(request), session, read_count(request, "limit", 100))
        return json_reply(ApprovalsView(listed_views(found, self._gateway.summaries(found))))

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
        return json_reply(decided_view(now, outcome))

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
        typed = request.path_values["id"]
        by = evidence(principal)
        decided = await self._gateway.decide(typed, verdict, by, scope=scope, reason=reason)
        if isinstance(decided, Refusal):
            raise _refusal_error(decided.why)
        return decided

    async def get_grants(self, request: ApiRequest, _: Principal) -> ApiReply:
        return json_reply(GrantsView(tuple(await self._gateway.grants(read_count(request, "limit", 100)))))

    async def post_revoke(self, request: ApiRequest, principal: Principal) -> ApiReply:
        read_json(request, NoBody, empty=b"{}")
        revoked = await self._gateway.revoke(request.path_values["id"], evidence(principal))
        if isinstance(revoked, Refusal):
            status, words = not_revoked(revoked.why)
            raise ApiError(status, "no_such_grant" if revoked.why == "unknown" else revoked.why, words)
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


def _refusal_error(why: RefusalReason) -> ApiError:
    status, words = REFUSED[why]
    return ApiError(status, "no_such_approval" if why == "unknown" else why, words)


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
