"""The attacks on our peers' doors, done to ours as they were done to theirs. advisories.py says which is which."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from tests.attack.web_client import door
from tests.cli.in_process import typed
from tests.web.conftest import AUTH, TOKEN, Client

from finclaw.testing import FakeClock
from finclaw.web.settings import WebServerSettings
from finclaw.web.token import TokenOnDisk

pytestmark = pytest.mark.spec("DX-22")

FOREIGN: Final = (
    "http://evil.example",
    "https://evil.example",
    "null",
    "file://",
    "http://localhost",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1:PORT.evil.example",
    "http://evil.example:PORT",
    "http://localhost.evil.example:PORT",
    "http://127.0.0.1:PORT@evil.example",
    "chrome-extension://abcdefghijklmnop",
)


async def test_no_address_in_a_request_gets_the_token() -> None:
    async with door() as client:
        async with client.session.get(client.url + "/") as plain:
            usual = await plain.text()
        for name in ("gatewayUrl", "gateway", "url", "ws", "token"):
            async with client.session.get(f"{client.url}/?{name}=wss://evil.example/") as response:
                assert await response.text() == usual
                assert TOKEN not in usual
                assert "default-src 'none'" in response.headers["Content-Security-Policy"]


async def test_no_foreign_page_opens_a_socket() -> None:
    async with door() as client:
        port = client.url.rpartition(":")[2]
        for origin in FOREIGN:
            headers = {"Origin": origin.replace("PORT", port)}
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await client.session.ws_connect(client.url + "/api/v1/live", headers=headers)


async def test_a_neighbour_without_the_token_changes_nothing() -> None:
    """Theirs took a whole configuration, with the path of a program in it, from anybody on the machine."""
    settings = {"cliPath": "/tmp/evil", "type": "config.apply", "method": "config.apply"}
    async with door() as client:
        for path in ("config", "config/apply", "settings", "extensions", "reload", "restart", "exec"):
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                status, _ = await client.call(method, f"/api/v1/{path}", json=settings, headers={})
                assert status in (401, 404, 405)
                status, _ = await client.call(method, f"/api/v1/{path}", json=settings)
                assert status in (404, 405), "nor does the token's holder: settings are a file"
        async with client.session.ws_connect(client.url + "/api/v1/live") as socket:
            await socket.send_json(settings)
            assert (await socket.receive_json(timeout=60))["type"] == "error"
            assert (await socket.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE
        assert client.gateway.taken == []


@pytest.mark.parametrize(
    "token", ["", " ", "null", "undefined", "true", "Bearer", TOKEN[:-1], TOKEN + "t", "*", "\x00"]
)
async def test_a_token_is_no_token_because_it_is_there(token: str) -> None:
    say = {"type": "message", "message": {"message_id": "1", "text": "hello"}}
    async with door() as client:
        for headers in ({"Cookie": f"token={TOKEN}"}, {"X-Token": TOKEN}, {"Proxy-Authorization": f"Bearer {TOKEN}"}):
            status, _ = await client.call("GET", f"/api/v1/status?token={TOKEN}", headers=headers)
            assert status == 401
        async with client.session.ws_connect(f"{client.url}/api/v1/live?token={TOKEN}") as socket:
            await socket.send_json({"type": "hello", "token": token})
            await socket.send_json(say)
            assert (await socket.receive_json(timeout=60))["code"] == "wrong_token"
            assert (await socket.receive(timeout=60)).type is aiohttp.WSMsgType.CLOSE
        assert client.gateway.taken == []


async def test_nobody_declares_their_own_rights() -> None:
    message = {"message_id": "1", "text": "hello"}
    claims: tuple[dict[str, Any], ...] = (
        {"scopes": ["admin"]},
        {"roles": ["owner"]},
        {"channel": "system"},
        {"account": "owner"},
        {"said_by": "gateway"},
        {"is_self": True},
        {"sender": {"id": "owner", "roles": ["owner"]}},
    )
    async with door() as client:
        for claim in claims:
            status, _ = await client.post(**message, **claim)
            assert status == 400, claim
        async with client.session.ws_connect(client.url + "/api/v1/live") as socket:
            await socket.send_json({"type": "hello", "token": TOKEN, "scopes": ["impersonate"]})
            assert (await socket.receive_json(timeout=60))["code"] == "bad_frame"
        claimed = {**AUTH, "X-Scopes": "admin,impersonate", "X-Roles": "owner", "X-Forwarded-User": "root"}
        status, _ = await client.call("POST", "/api/v1/messages", json={**message, "sender": "owner"}, headers=claimed)
        assert status == 202
        (taken,) = client.gateway.taken
        assert (taken.channel, taken.account, taken.sender.id, taken.sender.roles) == (
            "web",
            "owner",
            "owner/owner",
            (),
        )


async def test_nothing_mints_a_token() -> None:
    async with door() as client:
        for path in ("token", "tokens", "pair", "pairing", "login", "session-token", "auth/token"):
            for method in ("GET", "POST"):
                for headers in ({}, AUTH):
                    status, body = await client.call(method, f"/api/v1/{path}", headers=headers)
                    assert status in (404, 405), (path, body)
        async with client.session.get(f"{client.url}/healthz?challenge={'0' * 16}") as response:
            proof = (await response.json())["proof"]
        status, _ = await client.call("GET", "/api/v1/status", headers={"Authorization": f"Bearer {proof}"})
        assert status == 401


async def test_no_field_and_no_header_switches_the_limiter_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong tokens are slowed down, whatever they claim; the right one is served all the same (security trial H12a)."""
    monkeypatch.setattr("finclaw.web.server.SystemClock", FakeClock)  # or it empties as fast as we are slow
    odd = ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Webhook", "X-Hub-Signature", "User-Agent", "X-Test")
    async with door() as client:
        codes = list[int]()
        for number in range(60):
            headers = {"Authorization": f"Bearer {number}", odd[number % len(odd)]: f"10.0.0.{number}"}
            path = f"/api/v1/status?skip={number}&debug=1&bypass=true"
            status, _ = await client.call("GET", path, headers=headers)
            codes.append(status)
        assert codes[0] == 401
        assert codes.count(429) >= 35
        assert (await client.call("GET", "/api/v1/status"))[0] == 200


