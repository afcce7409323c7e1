"""A web site that is an MCP server, over HTTP."""

import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
Act = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def site(
    act: Act,
    seen: list[web.Request] | None = None,
    before: Callable[[web.Request], Awaitable[None]] | None = None,
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[str]:
    """Enough of streamable HTTP to be listed; `act` answers the call."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if seen is not None:
            seen.append(request)
        if before is not None:
            await before(request)
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "site", "version": "1"}
                hello: dict[str, Any] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                return result_reply(message, hello, {"Mcp-Session-Id": "s1"})
            case "tools/list":
                return result_reply(message, {"tools": [{"name": "act", "inputSchema": OBJECT}]})
            case "tools/call":
                return await act(request, message)
            case _ if "id" in message:
                return web.json_response({**reply_head(message), "error": {"code": -32601, "message": "unknown"}})
            case _:
                return web.Response(status=202)

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", port), reuse_port=bool(port))
    await web.SockSite(runner, listening, ssl_context=tls).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        await runner.cleanup()


def reply_head(message: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"]}


def result_reply(
    message: dict[str, Any], result: dict[str, Any], headers: dict[str, str] | None = None
) -> web.Response:
    return web.json_response({**reply_head(message), "result": result}, headers=headers)


def text_result(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


async def fine(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
    return result_reply(message, text_result("acted"))
