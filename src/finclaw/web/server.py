"""The HTTP server: aiohttp with the doorkeeper in front of every route. It sees the house only as a Gateway."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from finclaw.kernel.clock import SystemClock
from finclaw.kernel.port import Gateway
from finclaw.kernel.secret import Secret
from finclaw.web.api import Api, Route
from finclaw.web.approvals_api import ApprovalsApi
from finclaw.web.auth import Doorkeeper, Throttle, check_place
from finclaw.web.errors import ApiError, errors_as_json
from finclaw.web.extension_routes import extension_routes
from finclaw.web.live import LiveStream
from finclaw.web.page import render_page
from finclaw.web.principal import OWNER, Principal
from finclaw.web.respond import add_headers, json_response
from finclaw.web.sessions_api import SessionsApi
from finclaw.web.settings import WebSettings
from finclaw.web.socket import LiveSockets
from finclaw.web.sse import EventStreams
from finclaw.web.token import prove

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]

LAST_ANSWERS = 5.0
"""Seconds for what is being answered when the server ends."""


def listen(settings: WebSettings) -> socket.socket:
    """Take the port. Raises OSError; to be called before anything else is opened, since it may well be taken."""
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings.address, settings.port))
        sock.listen(128)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


@dataclass(frozen=True, slots=True)
class WebServer:
    """A running server."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


@asynccontextmanager
async def serve_web(
    gateway: Gateway,
    settings: WebSettings,
    token: Secret,
    *,
    live: LiveStream | None = None,
    sock: socket.socket | None = None,
) -> AsyncGenerator[WebServer]:
    """Serve until the block ends; then take nothing new, let waiting clients go, and finish what is being answered.

    A `live` stream that has observed the gateway from its start knows the messages it took up, too.
    """
    sock = sock or listen(settings)
    server = WebServer(*sock.getsockname()[:2])
    doors = Doors(gateway, settings, token, live or LiveStream())
    runner = web.AppRunner(_application(server, doors), access_log=None, shutdown_timeout=LAST_ANSWERS)
    stop_observing = gateway.observe(doors.live.observe) if live is None else _nothing
    try:
        await runner.setup()
        await web.SockSite(runner, sock).start()
        yield server
    finally:
        doors.stopping.set()
        await runner.cleanup()
        stop_observing()
        sock.close()


def _nothing() -> None:
    """Whoever brought the stream ends its observing."""


class Doors:
    """What the routes share: who guards them, what is streamed, and the sign that the server ends."""

    def __init__(self, gateway: Gateway, settings: WebSettings, token: Secret, live: LiveStream) -> None:
        self.gateway = gateway
        self.token = token
        self.settings = settings
        self.stopping = asyncio.Event()
        self.keeper = Doorkeeper(token, _owner(settings), Throttle(SystemClock().monotonic))
        self.live = live
        self.api = Api(gateway, settings, self.stopping, live)
        self.sessions = SessionsApi(gateway)
        self.approvals = ApprovalsApi(gateway)
        self.streams = EventStreams(self.live, self.stopping)
        self.sockets = LiveSockets(gateway, self.live, self.keeper, self.stopping, settings.max_body)

    def guarded(self) -> tuple[Route, ...]:
        return (
            *self.api.routes(),
            *self.sessions.routes(),
            *self.approvals.routes(),
            *extension_routes(self.gateway),
            Route("GET", "/api/v1/stream", "messages", self.streams.get_stream),
        )


def _application(server: WebServer, doors: Doors) -> web.Application:
    application = web.Application(
        middlewares=(errors_as_json, _only_from_here(server.port)), client_max_size=doors.settings.max_body
    )
    application.on_response_prepare.append(add_headers)
    for route in doors.guarded():
        application.router.add_route(route.method, route.path, _guarded(doors.keeper, route))
    # A page cannot put a token into a WebSocket's headers, so this door is guarded from inside.
    application.router.add_get("/api/v1/live", doors.sockets.get_live)
    for path, handler in _open_paths(server, doors.gateway, doors.token).items():
        application.router.add_get(path, handler)
    return application


def _owner(settings: WebSettings) -> Principal:
    if not settings.impersonate:
        return OWNER
    return msgspec.structs.replace(OWNER, scopes=OWNER.scopes | {"impersonate"})


def _only_from_here(port: int) -> Middleware:
    @web.middleware
    async def only_from_here(request: web.Request, handler: Next) -> web.StreamResponse:
        check_place(request.headers.get("Host"), request.headers.get("Origin"), port)
        return await handler(request)

    return only_from_here


def _guarded(keeper: Doorkeeper, route: Route) -> Next:
    async def guarded(request: web.Request) -> web.StreamResponse:
        principal = keeper.admit(request.headers.get("Authorization"), route.scope)
        return await route.handler(request, principal)

    return guarded


def _open_paths(server: WebServer, gateway: Gateway, token: Secret) -> dict[str, Next]:
    """What needs no token, because it tells nothing."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=render_page(server.url, gateway.market), content_type="text/html")

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
        return json_response({"status": "ready"})

    return {"/": page, "/healthz": healthz, "/readyz": readyz}
