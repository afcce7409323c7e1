"""The live stream as server-sent events: `GET /api/v1/stream`, resumed by `after` or the browser's Last-Event-ID."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final

import msgspec
from aiohttp import web

from finclaw.web.auth import Authenticator
from finclaw.web.errors import ApiError, error_view
from finclaw.web.live import LiveEvent, LiveStream
from finclaw.web.principal import Principal
from finclaw.web.respond import RedactedStream
from finclaw.web.token_watch import TokenWatch

KEEP_ALIVE: Final = 15.0
"""Seconds of silence after which a comment shows both sides that the line still stands."""

_encode = msgspec.json.Encoder().encode
RETRY_MS: Final = 2_000
"""After so long a client may look whether the gateway is back."""
_SHUTDOWN: Final = f"retry: {RETRY_MS}\nevent: shutdown\ndata: ".encode() + _encode({"retry_ms": RETRY_MS}) + b"\n\n"


class EventStreams:
    """The streams of server-sent events."""

    def __init__(
        self, live: LiveStream, authenticator: Authenticator, watch: TokenWatch, stopping: asyncio.Event
    ) -> None:
        self._live = live
        self._authenticator = authenticator
        self._watch = watch
        self._stopping = stopping

    async def get_stream(self, request: web.Request, principal: Principal) -> web.StreamResponse:
        after = request.query.get("after") or request.headers.get("Last-Event-ID")
        conversation = request.query.get("conversation")
        if conversation == "":
            raise ApiError(400, "bad_request", "conversation must have a name; leave it out to follow all of them")
        response = RedactedStream(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        authorization = request.headers.get("Authorization", "")
        with suppress(ConnectionError):  # the client left; that is how these end
            try:
                async with (
                    aclosing(self._live.follow(principal.name, conversation, after)) as events,
                    self._watch.end_with_token(authorization),
                ):
                    await self._pump(response, events, authorization)
            except ApiError as error:
                await response.write(b"event: error\ndata: " + _encode(error_view(error)["error"]) + b"\n\n")
        return response

    async def _pump(self, response: web.StreamResponse, events: AsyncGenerator[LiveEvent], authorization: str) -> None:
        await response.write(b": welcome\n\n")
        stopping = asyncio.ensure_future(self._stopping.wait())
        following = asyncio.ensure_future(anext(events))
        try:
            while not self._stopping.is_set():
                await asyncio.wait({following, stopping}, timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    self._authenticator.check_again(authorization)
                    await response.write(_frame(following.result()))
                    following = asyncio.ensure_future(anext(events))
                elif not self._stopping.is_set():
                    await response.write(b": still here\n\n")
            await response.write(_SHUTDOWN)
        finally:
            stopping.cancel()
            following.cancel()
            await asyncio.gather(stopping, following, return_exceptions=True)


def _frame(event: LiveEvent) -> bytes:
    head = f"id: {event.id}\nevent: {event.type}\ndata: ".encode()
    return head + _encode(event.data) + b"\n\n"
