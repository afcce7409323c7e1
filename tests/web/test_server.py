"""The server itself: its open paths, its page, its end."""

import asyncio

import aiohttp
import pytest
from tests.web.conftest import TOKEN, Client
from tests.web.gateway import MemoryGateway

from finclaw.redaction import Secret
from finclaw.web.server import listen, serve_web
from finclaw.web.settings import WebServerSettings
from finclaw.web.token import prove


async def test_alive_and_ready_need_no_token(client: Client) -> None:
    assert await client.call("GET", "/healthz", headers={}) == (200, {"status": "alive"})
    assert await client.call("GET", "/readyz", headers={}) == (200, {"status": "ready"})
    client.gateway.ready = False
    assert await client.call("GET", "/healthz", headers={}) == (200, {"status": "alive"})
    await client.refused("GET", "/readyz", 503, headers={})


async def test_it_can_prove_that_it_knows_the_token(client: Client) -> None:
    port = int(client.url.rpartition(":")[2])
    _, body = await client.call("GET", f"/healthz?challenge={'ab' * 16}", headers={})
    assert body["proof"] == prove(Secret(TOKEN), "ab" * 16, port)
    assert body["proof"] != prove(Secret(TOKEN), "ab" * 16, port + 1)
    await client.refused("GET", "/healthz?challenge=short", 400, headers={})


async def test_the_page_says_how_to_ask_and_loads_nothing(client: Client) -> None:
    async with client.session.get(client.url + "/") as response:
        text = await response.text()
        assert response.status == 200
        assert response.content_type == "text/html"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "FinClaw is running" in text
    assert "실행 중" in text
    assert client.url in text
    for path in ("POST /api/v1/messages", "GET  /api/v1/stream", "GET  /api/v1/live", "POST /api/v1/prune"):
        assert path in text
    assert "Content-Type: application/json" in text
    assert "made up" in text
    assert TOKEN not in text
    assert not any(word in text for word in ("<script", "src=", "href=", "@import"))


async def test_the_end_does_not_wait_for_those_who_wait(
    settings: WebServerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finclaw.web.server.LAST_ANSWERS", 90.0)
    gateway = MemoryGateway()
    async with aiohttp.ClientSession() as session:
        async with serve_web(gateway, settings, Secret(TOKEN)) as server:
            client = Client(session, server.url, gateway)
            _, taken = await client.post(message_id="1", text="hi")
            waiting = asyncio.create_task(client.call("GET", f"/api/v1/messages/{taken['inbound_id']}?wait=60"))
            await gateway.awaited.wait()
            ending = asyncio.get_running_loop().time()
        status, message = await waiting
    assert asyncio.get_running_loop().time() - ending < 30
    assert (status, message["state"]) == (200, "received")


async def test_it_takes_a_socket_that_is_already_bound(settings: WebServerSettings) -> None:
    sock = listen(settings)
    port = sock.getsockname()[1]
    async with serve_web(MemoryGateway(), settings, Secret(TOKEN), sock=sock) as server:
        assert server.url == f"http://127.0.0.1:{port}"


async def test_it_listens_on_ipv6_where_there_is_one() -> None:
    try:
        sock = listen(WebServerSettings(host="::1", port=0))
    except OSError:
        return
    async with (
        serve_web(MemoryGateway(), WebServerSettings(host="::1"), Secret(TOKEN), sock=sock) as server,
        aiohttp.ClientSession() as session,
        session.get(server.url + "/healthz") as response,
    ):
        assert server.url.startswith("http://[::1]:")
        assert response.status == 200
