"""The routes for approvals. The holder of the token decides as themselves; nothing in a request says who they are."""

import re
from collections.abc import Collection
from typing import Final, TypeVar, cast, get_args

import msgspec
from aiohttp import web

from finclaw.gateway import Gateway
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, RefusalReason
from finclaw.web.api import HttpRoute
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
from finclaw.web.principal import Principal
from finclaw.web.respond import json_response

T = TypeVar("T")

_STATES: Final = cast("tuple[ApprovalState, ...]", get_args(ApprovalState))


class ApprovalsApi:
    """The handlers for approvals and grants."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def get_approvals(self, request: web.Request, _: Principal) -> web.Response:
        session = request.query.get("session")
        found = await self._gateway.approvals(_states(request), session, _limit(request))
        return json_response(ApprovalsView(listed_views(found, self._gateway.summaries(found))))

    async def get_approval(self, request: web.Request, _: Principal) -> web.Response:
        found = await self._gateway.approval(request.match_info["id"])
        if found is None:
            raise _refusal_error("unknown")
        return json_response(found)

    async def post_approve(self, request: web.Request, principal: Principal) -> web.Response:
        body, wait = await _body(request, ApproveBody), _wait(request)
        decided = await self._decide(request, principal, "granted", scope=body.scope)
        outcome = await self._gateway.came_of(decided.id, wait) if wait else None
        now = await self._gateway.approval(decided.id) or decided
        return json_response(decided_view(now, outcome))

    async def post_deny(self, request: web.Request, principal: Principal) -> web.Response:
        body = await _body(request, DenyBody)
        return json_response(await self._decide(request, principal, "denied", reason=body.reason))

    async def _decide(
        self,
        request: web.Request,
        principal: Principal,
        verdict: ApprovalVerdict,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval:
        typed, by = request.match_info["id"], evidence(principal)
        decided = await self._gateway.decide(typed, verdict, by, scope=scope, reason=reason)
        if isinstance(decided, Refusal):
            raise _refusal_error(decided.why)
        return decided

    async def get_grants(self, request: web.Request, _: Principal) -> web.Response:
        return json_response(GrantsView(tuple(await self._gateway.grants(_limit(request)))))

    async def post_revoke(self, request: web.Request, principal: Principal) -> web.Response:
        await _body(request, NoBody)
        revoked = await self._gateway.revoke(request.match_info["id"], evidence(principal))
        if isinstance(revoked, Refusal):
            status, words = not_revoked(revoked.why)
            raise ApiError(status, "no_such_grant" if revoked.why == "unknown" else revoked.why, words)
        return json_response(revoked)

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


def _states(request: web.Request) -> Collection[ApprovalState]:
    wanted = request.query.get("state", "pending")
    if wanted == "all":
        return _STATES
    if wanted not in _STATES:
        raise ApiError(400, "bad_request", f"state must be all or one of {', '.join(_STATES)}")
    return (wanted,)


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", "100")
    if not re.fullmatch("[1-9][0-9]{0,2}", text) or int(text) > 500:
        raise ApiError(400, "bad_request", "limit must be a whole number from 1 to 500")
    return int(text)


def _wait(request: web.Request) -> int:
    text = request.query.get("wait", str(WAIT))
    if not re.fullmatch("[0-9]{1,3}", text) or int(text) > LONGEST_WAIT:
        raise ApiError(400, "bad_request", f"wait must be a whole number of seconds from 0 to {LONGEST_WAIT}")
    return int(text)


async def _body(request: web.Request, kind: type[T]) -> T:
    if request.content_type != "application/json":
        raise ApiError(415, "not_json", "send JSON, with the header `Content-Type: application/json`")
    try:
        return msgspec.json.decode(await request.read() or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # its message names the field
        raise ApiError(400, "bad_request", f"the body does not fit: {error}") from error
