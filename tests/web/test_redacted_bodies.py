"""Known secrets are hidden in every body that the server sends, whichever route made it."""

import base64
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime
from io import BytesIO
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web
from tests.web.conftest import AUTH, TOKEN, Client
from tests.web.gateway import MemoryGateway, answer
from tests.web.live_stream import accepted

from finclaw.kernel.event import MessageEnded
from finclaw.kernel.message import Message, Source, Text, ToolCall, ToolResult
from finclaw.kernel.port import ExtensionRoute, RouteReply, RouteRequest
from finclaw.redaction import Secret
from finclaw.web.auth import StreamRoute
from finclaw.web.exchange import HttpRoute
from finclaw.web.live import LiveStream
from finclaw.web.principal import Principal
from finclaw.web.server import WebRoutes, serve_web
from finclaw.web.settings import WebServerSettings

KEY = "tulip-0f8d5b2c7e9a4136-harbor"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BASIC = base64.b64encode(f"user:{KEY}".encode()).decode()
CONVERSATION = (
    Message("q", "user", (Text(f"use {KEY}"),), Source("user", KEY), AT),
    Message("a", "assistant", (ToolCall("c", "act", {KEY: [KEY, f"\x01{BASIC}"]}),), Source("assistant"), AT),
    Message("r", "tool", (ToolResult("c", "act", json.dumps(json.dumps({"k": KEY}))),), Source("tool"), AT),
)


async def tell_json(request: RouteRequest) -> RouteReply:
    written = json.dumps({"a": KEY, "b": [KEY, 1]}, indent=1)
    return RouteReply(body=written.encode() + request.query.get("behind", "").encode())


async def tell(request: RouteRequest) -> RouteReply:
    return RouteReply(body=b"\xff\x00" + KEY.encode() + b"\xfe", content_type="application/octet-stream")


@pytest.fixture
async def client() -> AsyncGenerator[Client]:
    Secret(KEY)
    handlers = {"tell": tell, "json": tell_json}
    routes = [ExtensionRoute(extension="mine", method="GET", path=path, handle=each) for path, each in handlers.items()]
    gateway = MemoryGateway(conversations={KEY: CONVERSATION}, model=KEY, market=KEY, routes=tuple(routes))
    gateway.remember("m-1", KEY, "owner")
    await gateway.end("m-1", answer(f"It is {KEY}."))
    async with (
        serve_web(gateway, WebServerSettings(port=0), Secret(TOKEN)) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, server.url, gateway)


async def read(client: Client, path: str, method: str = "GET", **more: object) -> tuple[int, bytes]:
    async with client.session.request(method, client.url + path, headers=AUTH, **more) as response:  # pyright: ignore
        return response.status, await response.read()


async def test_no_route_answers_with_a_known_secret(client: Client) -> None:
    routes = WebRoutes(client.gateway, WebServerSettings(), Secret(TOKEN), LiveStream()).authenticated_routes()
    paths = {(each.method, each.path) for each in routes if isinstance(each, HttpRoute)}
    hidden = 0
    for method, path in sorted({*paths, ("GET", "/"), ("GET", "/healthz"), ("GET", "/nowhere/{key}")}):
        for value in (KEY, "m-1"):
            filled = re.sub(r"\{\w+\}", quote(value, safe=""), path)
            bodies: list[object] = [{}] if method != "POST" else [{}, {KEY: KEY}, {"into": f"{KEY}-2"}, {"who": KEY}]
            for body in bodies:
                _, content = await read(client, f"{filled}?limit=5&after={KEY}", method, json=body)
                _, plain = await read(client, filled, method, json=body)
                assert KEY.encode() not in content + plain, (method, filled, body)
                hidden += b"[secret]" in content + plain
    assert hidden > 12


async def test_redacted_export_can_be_imported(client: Client) -> None:
    _, content = await read(client, f"/api/v1/sessions/{KEY}/export")
    assert KEY.encode() not in content
    assert BASIC[8:20].encode() not in content
    status, _ = await read(client, "/api/v1/sessions/copy/import", "POST", data=content)
    assert status == 201
    question, call, result = client.gateway.conversations["copy"]
    assert question.text == "use [secret]"
    assert call.tool_calls[0].args == {"[secret]": ["[secret]", "\x01[secret]"]}
    assert json.loads(json.loads(result.tool_results[0].content)) == {"k": "[secret]"}


