"""The listener of a webhook, behind the operator's own proxy, which has the certificate."""

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from types import TracebackType
from typing import Any, Final, Self, cast

from aiohttp import web

from finclaw.channels.telegram.options import WebhookOptions
from finclaw.errors import ChannelError, StoreFailed
from finclaw.http_connections import (
    Connections,
    accept_connections,
    cap_for_open_files,
    count_requests,
    http_log,
    listen,
)
from finclaw.redaction import Secret

log = logging.getLogger(__name__)

SECRET_HEADER: Final = "X-Telegram-Bot-Api-Secret-Token"
_LARGEST: Final = 1 << 20
"""Bytes of an update; files do not come this way."""


class WebhookListener:
    """An HTTP server for the updates of one bot. It answers 200 when the update is on disk, and not before."""

    def __init__(
        self, options: WebhookOptions, secret: Secret, take: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        self._options = options
        self._secret = secret
        self._take = take
        self._in_order = asyncio.Lock()
        self._refused = 0
        self._until_exit = AsyncExitStack()
        self.port = options.port

    async def __aenter__(self) -> Self:
        try:
            sock = listen(self._options.host, self._options.port)
        except OSError as error:
            where = f"{self._options.host}:{self._options.port}"
            raise ChannelError(f"cannot listen for the webhook at {where}: {error}; choose another port") from error
        self.port = int(sock.getsockname()[1])
        async with AsyncExitStack() as opened:
            opened.callback(sock.close)
            # A quarter: the files that are left are for the server of the owner and for everything else.
            self._connections = Connections(asyncio.get_running_loop().time, cap_for_open_files() // 4)
            app = web.Application(middlewares=(count_requests(self._connections),), client_max_size=_LARGEST)
            app.router.add_post("/{path:.*}", self._on_update)
            runner = web.AppRunner(app, access_log=None, logger=http_log(), shutdown_timeout=1.0)
            await runner.setup()
            opened.push_async_callback(runner.cleanup)
            opened.enter_context(closing(await accept_connections(runner, self._connections, sock)))
            closing_slow = asyncio.create_task(self._connections.run(), name="slow calls of the webhook")
            opened.callback(closing_slow.cancel)
            self._until_exit = opened.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._until_exit.aclose()

    async def _on_update(self, request: web.Request) -> web.Response:
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
