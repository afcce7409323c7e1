"""The routes for messages and the status. Who may call a handler is in the table at the end of its class."""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from finclaw.gateway import Gateway, StopRequest
from finclaw.kernel.record import InboundRecord
from finclaw.web.errors import ApiError
from finclaw.web.exchange import ApiReply, ApiRequest, HttpRoute, json_reply, read_json
from finclaw.web.live import LiveStream
from finclaw.web.principal import MessageBody, Principal, inbound, owns
from finclaw.web.settings import WebServerSettings
from finclaw.web.view import AcceptedView, MessageView, StatusView, UnsolicitedView, message_view


class HttpApi:
    """The handlers for messages and the status. `stopping` lets waiting clients go when the server ends."""

    def __init__(
        self, gateway: Gateway, settings: WebServerSettings, stopping: asyncio.Event, live: LiveStream
    ) -> None:
        self._gateway = gateway
        self._live = live
        self._settings = settings
        self._stopping = stopping
        self._stops = Stops(gateway)

    async def post_message(self, request: ApiRequest, principal: Principal) -> ApiReply:
        accepted = await self._gateway.accept(inbound(principal, read_json(request, MessageBody)))
        return json_reply(AcceptedView(accepted.id, accepted.duplicate), status=202)

    async def get_message(self, request: ApiRequest, principal: Principal) -> ApiReply:
        seconds = min(_wait(request), self._settings.wait_limit)
        record = await self._message(request, principal, owns)
        return json_reply(self._view(await self._until_ended(record, seconds)))

    async def post_stop(self, request: ApiRequest, principal: Principal) -> ApiReply:
        """202 while the stopped turn comes to its end, 200 when it has."""
        seconds = min(_wait(request), self._settings.wait_limit)
        record = await self._message(request, principal, may_stop)
        by = "the person" if owns(principal, record) else "whoever runs the gateway"
        record = await self._until_ended(await self._stops.stop(record, f"stopped by {by}"), seconds)
        return json_reply(self._view(record), status=200 if record.state == "ended" else 202)

    def _view(self, record: InboundRecord) -> MessageView:
        return message_view(record, self._live.running_turn(record.inbound_id))

    async def get_unasked(self, request: ApiRequest, principal: Principal) -> ApiReply:
        """What the gateway told a conversation of its own accord: cards, reminders, what came of an approval."""
        whose = {name: request.query[name] for name in ("conversation", "sender") if name in request.query}
        try:
            body = msgspec.convert({"message_id": "0", "text": "", **whose}, MessageBody)
        except msgspec.ValidationError as error:  # its message names the field
            raise ApiError(400, "bad_request", f"the query does not fit: {error}") from error
        told = await self._gateway.unasked(inbound(principal, body), request.query.get("after"))
        return json_reply(UnsolicitedView(tuple(map(message_view, told.items)), told.after))

    async def get_status(self, _: ApiRequest, __: Principal) -> ApiReply:
        gateway = self._gateway
        counts = await gateway.counts()
        failure = await gateway.check_writable()
        return json_reply(
            StatusView(
                ready=gateway.ready and failure is None,
                problem=str(failure or ""),
                market=gateway.market,
                model=gateway.model,
                counts=counts,
                commands=tuple(gateway.known_commands()),
                unreachable=tuple(await gateway.unreachable()),
            )
        )

    async def _message(
        self, request: ApiRequest, principal: Principal, may: Callable[[Principal, InboundRecord], bool]
    ) -> InboundRecord:
        record = await self._gateway.wait(request.path_values["inbound_id"], 0)
        if record is None or not may(principal, record):  # one answer for both: an id tells nothing about others
            raise ApiError(404, "no_such_message", "there is no such message in this account")
        return record

    async def _until_ended(self, record: InboundRecord, seconds: float) -> InboundRecord:
        if record.state == "ended" or seconds == 0:
            return record
        ended = asyncio.ensure_future(self._gateway.wait(record.inbound_id, seconds))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                return record
            return ended.result() or record
        finally:
            ended.cancel()
            stopping.cancel()

    def routes(self) -> tuple[HttpRoute, ...]:
        return (
            HttpRoute("POST", "/api/v1/messages", "messages", self.post_message),
            HttpRoute("GET", "/api/v1/messages", "messages", self.get_unasked),
            HttpRoute("GET", "/api/v1/messages/{inbound_id}", "messages", self.get_message),
            HttpRoute("POST", "/api/v1/messages/{inbound_id}/stop", "messages", self.post_stop),
            HttpRoute("GET", "/api/v1/status", "status", self.get_status),
        )


def _wait(request: ApiRequest) -> float:
    try:
        seconds = float(request.query.get("wait", "0"))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:  # false for nan, too
        raise ApiError(400, "bad_request", "wait must be a number of seconds, 0 or more")
    return seconds


_TRIES = 20
_PAUSE = 0.05
"""A message that was taken a moment ago has not reached the stage from which on it can be stopped."""
_REMEMBERED: Final = 1_000


def may_stop(principal: Principal, record: InboundRecord) -> bool:
    """Whoever asked, and who runs the gateway: a holder of `sessions` may end a turn by a reset anyway."""
    return owns(principal, record) or "sessions" in principal.scopes


class Stops:
    """The stops that were requested. A second request is no error: the message is being stopped already."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._asked: deque[str] = deque(maxlen=_REMEMBERED)

    async def stop(self, record: InboundRecord, reason: str) -> InboundRecord:
        """The record as it is now, perhaps not ended yet. Raises ApiError when there is nothing to stop."""
        for _ in range(_TRIES):
            if record.state == "ended" or await self._is_stopping(record, reason):
                outcome = record.outcome
                if outcome is not None and outcome.kind != "stopped":
                    message = f"nothing was stopped: this message has ended before, as {outcome.kind}"
                    raise ApiError(409, "message_ended", message)
                return record
            record = await self._gateway.wait(record.inbound_id, _PAUSE) or record
        message = "this cannot be stopped now: it has not begun, or its answer is on its way; look it up by id"
        raise ApiError(409, "not_now", message)

    async def _is_stopping(self, record: InboundRecord, reason: str) -> bool:
        """When this is true the stop is on disk: not even a crash brings the turn back."""
        if record.inbound_id not in self._asked:
            request = StopRequest(session=record.session, reason=reason, only=record.inbound_id, told=False)
            if (await self._gateway.stop_session(request)).is_empty:
                return False
            self._asked.append(record.inbound_id)
        return True
