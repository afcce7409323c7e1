"""HTTP transport to an MCP server: the SDK's own client, which gives up when an answer does not end.

The line leads to addresses that were judged, and to no other: whatever the server's name means by then, and wherever
it would like to redirect us to.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from finclaw.builtins.mcp.resolved_addresses import ResolvedAddresses, find
from finclaw.builtins.mcp.settings import ServerSettings
from finclaw.builtins.mcp.transport import TOO_MANY_VALUES, has_too_many_values
from finclaw.fetch.address import Address
from finclaw.fetch.gate import Resolve, look_up
from finclaw.fetch.location import DEFAULT_PORTS

_CONNECT: Final = 10.0
_SILENCE: Final = 300.0
"""Seconds without a byte in an answer. A call has its own limit, and a stream of news may be quiet for long."""
GOODBYE: Final = 0.5
_ENDS_OF_EVENTS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
_STREAM: Final = 16
"""A stream of events may be so many times as long as a message."""


@asynccontextmanager
async def web_server(
    server: ServerSettings,
    headers: Mapping[str, str],
    largest: int,
    resolve: Resolve = look_up,
    tls: ssl.SSLContext | bool = True,
) -> AsyncGenerator[TransportStreams]:
    """Raises ServerLost. `tls` is for whoever trusts other authorities than this machine does."""
    where = await find(server, resolve)
    line = _Pinned(httpx2.AsyncHTTPTransport(verify=tls, retries=0, trust_env=False), where)
    client = httpx2.AsyncClient(
        # Nothing packed: a few bytes that unpack to gigabytes would be past the limit before anybody counts.
        headers={**headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT, read=_SILENCE),
        transport=_Bounded(line, largest),
        trust_env=False,
        max_redirects=0,
    )
    url = str(where.location)
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=largest) as streams:
        yield streams


class _Pinned(httpx2.AsyncBaseTransport):
    """The name stays in the Host header and is what the certificate must be for; only the way there is ours."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, where: ResolvedAddresses) -> None:
        self._inner = inner
        self._where = where

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        location = self._where.location
        if (request.url.scheme, request.url.host) != (location.scheme, location.host) or (
            (request.url.port or DEFAULT_PORTS[location.scheme]) != location.port
        ):
            raise httpx2.UnsupportedProtocol("the request would have gone to another server; nothing was sent")
        *others, last = self._where.addresses
        for address in others:
            try:
                return await self._inner.handle_async_request(self._led_to(address, request))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue  # nobody is there, so nothing was sent, and the next one is tried
        return await self._inner.handle_async_request(self._led_to(last, request))

    def _led_to(self, address: Address, request: httpx2.Request) -> httpx2.Request:
        named = {} if self._where.location.address is not None else {"sni_hostname": self._where.location.host}
        return httpx2.Request(
            request.method,
            request.url.copy_with(host=str(address)),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, **named},
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, largest: int) -> None:
        self._inner = inner
        self._largest = largest

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._answer(request)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            raise httpx2.RemoteProtocolError("the server packs its answers though it was asked not to")
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        limit = self._largest * (_STREAM if is_stream else 1)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Counted(response.stream, limit, self._largest if is_stream else None)
        return response

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "DELETE":
            return await self._inner.handle_async_request(request)
        async with asyncio.timeout(GOODBYE):  # a courtesy when we leave, and nobody waits for its answer
            response = await self._inner.handle_async_request(request)
        await response.aclose()
        return httpx2.Response(response.status_code, request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx2.AsyncByteStream):
    """Passes on whole messages: a body as one piece, of a stream one or more events. Each is counted before."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, largest_event: int | None) -> None:
        self._inner = inner
        self._limit = limit
        self._largest_event = largest_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, waiting = self._limit, bytearray()
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0:
                raise httpx2.ReadError(f"the server sent an answer of more than {self._limit:,} bytes")
            begins = max(0, len(waiting) - 3)
            waiting += chunk
            if self._largest_event is None:
                continue
            if ends := _end_of_events(waiting, begins):
                yield _check_value_count(bytes(waiting[:ends]))
                del waiting[:ends]
            if len(waiting) > self._largest_event:
                raise httpx2.ReadError(f"the server sent an event of more than {self._largest_event:,} bytes")
        if waiting:
            yield _check_value_count(bytes(waiting))

    async def aclose(self) -> None:
        await self._inner.aclose()


def _end_of_events(data: bytearray, begins: int) -> int:
    """Where the last whole event ends, looked for from `begins`; 0 when none does."""
    return max(data.rfind(mark, begins) + len(mark) if mark in data[begins:] else 0 for mark in _ENDS_OF_EVENTS)


def _check_value_count(message: bytes) -> bytes:
    if has_too_many_values(message):
        raise httpx2.ReadError(TOO_MANY_VALUES)
    return message
