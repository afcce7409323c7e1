"""A server on this machine that answers as a test wants, and the provider that asks it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from finclaw.kernel.chunk import Chunk, Model, ModelRequest
from finclaw.kernel.message import Message, Source, Text
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.http.sse import join_text_deltas
from finclaw.redaction import Secret

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

ASKED = ModelRequest(
    model=Model("anthropic", "claude"),
    system="Be brief.",
    messages=(Message("1", "user", (Text("삼성전자?"),), Source("user"), datetime(2026, 1, 1, tzinfo=UTC)),),
)


def streams(
    pieces: Sequence[bytes],
    *,
    cut: bool = False,
    hold: asyncio.Event | None = None,
    pause: float = 0.0,
    kind: str = "text/event-stream",
) -> Answer:
    """The pieces, each in a write of its own; then the end, or a line that is cut or held open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": kind})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(pause)
        if hold is not None:
            await hold.wait()
        if cut and request.transport is not None:
            request.transport.close()
        return response

    return answer


def refuses(status: int, body: str, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=body, headers=headers)

    return answer


@asynccontextmanager
async def serving(answer: Answer, path: str = "/{path:.*}") -> AsyncGenerator[str]:
    """The address of a server that gives this answer to whoever posts anything there."""
    app = web.Application(client_max_size=100_000_000)
    app.router.add_post(path, answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def provider(answer: Answer, **options: Any) -> AsyncGenerator[AnthropicProvider]:
    async with serving(answer) as url:
        client = AnthropicProvider(f"{url}/", Secret("key-1"), **options)
        try:
            yield client
        finally:
            await client.close()


async def chunks(answer: Answer, asked: ModelRequest = ASKED, **options: Any) -> list[Chunk]:
    async with provider(answer, **options) as client:
        return as_one([chunk async for chunk in client.stream(asked)])


def as_one(chunks: Iterable[Chunk]) -> list[Chunk]:
    """What came in one read is told in one piece, and where reads end is the network's to say."""
    return list(join_text_deltas(chunks))
