"""The live stream over HTTP: server-sent events and a WebSocket.

`GET /api/v1/stream` sends events, resumed by `after` or the browser's Last-Event-ID. `GET /api/v1/live` is a WebSocket:
the same events, and messages the other way. A program sends its token in the Authorization header. A page cannot, so
there the first frame is `{"type": "hello", "token": …}`. Either may name `after` and `conversation` in that frame.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from finclaw.errors import FinclawError
from finclaw.gateway import Gateway
from finclaw.web.auth import Admission
from finclaw.web.errors import ApiError, error_view, from_finclaw
from finclaw.web.live import LiveEvent, LiveStream
from finclaw.web.principal import MessageBody, Principal, inbound
from finclaw.web.respond import RedactedSocket, RedactedStream
from finclaw.web.view import AcceptedView

KEEP_ALIVE: Final = 15.0
"""Seconds of silence after which a comment shows both sides that the line still stands."""

_encode = msgspec.json.Encoder().encode
RETRY_MS: Final = 2_000
"""After so long a client may look whether the gateway is back."""
_SHUTDOWN: Final = f"retry: {RETRY_MS}\nevent: shutdown\ndata: ".encode() + _encode({"retry_ms": RETRY_MS}) + b"\n\n"
HELLO_WITHIN: Final = 5.0
GOODBYE_WITHIN: Final = 1.0
"""A client that does not answer our goodbye must not hold up the end."""
HEARTBEAT: Final = 30.0


class Hello(msgspec.Struct, frozen=True, tag="hello", forbid_unknown_fields=True):
    token: str | None = None
    after: str | None = None
    conversation: str | None = None


class SocketMessage(msgspec.Struct, frozen=True, tag="message", forbid_unknown_fields=True):
    message: MessageBody


_hello = msgspec.json.Decoder(Hello).decode
_say = msgspec.json.Decoder(SocketMessage).decode


class LiveRoutes:
    def __init__(
        self, gateway: Gateway, live: LiveStream, admission: Admission, stopping: asyncio.Event, max_frame: int
    ) -> None:
        self._gateway = gateway
        self._live = live
        self._admission = admission
        self._stopping = stopping
        self._max_frame = max_frame

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
                    self._admission.end_with_token(authorization),
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
                    self._admission.authenticator.check_again(authorization)
                    event = following.result()
                    head = f"id: {event.id}\nevent: {event.type}\ndata: ".encode()
                    await response.write(head + _encode(event.data) + b"\n\n")
                    following = asyncio.ensure_future(anext(events))
                elif not self._stopping.is_set():
                    await response.write(b": still here\n\n")
            await response.write(_SHUTDOWN)
        finally:
            stopping.cancel()
            following.cancel()
            await asyncio.gather(stopping, following, return_exceptions=True)

    async def get_live(self, request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization")
        if authorization is not None:
            self._admission.admit(request, authorization, "messages")
        socket = RedactedSocket(heartbeat=HEARTBEAT, max_msg_size=self._max_frame, timeout=GOODBYE_WITHIN)
        await socket.prepare(request)
        try:
            await self._first_of(self._converse(request, socket, authorization), self._stopping.wait())
            if self._stopping.is_set():
                await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the gateway is shutting down; connect again")
        except ApiError as error:
            with suppress(ConnectionError):
                await socket.send_str(_encode(_error(error)).decode())
            await socket.close(code=4_000 + error.status, message=str(error).encode())  # from 4000 on they are ours
        except ConnectionError:
            pass  # the client left while we were speaking
        await socket.close()
        return socket

    async def _converse(self, request: web.Request, socket: web.WebSocketResponse, authorization: str | None) -> None:
        hello = await self._greeting(socket)
        authorization = authorization or f"Bearer {hello.token or ''}"
        principal = self._admission.admit(request, authorization, "messages")
        line = _Line(socket, self._admission, authorization)
        async with self._admission.end_with_token(authorization):
            await self._first_of(self._tell(line, principal, hello), self._listen(line, principal))

    async def _greeting(self, socket: web.WebSocketResponse) -> Hello:
        try:
            frame = await socket.receive(timeout=HELLO_WITHIN)
        except TimeoutError:
            raise ApiError(408, "no_hello", 'say {"type": "hello", "token": …} first') from None
        if frame.type is not WSMsgType.TEXT:
            raise ApiError(400, "bad_frame", 'the first frame must be {"type": "hello", "token": …} as text')
        try:
            return _hello(str(frame.data))
        except msgspec.DecodeError as error:
            raise ApiError(400, "bad_frame", f"the first frame does not fit: {error}") from error

    @staticmethod
    async def _first_of(*work: Coroutine[Any, Any, object]) -> None:
        """Run all until one ends; then the others are ended too."""
        tasks = {asyncio.ensure_future(each) for each in work}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, line: "_Line", principal: Principal, hello: Hello) -> None:
        async with aclosing(self._live.follow(principal.name, hello.conversation, hello.after)) as events:
            await line.send({"type": "hello"})
            async for event in events:
                await line.send({"type": event.type, "id": event.id, **event.data})

    async def _listen(self, line: "_Line", principal: Principal) -> None:
        async for frame in line.socket:
            if frame.type is WSMsgType.TEXT:
                line.check_token()
                await line.send(await self._accept(str(frame.data), principal))

    async def _accept(self, text: str, principal: Principal) -> object:
        try:
            body = _say(text).message
        except msgspec.DecodeError as error:
            return _error(ApiError(400, "bad_frame", f"the frame does not fit: {error}"))
        try:
            accepted = await self._gateway.accept(inbound(principal, body))
        except FinclawError as error:
            return _error(from_finclaw(error, accepting=True)) | {"message_id": body.message_id}
        view = AcceptedView(accepted.id, accepted.duplicate)
        return {"type": "taken", "message_id": body.message_id, **msgspec.to_builtins(view)}


class _Line:
    """A socket with the token that opened it, which is checked for every frame in either direction."""

    def __init__(self, socket: web.WebSocketResponse, admission: Admission, authorization: str) -> None:
        self.socket = socket
        self._admission = admission
        self._authorization = authorization

    def check_token(self) -> None:
        self._admission.authenticator.check_again(self._authorization)

    async def send(self, data: object) -> None:
        self.check_token()
        await self.socket.send_str(_encode(data).decode())


def _error(error: ApiError) -> dict[str, object]:
    return {"type": "error", "code": error.code, "message": str(error)}
