"""A web site on this machine whose every byte the test decides, and a resolver that answers what it is told."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Any, Final

from finclaw.fetch.address import Address, is_public
from finclaw.fetch.charset import decode
from finclaw.fetch.client import HttpFetcher
from finclaw.fetch.gate import AddressGate
from finclaw.kernel.fetch import FetchReply, FetchRequest, FetchRules

HERE: Final = ip_address("127.0.0.1")
Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def get(url: str, **parts: Any) -> FetchRequest:
    return FetchRequest(url=url, purpose="test", **parts)


def text_of(reply: FetchReply) -> str:
    return decode(reply.body, reply.charset)


def counts_as_public(address: Address) -> bool:
    """This test's own machine is the internet. Everything else is judged as ever."""
    return address == HERE or is_public(address)


class Names:
    """Each look-up of a name takes its next answer; the last one stays."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]] | None = None) -> None:
        self._answers = {name: list(each) for name, each in (answers or {}).items()}
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        self.asked.append(name)
        left = self._answers.get(name.removesuffix("."))
        if left is None:
            return [str(HERE)]
        return left.pop(0) if len(left) > 1 else left[0]


class Site:
    """Answers by path; `requests` is all that was asked, head by head."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[str] = []
        self.pages: dict[str, Answer] = {}
        self._serving: set[asyncio.Task[None]] = set()

    def url(self, path: str = "/", host: str = "www.example.com") -> str:
        return f"http://{host}:{self.port}{path}"

    def gives(self, path: str, body: bytes | str = b"", *, status: str = "200 OK", **headers: str) -> None:
        raw = body.encode() if isinstance(body, str) else body
        self.pages[path] = answer(raw, status=status, **headers)

    def redirects(self, path: str, to: str, status: str = "302 Found") -> None:
        self.gives(path, status=status, location=to)

    def fetcher(self, names: Names | None = None, *, settings: FetchRules | None = None) -> HttpFetcher:
        settings = settings or FetchRules(ports=(80, 443, self.port))
        return HttpFetcher(AddressGate(settings, resolve=names or Names(), public=counts_as_public))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._answer((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"), writer)
        finally:
            self._serving.discard(task)
            writer.close()

    async def close(self) -> None:
        serving = tuple(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.sleep(0)  # the transports hear of their end in the next round

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        self.requests.append(head)
        page = self.pages.get(head.split(" ")[1], answer(b"no such page", status="404 Not Found"))
        if isinstance(page, bytes):
            writer.write(page)
        else:
            await page(writer)
        await writer.drain()


def answer(body: bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    fields = {"content_type": "text/html; charset=utf-8", "content_length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "Connection: close", "", ""]).encode() + body


@asynccontextmanager
async def opened_site(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Site]:
    site = Site(0)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        await site.close()
