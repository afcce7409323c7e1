"""The HTTP server: aiohttp with authentication in front of every route. It sees FinClaw only as a Gateway."""

import asyncio
import re
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import escape
from typing import Final, cast

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler as HttpHandler
from aiohttp.typedefs import Middleware

from finclaw import http_connections
from finclaw.clock import SystemClock
from finclaw.errors import ExtensionError
from finclaw.gateway import Gateway
from finclaw.http_connections import Connections, serve
from finclaw.kernel.port import ExtensionRoute, RouteReply, RouteRequest
from finclaw.redaction import Secret
from finclaw.web.api import HttpApi
from finclaw.web.approvals import ApprovalsApi
from finclaw.web.auth import Admission, Authenticator, StreamRoute, Throttle, check_place
from finclaw.web.errors import ApiError, describe_failure
from finclaw.web.exchange import ApiReply, ApiRequest, Handler, HttpRoute
from finclaw.web.live import LiveStream
from finclaw.web.principal import OWNER, Principal
from finclaw.web.respond import errors_as_json, json_response, prepare_response, redact_body
from finclaw.web.sessions_api import PeopleApi, SessionsApi
from finclaw.web.settings import WebServerSettings
from finclaw.web.streams import LiveRoutes
from finclaw.web.token import prove

LAST_ANSWERS = 5.0
"""Seconds for what is being answered when the server ends."""
LIVE: Final = "/api/v1/live"


def listen(settings: WebServerSettings) -> socket.socket:
    """Take the port. Raises OSError; to be called before anything else is opened, since it may well be taken."""
    return http_connections.listen(settings.address, settings.port)


@dataclass(frozen=True, slots=True)
class WebServer:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


@asynccontextmanager
async def serve_web(
    gateway: Gateway,
    settings: WebServerSettings,
    token: Secret,
    *,
    live: LiveStream | None = None,
    sock: socket.socket | None = None,
) -> AsyncGenerator[WebServer]:
    """Serve until the block ends; then take nothing new, let waiting clients go, and finish what is being answered. A
    `live` stream that has observed the gateway from its start knows the messages it took up, too."""
    sock = sock or listen(settings)
    server = WebServer(*sock.getsockname()[:2])
    routes = WebRoutes(gateway, settings, token, live or LiveStream())
    application = _application(server, routes)
    stop_observing = gateway.observe(routes.live.observe) if live is None else None
    watching = asyncio.create_task(routes.admission.run())
    try:
        async with serve(application, routes.connections, sock, shutdown_timeout=LAST_ANSWERS):
            try:
                yield server
            finally:
                routes.stopping.set()
    finally:
        watching.cancel()
        if stop_observing is not None:
            stop_observing()


class WebRoutes:
    """The routes of the server, and what they share: authentication, the live stream, the sign that the server ends."""

    def __init__(self, gateway: Gateway, settings: WebServerSettings, token: Secret, live: LiveStream) -> None:
        self.gateway = gateway
        self.token = token
        self.settings = settings
        self.stopping = asyncio.Event()
        now = SystemClock().monotonic
        scopes = OWNER.scopes | {"impersonate"} if settings.impersonate else OWNER.scopes
        authenticator = Authenticator(token, msgspec.structs.replace(OWNER, scopes=scopes), Throttle(now))
        self.connections = Connections(now)
        self.admission = Admission(authenticator, self.connections)
        self.live = live
        self.live_routes = LiveRoutes(gateway, live, self.admission, self.stopping, settings.max_body)
        messages = HttpApi(gateway, settings, self.stopping, live)
        self.apis = (messages, SessionsApi(gateway), ApprovalsApi(gateway), PeopleApi(gateway))

    def authenticated_routes(self) -> tuple[HttpRoute | StreamRoute, ...]:
        return (
            *(route for api in self.apis for route in api.routes()),
            *extension_routes(self.gateway),
            StreamRoute("GET", "/api/v1/stream", "messages", self.live_routes.get_stream),
        )


def _application(server: WebServer, routes: WebRoutes) -> web.Application:
    application = web.Application(
        middlewares=(redact_body, routes.connections.count_request, errors_as_json, _only_from_here(server.port)),
        client_max_size=routes.settings.max_body,
    )
    application.on_response_prepare.append(prepare_response)
    for route in routes.authenticated_routes():
        handler = routes.admission.guard(route, routes.settings.max_body)
        application.router.add_route(route.method, route.path, handler)
    # A page cannot put a token into a WebSocket's headers, so this route is authenticated inside its handler.
    application.router.add_get(LIVE, routes.live_routes.get_live)
    for path, handler in _open_paths(server, routes).items():
        application.router.add_get(path, handler)
    return application


