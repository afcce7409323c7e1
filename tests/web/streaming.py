"""A gateway whose answer is still being written, and a reader of its events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from tests.web.conftest import AUTH, TOKEN

import finclaw
from finclaw import Settings
from finclaw.channels.mailbox import MailboxChannel
from finclaw.redaction import Secret
from finclaw.testing import ScriptedProvider
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings


@dataclass
class Live:
    session: aiohttp.ClientSession
    url: str

    async def post(self, message_id: str, text: str = "AAPL?", conversation: str = "main") -> str:
        body = {"message_id": message_id, "text": text, "conversation": conversation}
        async with self.session.post(self.url + "/api/v1/messages", json=body, headers=AUTH) as response:
            assert response.status == 202
            return (await response.json())["inbound_id"]

    async def get(self, inbound_id: str, wait: float = 0) -> dict[str, Any]:
        url = f"{self.url}/api/v1/messages/{inbound_id}?wait={wait}"
        async with self.session.get(url, headers=AUTH) as response:
            return await response.json()

    @asynccontextmanager
    async def stream(self, **query: str) -> AsyncGenerator[aiohttp.ClientResponse]:
        async with self.session.get(self.url + "/api/v1/stream", params=query, headers=AUTH) as response:
            assert response.status == 200
            assert response.content_type == "text/event-stream"
            assert await response.content.readuntil(b"\n\n") == b": welcome\n\n"
            yield response

    @asynccontextmanager
    async def socket(self, hello: dict[str, Any], **headers: str) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
        async with self.session.ws_connect(self.url + "/api/v1/live", headers=headers) as socket:
            await socket.send_json({"type": "hello", **hello})
            yield socket


@asynccontextmanager
async def gateway(state: Path, provider: ScriptedProvider) -> AsyncGenerator[Live]:
    settings = Settings(state=state, web=WebServerSettings(port=0))
    async with (
        finclaw.build(settings, channels=(MailboxChannel("web"),), provider=provider) as app,
        serve_web(app, settings.web, Secret(TOKEN)) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Live(session, server.url)


async def until_streaming(provider: ScriptedProvider) -> None:
    async with asyncio.timeout(60):
        while not provider.streaming:  # noqa: ASYNC110  the fake tells its state and nothing else
            await asyncio.sleep(0)


async def events(response: aiohttp.ClientResponse, until: str = "outcome") -> list[tuple[str, str, dict[str, Any]]]:
    seen: list[tuple[str, str, dict[str, Any]]] = []
    async with asyncio.timeout(60):
        while not seen or seen[-1][1] != until:
            frame = (await response.content.readuntil(b"\n\n")).decode()
            if frame.startswith(":"):
                continue
            head, kind, data = frame.strip().split("\n", 2)
            seen.append((head.removeprefix("id: "), kind.removeprefix("event: "), msgspec.json.decode(data[6:])))
    return seen