async def test_secret_that_looks_like_a_number_leaves_an_export_that_can_be_imported(client: Client) -> None:
    Secret("5012345678")
    call = ToolCall("c", "act", {"account": 5012345678, "5012345678": [1.5, None, True, "5012345678"]})
    client.gateway.conversations["n"] = (Message("a", "assistant", (call,), Source("assistant"), AT),)
    for action in ("export", "messages"):
        _, content = await read(client, f"/api/v1/sessions/n/{action}")
        assert b"5012345678" not in content
        assert [json.loads(line) for line in content.splitlines()]
    _, content = await read(client, "/api/v1/sessions/n/export")
    assert (await read(client, "/api/v1/sessions/copy/import", "POST", data=content))[0] == 201
    (message,) = client.gateway.conversations["copy"]
    assert message.tool_calls[0].args == {"account": "[secret]", "[secret]": [1.5, None, True, "[secret]"]}


async def test_fork_keeps_what_was_written(client: Client) -> None:
    assert (await read(client, f"/api/v1/sessions/{KEY}/fork", "POST", json={"into": "copy"}))[0] == 201
    assert client.gateway.conversations["copy"] == CONVERSATION


async def test_bytes_that_are_no_text_stay_as_they_are(client: Client) -> None:
    assert (await read(client, "/api/v1/extensions/mine/tell"))[1] == b"\xff\x00[secret]\xfe"


async def test_answers_of_extensions_keep_their_form(client: Client) -> None:
    expected = json.dumps({"a": "[secret]", "b": ["[secret]", 1]}, indent=1)
    assert await read(client, "/api/v1/extensions/mine/json") == (200, expected.encode())
    status, content = await read(client, "/api/v1/extensions/mine/json?behind=]")  # no JSON, whatever it is called
    assert (status, content) == (200, expected.encode() + b"]")


async def send_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(KEY.encode())
    return response


async def send_text(_: web.Request) -> web.Response:
    return web.Response(text=KEY)


async def send_file(_: web.Request) -> web.Response:
    return web.Response(body=BytesIO(KEY.encode()))


async def send_error(_: web.Request) -> web.Response:
    raise web.HTTPConflict(text=KEY, reason=KEY)


@pytest.mark.parametrize("send", [send_stream, send_text, send_file, send_error])
async def test_new_route_cannot_forget_it(
    send: Callable[[web.Request], Awaitable[web.Response]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(request: web.Request, _: Principal) -> web.Response:
        return await send(request)

    Secret(KEY)
    known = WebRoutes.authenticated_routes
    added = StreamRoute("GET", "/api/v1/added", "messages", handle)
    monkeypatch.setattr(WebRoutes, "authenticated_routes", lambda routes: (*known(routes), added))  # pyright: ignore
    async with (
        serve_web(MemoryGateway(), WebServerSettings(port=0), Secret(TOKEN)) as server,
        aiohttp.ClientSession(server.url, headers=AUTH) as session,
    ):
        try:
            async with session.get("/api/v1/added") as response:
                shown = f"{await response.text()} {response.reason}"
        except aiohttp.ClientResponseError as refused:  # nothing of a stream is sent, not even its head
            shown = str(refused)
        assert KEY not in shown


async def test_streams_and_sockets_hide_it() -> None:
    Secret(KEY)
    live = LiveStream()
    async with (
        serve_web(MemoryGateway(), WebServerSettings(port=0), Secret(TOKEN), live=live) as server,
        aiohttp.ClientSession(headers=AUTH) as session,
        session.get(server.url + "/api/v1/stream") as stream,
        session.ws_connect(server.url + "/api/v1/live") as socket,
    ):
        await socket.send_json({"type": "hello"})
        await socket.receive()
        assert await stream.content.readuntil(b"\n\n") == b": welcome\n\n"
        live.observe(accepted("m-1"))
        live.observe(MessageEnded(inbound_id="m-1", outcome="answered", reply=f"It is {KEY}."))
        told = b"".join([await stream.content.readuntil(b"\n\n") for _ in range(2)]).decode()
        frames = [str((await socket.receive()).data) for _ in range(2)]
    for text in (told, "".join(frames)):
        assert "It is [secret]." in text
        assert KEY not in text