def _only_from_here(port: int) -> Middleware:
    @web.middleware
    async def only_from_here(request: web.Request, handler: HttpHandler) -> web.StreamResponse:
        check_place(request.headers.get("Host"), request.headers.get("Origin"), port)
        return await handler(request)

    return only_from_here


def _open_paths(server: WebServer, routes: WebRoutes) -> dict[str, HttpHandler]:
    """What needs no token, because it tells nothing."""
    gateway = routes.gateway
    token = routes.token
    ours = [f"{each.method:4} {each.path}" for each in routes.authenticated_routes() if each.scope != "extensions"]
    paths = [*ours, f"GET  {LIVE} (a WebSocket)", "GET  /healthz", "GET  /readyz"]

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=render_page(server.url, gateway.market, paths), content_type="text/html")

    async def healthz(request: web.Request) -> web.Response:
        challenge = request.query.get("challenge")
        if challenge is None:
            return json_response({"status": "alive"})
        if not (16 <= len(challenge) <= 128 and challenge.isalnum()):
            raise ApiError(400, "bad_request", "challenge must be 16 to 128 letters and digits")
        return json_response({"status": "alive", "proof": prove(token, challenge, server.port)})

    async def readyz(_: web.Request) -> web.Response:
        if not gateway.ready:
            raise ApiError(503, "not_ready", "the gateway is starting or stopping; ask again in a moment")
        if (failure := await gateway.check_writable()) is not None:
            raise ApiError(503, "not_ready", f"nothing can be recorded: {describe_failure(failure)}; ask again later")
        return json_response({"status": "ready"})

    return {"/": page, "/healthz": healthz, "/readyz": readyz}


_CONTENT_TYPE = re.compile(r"[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+")


def extension_routes(gateway: Gateway) -> tuple[HttpRoute, ...]:
    """Return the routes of extensions: they have the same authentication and the same errors."""
    return tuple(
        HttpRoute(route.method, f"/api/v1/extensions/{route.extension}/{route.path}", "extensions", _handler(route))
        for route in gateway.routes
    )


def _handler(route: ExtensionRoute) -> Handler:
    async def handle(request: ApiRequest, principal: Principal) -> ApiReply:
        seen = RouteRequest(principal=principal.name, query=dict(request.query), body=request.body)
        reply = cast("object", await route.handle(seen))
        where = f"{route.method} {route.path} of extension {route.extension!r}"
        if not isinstance(reply, RouteReply):
            raise ExtensionError(f"{where} answered {type(reply).__name__}, not a RouteReply")
        if not (200 <= reply.status <= 599 and _CONTENT_TYPE.fullmatch(reply.content_type)):
            raise ExtensionError(f"{where} answered with status {reply.status} and type {reply.content_type!r}")
        return ApiReply(body=reply.body, status=reply.status, content_type=reply.content_type)

    return handle


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>FinClaw</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.6 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }}
pre {{ padding: 1rem; overflow-x: auto; border: 1px solid #8886; border-radius: .5rem; }}
</style>
</head>
<body>
<h1>FinClaw is running</h1>
<p lang="ko">FinClaw가 실행 중입니다. 아래 명령으로 질문해 보세요.</p>
<p>Market: <strong>{market}</strong></p>
<p>Ask from a terminal:</p>
<pre>finclaw ask "What is AAPL trading at?"
finclaw ask "삼성전자 현재 주가 알려줘"</pre>
<p>Or over HTTP. The token is in the file <code>token</code> of the state directory
(<code>~/.finclaw</code> unless you chose another); <code>finclaw status</code> says where that is.</p>
<pre>curl {url}/api/v1/messages \\
  -H "Authorization: Bearer $(cat ~/.finclaw/token)" \\
  -H "Content-Type: application/json" \\
  -d '{{"message_id": "'$(date +%s%N)'", "text": "What is AAPL trading at?"}}'

curl "{url}/api/v1/messages/INBOUND_ID?wait=20" \\
  -H "Authorization: Bearer $(cat ~/.finclaw/token)"</pre>
<p>A <code>message_id</code> is yours and names one message for ever: sent again with the same text it is the same
message, with another text it is refused.</p>
<p>All there is:</p>
<pre>{paths}</pre>
</body>
</html>
"""


def render_page(url: str, market: str, paths: Sequence[str]) -> str:
    """`paths` are the API's, each with its method."""
    described = "demo: prices are made up and follow no real market" if market == "demo" else market
    return _PAGE.format(url=escape(url), market=escape(described), paths=escape("\n".join(paths)))
