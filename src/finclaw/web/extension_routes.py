"""What extensions serve, under `/api/v1/extensions/NAME/`: behind the same doorkeeper, with the same errors."""

import re
from typing import cast

from aiohttp import web

from finclaw.errors import ExtensionError
from finclaw.kernel.port import ExtensionRoute, Gateway, RouteReply, RouteRequest
from finclaw.web.api import Handler, Route
from finclaw.web.principal import Principal

_CONTENT_TYPE = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+")


def extension_routes(gateway: Gateway) -> tuple[Route, ...]:
    return tuple(
        Route(route.method, f"/api/v1/extensions/{route.extension}/{route.path}", "extensions", _handler(route))
        for route in gateway.routes
    )


def _handler(route: ExtensionRoute) -> Handler:
    async def handle(request: web.Request, principal: Principal) -> web.Response:
        seen = RouteRequest(principal=principal.name, query=dict(request.query), body=await request.read())
        reply = cast("object", await route.handle(seen))
        where = f"{route.method} {route.path} of extension {route.extension!r}"
        if not isinstance(reply, RouteReply):
            raise ExtensionError(f"{where} answered {type(reply).__name__}, not a RouteReply")
        if not (200 <= reply.status <= 599 and _CONTENT_TYPE.fullmatch(reply.content_type)):
            raise ExtensionError(f"{where} answered with status {reply.status} and type {reply.content_type!r}")
        return web.Response(body=reply.body, status=reply.status, content_type=reply.content_type)

    return handle
