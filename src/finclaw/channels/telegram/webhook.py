"""The listener of a webhook, behind the operator's own proxy, which has the certificate."""

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from aiohttp import web

from finclaw.channels.telegram.options import WebhookOptions
from finclaw.errors import ChannelError, StoreFailed
from finclaw.http_connections import Connections, cap_for_open_files, listen, serve
from finclaw.redaction import Secret

log = logging.getLogger(__name__)

SECRET_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"
_LARGEST: Final = 1 << 20
"""Bytes of an update; files do not come this way."""

Take = Callable[[dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def listen_for_updates(options: WebhookOptions, secret: Secret, take: Take) -> AsyncGenerator[int]:
    """Serve the updates of one bot; the yielded port is the one that was bound. Raises ChannelError."""
    try:
        sock = listen(options.host, options.port)
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise ChannelError(f"cannot listen for the webhook at {where}: {error}; choose another port") from error
    # A quarter: the files that are left are for the server of the owner and for everything else.
    connections = Connections(asyncio.get_running_loop().time, cap_for_open_files() // 4)
    application = web.Application(middlewares=(connections.count_request,), client_max_size=_LARGEST)
    application.router.add_post("/{path:.*}", _Webhook(secret, take, connections).on_update)
    async with serve(application, connections, sock, shutdown_timeout=1.0):
        yield int(sock.getsockname()[1])


class _Webhook:
    """The handler of updates. It answers 200 when an update is on disk, and not before."""

    def __init__(self, secret: Secret, take: Take, connections: Connections) -> None:
        self._secret = secret
        self._take = take
        self._connections = connections
        self._in_order = asyncio.Lock()
        self._refused = 0

    async def on_update(self, request: web.Request) -> web.Response:
        given = request.headers.get(SECRET_HEADER, "").encode("utf-8", "surrogateescape")
        is_telegram = hmac.compare_digest(given, self._secret.reveal().encode())
        self._connections.trust(request, trusted=is_telegram)
        if not is_telegram:
            self._refused += 1
            level = logging.WARNING if self._refused == 1 else logging.DEBUG  # a stranger must not fill the log
            log.log(level, "a call of the webhook without its secret token was refused (from %s)", request.remote)
            return web.Response(status=403)
        try:
            update = cast("object", json.loads(await request.read()))
        except (ValueError, RecursionError, web.RequestPayloadError):  # the second for JSON that is nested too deep
            return web.Response(status=400)
        if not isinstance(update, dict):
            return web.Response(status=400)
        try:
            async with self._in_order:
                await self._take(cast("dict[str, Any]", update))
        except StoreFailed as error:
            log.warning("an update was not taken, and Telegram will send it again: %s", error)
            return web.Response(status=503)
        return web.Response()
