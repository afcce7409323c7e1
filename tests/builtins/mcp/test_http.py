"""Servers at an address: what works, what is refused, and what is cut off."""

import asyncio
import gzip
import json
import socket
import time
from typing import Any

import pytest
from aiohttp import web
from tests.builtins.mcp.bench import Bench, until
from tests.builtins.mcp.http_site import fine, reply_head, site, text_result

from finclaw.builtins.mcp.transport import GOODBYE
from finclaw.errors import ToolError
from finclaw.extensions.registrar import CLOSE_GRACE


async def test_a_server_at_an_address_gets_its_header_and_answers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SITE_KEY", "Bearer canary")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    seen: list[web.Request] = []
    async with site(fine, seen) as url:
        server = {"url": url, "headers": {"Authorization": "env:SITE_KEY"}}
        async with bench.open(servers={"far": server}):
            await bench.has("far__act")
            assert "acted" in await bench.run("far__act")
    assert {request.headers["Authorization"] for request in seen} == {"Bearer canary"}


async def test_events_are_read_too(bench: Bench) -> None:
    async def stream(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        answer = json.dumps({**reply_head(message), "result": text_result("streamed")})
        return web.Response(text=f"event: message\ndata: {answer}\n\n", content_type="text/event-stream")

    async with site(stream) as url, bench.open(servers={"far": {"url": url}}):
        await bench.has("far__act")
        assert "streamed" in await bench.run("far__act")


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_host_is_not_followed(bench: Bench, status: int) -> None:
    elsewhere: list[web.Request] = []
    async with site(fine, elsewhere) as other:

        async def away(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": other})

        async with site(away) as url, bench.open(servers={"far": {"url": url}}):
            await bench.has("far__act")
            with pytest.raises(ToolError, match="refused"):
                await bench.run("far__act")
    assert elsewhere == []


async def test_a_server_that_does_not_let_us_go_is_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2 * GOODBYE < CLOSE_GRACE, "the registrar would leave it behind"
    monkeypatch.setattr("finclaw.extensions.registrar.CLOSE_GRACE", 60)  # a busy machine is not a finding

    async def hangs(request: web.Request) -> None:
        if request.method == "DELETE":
            await asyncio.sleep(60)

    async with site(fine, before=hangs) as url:
        async with bench.open(servers={"far": {"url": url}}):
            await bench.has("far__act")
            began = time.monotonic()
        assert time.monotonic() - began < 30


async def _endless(request: web.Request, kind: str, chunk: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": kind})
    await response.prepare(request)
    try:
        while True:
            await response.write(chunk)
    except ConnectionError:
        return response


@pytest.mark.parametrize("how", ["json", "one event", "events", "packed", "html", "500", "cut off"])
async def test_answers_that_are_wrong_are_errors_and_the_next_call_works(bench: Bench, how: str) -> None:
    calls = 0

    async def act(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:  # noqa: PLR0911
        nonlocal calls
        calls += 1
        if calls > 1:
            return await fine(request, message)
        match how:
            case "json":
                return await _endless(request, "application/json", b" " * 100_000)
            case "one event":
                return await _endless(request, "text/event-stream", b"data: " + b"x" * 100_000)
            case "events":
                news = json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": "x" * 9_000}})
                return await _endless(request, "text/event-stream", f"data: {news}\n\n".encode())
            case "packed":
                body = gzip.compress(
                    json.dumps({**reply_head(message), "result": text_result("x" * 50_000_000)}).encode()
                )
                headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
                return web.Response(body=body, headers=headers)
            case "html":
                return web.Response(text="<h1>hello</h1>", content_type="text/html")
            case "500":
                return web.Response(status=500, text="x" * 1_000)
            case _:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()

    async with site(act) as url, bench.open(servers={"far": {"url": url}}, timeout=5):
        await bench.has("far__act")
        with pytest.raises(ToolError):
            await bench.run("far__act")
        await until_it_works(bench)


async def until_it_works(bench: Bench) -> None:
    async def works() -> bool:
        if "far__act" not in bench.names:
            return False
        try:
            return "acted" in await bench.run("far__act")
        except ToolError:
            return False

    async with asyncio.timeout(60):
        while not await works():  # noqa: ASYNC110  there is nobody who would tell
            await asyncio.sleep(0.05)


async def test_a_server_that_goes_and_comes_back_is_found_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as kept:  # nobody listens there, and nobody else gets the port while the server is away
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        async with bench.open(servers={"far": {"url": f"http://127.0.0.1:{port}/mcp"}}):
            await until(lambda: "MCP server far is lost" in caplog.text)
            async with site(fine, port=port):
                await until_it_works(bench)
            with pytest.raises(ToolError):
                await bench.run("far__act")
            async with site(fine, port=port):
                await until_it_works(bench)
