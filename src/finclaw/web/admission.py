"""Admission of requests: what is checked before a handler runs, while it waits, and after it has read its body."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from finclaw.http_connections import Connections
from finclaw.web.auth import Authenticator
from finclaw.web.errors import ApiError, too_large
from finclaw.web.exchange import ApiRequest, HttpRoute
from finclaw.web.principal import Principal, Scope
from finclaw.web.token_watch import TokenWatch

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StreamRoute(NamedTuple):
    """A route that writes its response itself, and ends it when the token is replaced."""

    method: str
    path: str
    scope: Scope
    handler: Callable[[web.Request, Principal], Awaitable[web.StreamResponse]]


class Admission:
    """The admission of requests: authentication, limits for connections, and the check of the token again."""

    def __init__(self, authenticator: Authenticator, connections: Connections, watch: TokenWatch) -> None:
        self.authenticator = authenticator
        self.connections = connections
        self.watch = watch

    def admit(self, request: web.Request, authorization: str | None, scope: Scope) -> Principal:
        """Raises ApiError. The connection of a client with the right token counts for no limit from then on."""
        try:
            principal = self.authenticator.admit(authorization, scope)
        except ApiError:
            self.connections.trust(request, trusted=False)
            raise
        self.connections.trust(request, trusted=True)
        return principal

    def guard(self, route: HttpRoute | StreamRoute, max_body: int) -> Next:
        async def handle_authenticated(request: web.Request) -> web.StreamResponse:
            authorization = request.headers.get("Authorization") or ""
            principal = self.admit(request, request.headers.get("Authorization"), route.scope)
            if isinstance(route, StreamRoute):
                return await route.handler(request, principal)
            async with self.watch.end_with_token(authorization):
                body = await self._read_body(request, authorization, route.max_body or max_body)
                asked = ApiRequest(
                    path_values=request.match_info,
                    query=request.query,
                    content_type=request.content_type,
                    body=body,
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
