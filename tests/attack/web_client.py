"""A client of a web server with a token, for attacks on it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
from tests.web.conftest import TOKEN, Client
from tests.web.gateway import MemoryGateway

from finclaw.redaction import Secret
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings


@asynccontextmanager
async def door(token: Secret | None = None) -> AsyncGenerator[Client]:
    gateway = MemoryGateway()
    async with (
        serve_web(gateway, WebServerSettings(port=0), token or Secret(TOKEN)) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, server.url, gateway)
