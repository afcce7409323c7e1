"""An MCP server at an address, every word of which the test decides."""

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
Message = dict[str, Any]


def tool(name: str = "act", description: str = "Acts.", schema: Message | None = None, **more: Any) -> Message:
    return {"name": name, "description": description, "inputSchema": schema or OBJECT, **more}


def text(words: str, **more: Any) -> Message:
    return {"content": [{"type": "text", "text": words}], **more}


def answered(message: Message, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


@dataclass
class Site:
    """`pages` gives a page of the list for a cursor; `act` all that is said to a call, message by message."""

    pages: Callable[[str | None], tuple[list[Message], str | None]] = lambda _: ([tool()], None)
    act: Callable[[Message], Awaitable[list[Message]]] | None = None
    calls: list[Message] = field(default_factory=list[Message])
    url: str = ""

    def shows(self, *tools: Message) -> None:
        self.pages = lambda _: (list(tools), None)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        match message.get("method"):
            case "initialize":
                told: Message = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}}
                return _events(answered(message, {**told, "serverInfo": {"name": "site", "version": "1"}}))
            case "tools/list":
                params: Message = message.get("params") or {}
                tools, more = self.pages(params.get("cursor"))
                return _events(answered(message, {"tools": tools, **({"nextCursor": more} if more else {})}))
            case "tools/call":
                self.calls.append(message)
                return _events(*(await self.act(message) if self.act else [answered(message, text("acted"))]))
            case _ if "id" in message and "method" in message:
                unknown = {"code": -32601, "message": "unknown"}
                return _events({"jsonrpc": "2.0", "id": message["id"], "error": unknown})
            case _:
                return web.Response(status=202)


def _events(*messages: Message) -> web.Response:
    body = "".join(f"event: message\ndata: {json.dumps(each)}\n\n" for each in messages)
    return web.Response(text=body, content_type="text/event-stream")


@asynccontextmanager
async def opened_mcp() -> AsyncGenerator[Site]:
    site, app = Site(), web.Application()
    app.router.add_route("*", "/mcp", site._answer)  # pyright: ignore[reportPrivateUsage]  its own half
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listening).start()
    site.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    try:
        yield site
    finally:
        await runner.cleanup()
