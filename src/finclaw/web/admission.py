"""Admission of requests: what is checked before a handler runs, while it waits, and after it has read its body."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from finclaw.http_connections import Connections
from finclaw.web.api import HttpRoute
from finclaw.web.auth import Authenticator
from finclaw.web.errors import ApiError, too_large
from finclaw.web.principal import Principal, Scope
from finclaw.web.token_watch import TokenWatch

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]

CHECK_AGAIN: Final[web.RequestKey[Callable[[], None]]] = web.RequestKey("check_again")


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

    def guard(self, route: HttpRoute, max_body: int) -> Next:
        async def handle_authenticated(request: web.Request) -> web.StreamResponse:
            authorization = request.headers.get("Authorization") or ""
            principal = self.admit(request, request.headers.get("Authorization"), route.scope)
            if route.kind == "stream":
                return await route.handler(request, principal)
            async with self.watch.end_with_token(authorization):
                await self._read_body(request, route, authorization, max_body)
                response = await route.handler(request, principal)
            if request.method == "GET":  # what is read after a change of the token is not for the old one
                self.authenticator.check_again(authorization)
            return response

        return handle_authenticated

    async def _read_body(self, request: web.Request, route: HttpRoute, authorization: str, max_body: int) -> None:
        """Before the handler begins, so that a body that comes after a change of the token has no effect."""
        request[CHECK_AGAIN] = lambda: self.authenticator.check_again(authorization)
        if route.kind == "upload" or not request.can_read_body:
            return
        if (request.content_length or 0) > max_body:
            raise too_large(max_body)
        await request.read()  # kept by the request, for the handler
        self.authenticator.check_again(authorization)


def check_again(request: web.Request) -> None:
    """For a handler that reads its own body. Raises ApiError if the token was replaced meanwhile."""
    request[CHECK_AGAIN]()