async def test_no_body_is_read_before_the_token_was_seen() -> None:
    async with door() as client:
        host, port = client.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = (
            f"POST /api/v1/messages HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            "Authorization: Bearer no\r\nContent-Length: 9000\r\n\r\n"
        )
        writer.write(head.encode())  # and not a byte of what it announces
        line = await asyncio.wait_for(reader.readline(), 60)
        assert b" 401 " in line
        writer.write(b"x" * 9_000)  # too late for anything but an orderly end
        await writer.drain()
        writer.close()


async def test_a_token_that_was_replaced_is_worth_nothing_at_once(tmp_path: Path) -> None:
    file, new = tmp_path / "token", "n" * 43

    def rotate(token: str, mode: int = 0o600) -> None:
        (tmp_path / "next").write_text(token)
        (tmp_path / "next").chmod(mode)
        os.replace(tmp_path / "next", file)

    async def let_in(client: Client, token: str) -> bool:
        status, _ = await client.call("GET", "/api/v1/status", headers={"Authorization": f"Bearer {token}"})
        return status == 200

    rotate(TOKEN)
    async with door(TokenOnDisk(tmp_path)) as client:
        assert await let_in(client, TOKEN)
        rotate(new)
        assert not await let_in(client, TOKEN)
        assert await let_in(client, new)
        rotate(new, 0o644)
        assert not await let_in(client, new), "others can read it: nobody is let in"
        file.unlink()
        assert not await let_in(client, new)
        assert not await let_in(client, "")
        rotate(new)
        assert await let_in(client, new)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_what_a_browser_sends_without_asking_is_refused(kind: str) -> None:
    """A form or a plain text needs no question beforehand; with or without the page's origin nothing is taken."""
    body = json.dumps({"message_id": "1", "text": "buy"}).encode()
    async with door() as client:
        for headers, status in (({"Origin": "http://evil.example"}, 403), ({}, 401), (AUTH, 415)):
            sent = {"Content-Type": kind, **headers} if kind else dict(headers)
            assert (await client.call("POST", "/api/v1/messages", data=body, headers=sent))[0] == status
        assert client.gateway.taken == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.0.7", "10.0.0.1", "example.com", "0", "[::]", "*"])
def test_it_listens_to_this_machine_only(tmp_path: Path, host: str) -> None:
    assert WebServerSettings().host == "127.0.0.1"
    (tmp_path / "finclaw.yaml").write_text(json.dumps({"web": {"host": host}}))
    for command in (("config", "check"), ("serve", "--port", "0")):
        ended = typed(*command, "--state", tmp_path)
        assert ended.code != 0
        assert "web.host" in ended.out + ended.err
    assert not (tmp_path / "gateway.json").exists()
