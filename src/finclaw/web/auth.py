"""Authentication of requests: is it from this machine, and who sends it? Everything is decided from the headers alone.

Order matters and is fixed: the place (Host and Origin), the token, the limiter for wrong ones, the scope. The token is
compared first, in constant time, so that nobody can lock out the right one by sending wrong ones.
"""

import asyncio
import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from finclaw.http_connections import Connections
from finclaw.redaction import Secret
from finclaw.web.errors import ApiError, too_large
from finclaw.web.exchange import ApiRequest, HttpRoute
from finclaw.web.principal import Principal, Scope

_HOW = "send the header `Authorization: Bearer TOKEN` with the token from the file `token` in the state directory"
_BEARER = {"WWW-Authenticate": "Bearer"}
_LATER = {"Retry-After": "2"}


def check_place(host: str | None, origin: str | None, port: int) -> None:
    """A page elsewhere can make a browser call us; it cannot make it lie about where the page came from."""
    names = ("127.0.0.1", "localhost", "[::1]")
    allowed = {f"{name}:{port}" for name in names}
    if port == 80:
        allowed.update(names)
    if host is None or host.lower() not in allowed:
        raise ApiError(403, "wrong_host", f"this gateway answers only as 127.0.0.1:{port} or localhost:{port}")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        raise ApiError(403, "wrong_origin", "requests from other sites are refused; call the API from a program")


class Throttle:
    """A rate limiter for wrong tokens (leaky bucket): while it is full, a wrong one is told to slow down."""

    def __init__(self, now: Callable[[], float], *, burst: int = 20, per_second: float = 1.0) -> None:
        self._now = now
        self._burst = burst
        self._per_second = per_second
        self._level = 0.0
        self._at = now()

    def note_failure(self) -> None:
        """Count a wrong token. Raises ApiError while the bucket is full."""
        now = self._now()
        self._level = max(0.0, self._level - (now - self._at) * self._per_second)
        self._at = now
        if self._level > self._burst - 1:
            raise ApiError(429, "slow_down", "too many wrong tokens; wait a few seconds and send the right one", _LATER)
        self._level += 1


class Authenticator:
    def __init__(self, token: Secret, principal: Principal, throttle: Throttle) -> None:
        self._token = token
        self._principal = principal
        self._throttle = throttle

    def admit(self, authorization: str | None, scope: Scope) -> Principal:
        if authorization is None:
            raise ApiError(401, "no_token", f"this needs the token; {_HOW}", _BEARER)
        if not self.is_valid(authorization):
            self._throttle.note_failure()
            raise ApiError(401, "wrong_token", f"this is not the token; {_HOW}", _BEARER)
        if scope not in self._principal.scopes:
            raise ApiError(403, "no_scope", f"this token may not do this; it lacks the scope {scope}")
        return self._principal

    def check_again(self, authorization: str) -> None:
        """For what was admitted a while ago. Raises ApiError if the token was replaced since."""
        if not self.is_valid(authorization):
            raise token_replaced()

    def is_valid(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        expected = self._token.reveal().encode()
        # A header may hold any bytes; compare_digest takes text only if it is ASCII.
        same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), expected)
        return same and scheme.lower() == "bearer"


def token_replaced() -> ApiError:
    return ApiError(401, "token_replaced", "the token was replaced meanwhile; connect again with the new one", _BEARER)


CHECK_EVERY: Final = 1.0
"""Seconds between two looks at the token file."""


class StreamRoute(NamedTuple):
    """A route that writes its response itself, and ends it when the token is replaced."""

    method: str
    path: str
    scope: Scope
    handler: Callable[[web.Request, Principal], Awaitable[web.StreamResponse]]


class Admission:
    """The admission of requests: authentication, limits for connections, and the check of the token again.

    A request is checked when it begins. One that waits (a long poll, an event stream, a WebSocket, a slow upload) may
    outlive its token, so the token file is read once a second and whatever the old token opened is ended then.
    """

    def __init__(self, authenticator: Authenticator, connections: Connections) -> None:
        self.authenticator = authenticator
        self.connections = connections
        self._open: dict[asyncio.Timeout, str] = {}

    def admit(self, request: web.Request, authorization: str | None, scope: Scope) -> Principal:
        """Raises ApiError. The connection of a client with the right token counts for no limit from then on."""
        try:
            principal = self.authenticator.admit(authorization, scope)
        except ApiError:
            self.connections.trust(request, trusted=False)
            raise
        self.connections.trust(request, trusted=True)
        return principal

    def guard(self, route: HttpRoute | StreamRoute, max_body: int) -> Handler:
        async def handle_authenticated(request: web.Request) -> web.StreamResponse:
            authorization = request.headers.get("Authorization") or ""
            principal = self.admit(request, request.headers.get("Authorization"), route.scope)
            if isinstance(route, StreamRoute):
                return await route.handler(request, principal)
            async with self.end_with_token(authorization):
                body = await self._read_body(request, authorization, route.max_body or max_body)
                asked = ApiRequest(
                    path_values=request.match_info, query=request.query, content_type=request.content_type, body=body
                )
                reply = await route.handler(asked, principal)
            if request.method == "GET":  # what is read after a change of the token is not for the old one
                self.authenticator.check_again(authorization)
            return web.Response(body=reply.body, status=reply.status, content_type=reply.content_type)

        return handle_authenticated

    async def _read_body(self, request: web.Request, authorization: str, max_body: int) -> bytes:
        """Before the handler begins, so that a body that comes after a change of the token has no effect."""
        if not request.can_read_body:
            return b""
        if (request.content_length or 0) > max_body:
            raise too_large(max_body)
        content = bytearray()
        async for chunk in request.content.iter_any():
            content += chunk
            if len(content) > max_body:
                raise too_large(max_body)
        self.authenticator.check_again(authorization)
        return bytes(content)

    @asynccontextmanager
    async def end_with_token(self, authorization: str) -> AsyncGenerator[None]:
        """Run the block until it ends or its token is replaced. Raises ApiError in the latter case. Such blocks must
        not be nested: a task that two of them cancel at once looks like one that was cancelled from outside."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._open[limit] = authorization
                try:
                    yield
                finally:
                    self._open.pop(limit, None)
        except TimeoutError:
            if limit.expired():
                raise token_replaced() from None
            raise

    async def run(self) -> None:
        """End what a replaced token has opened, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            is_valid = {each: self.authenticator.is_valid(each) for each in set(self._open.values())}
            for limit, authorization in list(self._open.items()):
                if not is_valid[authorization]:
                    del self._open[limit]
                    limit.reschedule(asyncio.get_running_loop().time())
