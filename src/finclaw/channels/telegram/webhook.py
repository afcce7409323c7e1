"""The listener of a webhook, behind the operator's own proxy, which has the certificate."""

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, cast

from aiohttp import web

from finclaw.channels.telegram.options import WebhookOptions
from finclaw.errors import ChannelError, StoreFailed
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
        self._runner: web.AppRunner | None = None
        self.port = options.port

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post("/{path:.*}", self._on_update)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._options.host, self._options.port).start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._options.host}:{self._options.port}"
            raise ChannelError(f"cannot listen for the webhook at {where}: {error}; choose another port") from error
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _on_update(self, request: web.Request) -> web.Response:
        given = request.headers.get(SECRET_HEADER, "")
        if not hmac.compare_digest(given.encode(), self._secret.reveal().encode()):
            self._refused += 1
            level = logging.WARNING if self._refused == 1 else logging.DEBUG  # a stranger must not fill the log
            log.log(level, "a call of the webhook without its secret token was refused (from %s)", request.remote)
            return web.Response(status=403)
        try:
            update = cast("object", json.loads(await request.read()))
        except ValueError:
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
