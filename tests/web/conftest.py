"""A real server on a free loopback port, in front of a gateway in memory."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import aiohttp
import pytest
from tests.web.gateway import MemoryGateway

from finclaw.redaction import Secret
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings

TOKEN = "t" * 43
AUTH = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Client:
    """HTTP against the running server; sends the token unless told otherwise."""

    session: aiohttp.ClientSession
    url: str
    gateway: MemoryGateway

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, object]]:
        async with self.session.request(
            method, self.url + path, json=json, data=data, headers=AUTH if headers is None else headers
        ) as response:
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert "Access-Control-Allow-Origin" not in response.headers
            assert "Set-Cookie" not in response.headers
            assert response.content_type == "application/json"
            return response.status, await response.json()

    async def post(self, **body: object) -> tuple[int, dict[str, object]]:
        return await self.call("POST", "/api/v1/messages", json=body)

    async def refused(self, method: str, path: str, status: int, **more: object) -> str:
        """The message of the error, after a look at its form."""
        got, body = await self.call(method, path, **more)  # pyright: ignore[reportArgumentType]
        assert got == status, body
        error = body["error"]
        assert isinstance(error, dict)
        assert set(error) == {"code", "message"}  # pyright: ignore[reportUnknownArgumentType]
        return str(error["message"])  # pyright: ignore[reportUnknownArgumentType]


@pytest.fixture
def settings() -> WebServerSettings:
    return WebServerSettings(port=0, max_body=2_048, wait_limit=60.0)


@pytest.fixture
async def client(settings: WebServerSettings) -> AsyncGenerator[Client]:
    gateway = MemoryGateway()
    async with (
        serve_web(gateway, settings, Secret(TOKEN)) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, server.url, gateway)
