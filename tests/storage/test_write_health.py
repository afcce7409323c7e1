"""Readiness: while the store cannot write the gateway says so, to whoever asks, and recovers by itself."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.disk import Disk

from finclaw.app import App
from finclaw.channels.mailbox import MailboxChannel
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings, StorageSettings
from finclaw.redaction import Secret
from finclaw.storage.kinds import StoreKind
from finclaw.storage.sqlite.database import DATABASE
from finclaw.testing import ScriptedProvider
from finclaw.web.live import LiveStream
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings

TOKEN = "t" * 43
WRITES = ("write", "sync", "truncate")


@dataclass
class Served:
    app: App
    live: LiveStream
    http: aiohttp.ClientSession
    url: str

    async def readyz(self) -> int:
        async with self.http.get(f"{self.url}/readyz") as response:
            return response.status

    async def status(self) -> dict[str, Any]:
        async with self.http.get(f"{self.url}/api/v1/status") as response:
            return await response.json()

    async def post(self, number: int) -> int:
        body = {"message_id": str(number), "text": "hello"}
        async with self.http.post(f"{self.url}/api/v1/messages", json=body) as response:
            return response.status

    async def until_readyz(self, status: int) -> None:
        """Within seconds, and with nobody but us asking."""
        async with asyncio.timeout(10):
            while await self.readyz() != status:  # noqa: ASYNC110  as a load balancer does
                await asyncio.sleep(0.1)


@asynccontextmanager
async def served(state: Path, kind: StoreKind = "sqlite") -> AsyncGenerator[Served]:
    live = LiveStream()
    settings = Settings(state=state, storage=StorageSettings(kind=kind))
    channels = [MailboxChannel("web")]
    async with (
        build(settings, channels=channels, provider=ScriptedProvider(*["fine"] * 9), observers=[live.observe]) as app,
        serve_web(app, WebServerSettings(port=0), Secret(TOKEN), live=live) as server,
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
    ):
        yield Served(app, live, http, server.url)


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "messages come"])
async def test_not_ready_while_the_disk_is_full(tmp_path: Path, kind: StoreKind, busy: bool) -> None:
    with Disk(f"health-{kind}-{busy}", default=True) as disk:
        async with served(tmp_path, kind) as gateway:
            assert await gateway.readyz() == 200
            events = gateway.live.follow("owner", None, None)
            told = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            disk.fail(error="full", ops=WRITES, forever=True)
            if busy:
                assert await gateway.post(1) == 503
                assert await gateway.readyz() == 503
            await gateway.until_readyz(503)
            status = await gateway.status()
            assert status["ready"] is False
            assert "is full; free some space" in status["problem"]
            event = await told
            assert (event.type, event.data) == ("store", {"writable": False, "why": "full"})
            late = gateway.live.follow("owner", None, "0")
            assert (await anext(late)).data["store"] == {"writable": False, "why": "full"}
            disk.heal()
            await gateway.until_readyz(200)
            assert (await gateway.status())["problem"] == ""
            assert (await anext(events)).data == {"writable": True, "why": ""}
            assert await gateway.post(2) == 202


async def test_not_ready_while_the_database_file_is_gone(tmp_path: Path) -> None:
    """SQLite would go on writing to a file without a name, and everything accepted would be lost at the end."""
    async with served(tmp_path) as gateway:
        assert await gateway.post(1) == 202
        await gateway.app.idle()
        (tmp_path / DATABASE).rename(tmp_path / "elsewhere")
        await gateway.until_readyz(503)
        assert "was removed or replaced" in (await gateway.status())["problem"]
        assert await gateway.post(2) == 503
        (tmp_path / "elsewhere").rename(tmp_path / DATABASE)
        await gateway.until_readyz(200)
        assert await gateway.post(2) == 202


async def test_many_health_checks_are_one_commit(tmp_path: Path) -> None:
    with Disk("health-cheap", default=True) as disk:
        async with served(tmp_path) as gateway:
            await gateway.until_readyz(200)
            before = disk.counts["sync"]
            assert {await gateway.readyz() for _ in range(30)} == {200}
            assert disk.counts["sync"] <= before + 2
