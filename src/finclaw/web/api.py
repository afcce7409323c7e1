"""The routes of the HTTP API.

A handler gets the authenticated principal; who may call it is in the table at the end.
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple, TypeGuard, get_args

import msgspec
from aiohttp import web

from finclaw.gateway import Gateway
from finclaw.kernel.record import CostsBy, InboundRecord
from finclaw.web.errors import ApiError
from finclaw.web.live import LiveStream
from finclaw.web.principal import MessageBody, Principal, Scope, inbound, owns
from finclaw.web.respond import json_response
from finclaw.web.settings import WebServerSettings
from finclaw.web.stop import Stops, may_stop
from finclaw.web.view import AcceptedView, MessageView, StatusView, TurnsView, UnsolicitedView, costs_view, message_view

Handler = Callable[[web.Request, Principal], Awaitable[web.StreamResponse]]

MOST_DAYS: Final = 3_660
_decode_body = msgspec.json.Decoder(MessageBody).decode


class HttpRoute(NamedTuple):
    """A route of the API: its method, its path, the scope that it needs, and its handler."""

    method: str
    path: str
    scope: Scope
    handler: Handler
    kind: Literal["plain", "upload", "stream"] = "plain"
    """An `upload` reads its own, larger body; a `stream` ends itself when the token is replaced."""


class HttpApi:
    """The handlers for messages, turns, costs and the status.

    `stopping` lets waiting clients go when the server ends.
    """

    def __init__(
        self, gateway: Gateway, settings: WebServerSettings, stopping: asyncio.Event, live: LiveStream
    ) -> None:
        self._gateway = gateway
        self._live = live
        self._settings = settings
        self._stopping = stopping
        self._stops = Stops(gateway)

    async def post_message(self, request: web.Request, principal: Principal) -> web.Response:
        accepted = await self._gateway.accept(inbound(principal, await self._body(request)))
        return json_response(AcceptedView(accepted.id, accepted.duplicate), status=202)

    async def get_message(self, request: web.Request, principal: Principal) -> web.Response:
        seconds = min(_wait(request), self._settings.wait_limit)
        record = await self._message(request, principal, owns)
        return json_response(self._view(await self._until_ended(record, seconds)))

    async def post_stop(self, request: web.Request, principal: Principal) -> web.Response:
        """202 while the stopped turn comes to its end, 200 when it has."""
        seconds = min(_wait(request), self._settings.wait_limit)
        record = await self._message(request, principal, may_stop)
        by = "the person" if owns(principal, record) else "whoever runs the gateway"
        record = await self._until_ended(await self._stops.stop(record, f"stopped by {by}"), seconds)
        return json_response(self._view(record), status=200 if record.state == "ended" else 202)

    def _view(self, record: InboundRecord) -> MessageView:
        return message_view(record, None if record.outcome else self._live.running_turn(record.inbound_id))

    async def get_unasked(self, request: web.Request, principal: Principal) -> web.Response:
        """What the gateway told a conversation of its own accord: cards, reminders, what came of an approval."""
        whose = {name: request.query[name] for name in ("conversation", "sender") if name in request.query}
        try:
            body = msgspec.convert({"message_id": "0", "text": "", **whose}, MessageBody)
        except msgspec.ValidationError as error:  # its message names the field
            raise ApiError(400, "bad_request", f"the query does not fit: {error}") from error
        told = await self._gateway.unasked(inbound(principal, body), request.query.get("after"))
        return json_response(UnsolicitedView(tuple(map(message_view, told.items)), told.after))

    async def get_turns(self, request: web.Request, _: Principal) -> web.Response:
        text = request.query.get("limit", "50")
        if not re.fullmatch("[1-9][0-9]{0,2}", text) or int(text) > 500:
            raise ApiError(400, "bad_request", "limit must be a whole number from 1 to 500")
        return json_response(TurnsView(await self._gateway.turns(int(text))))

    async def get_turn(self, request: web.Request, _: Principal) -> web.Response:
        story = await self._gateway.turn(request.match_info["turn_id"])
        if story is None:
            raise ApiError(404, "no_such_turn", "there is no such turn; GET /api/v1/turns lists the latest")
        return json_response(story)

    async def get_costs(self, request: web.Request, _: Principal) -> web.Response:
        days, by = request.query.get("days", "30"), request.query.get("by", "day")
        if not re.fullmatch("[1-9][0-9]{0,3}", days) or int(days) > MOST_DAYS:
            raise ApiError(400, "bad_request", f"days must be a whole number from 1 to {MOST_DAYS}")
        if not _is_costs_by(by):
            raise ApiError(400, "bad_request", f"by must be one of {', '.join(get_args(CostsBy))}")
        items = await self._gateway.costs(int(days), by)
        return json_response(costs_view(int(days), by, items, await self._gateway.today()))

    async def get_status(self, _: web.Request, __: Principal) -> web.Response:
        counts = await self._gateway.counts()
        gateway = self._gateway
        failure = await gateway.check_writable()
        problem = "" if failure is None else str(failure)
        ready = gateway.ready and failure is None
        about = StatusView(ready=ready, problem=problem, market=gateway.market, model=gateway.model, counts=counts)
        unreachable = tuple(await gateway.unreachable())
        about = msgspec.structs.replace(about, commands=tuple(gateway.known_commands()), unreachable=unreachable)
        return json_response(about)

    async def _body(self, request: web.Request) -> MessageBody:
        if request.content_type != "application/json":
            raise ApiError(415, "not_json", "send JSON, with the header `Content-Type: application/json`")
        try:
            return _decode_body(await request.read())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:  # its message names the field
            raise ApiError(400, "bad_request", f"the body does not fit: {error}") from error

    async def _message(
        self, request: web.Request, principal: Principal, may: Callable[[Principal, InboundRecord], bool]
    ) -> InboundRecord:
        record = await self._gateway.wait(request.match_info["inbound_id"], 0)
        if record is None or not may(principal, record):  # one answer for both: an id tells nothing about others
            raise ApiError(404, "no_such_message", "there is no such message in this account")
        return record

    async def _until_ended(self, record: InboundRecord, seconds: float) -> InboundRecord:
        if record.state == "ended" or seconds == 0:
            return record
        return await self._wait_for_end(record.inbound_id, seconds) or record

    async def _wait_for_end(self, inbound_id: str, seconds: float) -> InboundRecord | None:
        ended = asyncio.ensure_future(self._gateway.wait(inbound_id, seconds))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else None
        finally:
            ended.cancel()
            stopping.cancel()

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("POST", "/api/v1/messages", "messages", self.post_message),
            HttpRoute("GET", "/api/v1/messages", "messages", self.get_unasked),
            HttpRoute("GET", "/api/v1/messages/{inbound_id}", "messages", self.get_message),
            HttpRoute("POST", "/api/v1/messages/{inbound_id}/stop", "messages", self.post_stop),
            HttpRoute("GET", "/api/v1/turns", "status", self.get_turns),
            HttpRoute("GET", "/api/v1/turns/{turn_id}", "status", self.get_turn),
            HttpRoute("GET", "/api/v1/costs", "status", self.get_costs),
            HttpRoute("GET", "/api/v1/status", "status", self.get_status),
        )


def _is_costs_by(word: str) -> TypeGuard[CostsBy]:
    return word in get_args(CostsBy)


def _wait(request: web.Request) -> float:
    try:
        seconds = float(request.query.get("wait", "0"))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:  # false for nan, too
        raise ApiError(400, "bad_request", "wait must be a number of seconds, 0 or more")
    return seconds
