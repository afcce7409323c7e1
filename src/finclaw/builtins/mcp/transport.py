"""Transports to an MCP server: a program's pipes, or HTTP. Both limit what a server can send.

Over HTTP the server's name is looked up once and its addresses are checked as for any page (SSRF); the connection goes
to these addresses only, whatever the name resolves to later and wherever the server redirects to.
"""

import asyncio
import logging
import re
import ssl
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, NamedTuple, cast

import anyio
import httpx2
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from finclaw.builtins.mcp.settings import ServerSettings
from finclaw.errors import ToolDenied, ToolError
from finclaw.fetch.address import Address
from finclaw.fetch.gate import AddressGate, Resolve, look_up
from finclaw.fetch.location import DEFAULT_PORTS, Location, read_location
from finclaw.kernel.fetch import FetchRules
from finclaw.redaction import hide_and_cut
from finclaw.redaction.clean import clean
from finclaw.redaction.redact import redact_for_display
from finclaw.tools.process.program import Program

for _name in ("mcp", "client"):  # the SDK's loggers quote what servers send as it came; ours redact it
    logging.getLogger(_name).setLevel(logging.CRITICAL)

GOODBYE: Final = 0.5  # seconds for the request that closes a session
_CONNECT: Final = 10.0
_SILENCE: Final = 300.0
"""Seconds without a byte in an answer. A call has a separate limit, and a stream of events may be quiet for long."""
_STREAM: Final = 16  # a stream of events may be so many times as long as a message
_ENDS_OF_EVENTS: Final = (b"\n\n", b"\n\r\n", b"\r\r")
_STRAYS: Final = 2_000  # messages between two answers, such as progress notifications
_GARBAGE: Final = 1_000
"""Lines that are not messages and are skipped: some programs print a greeting on their standard output."""
_COMPLAINTS: Final = 500
"""Lines of standard error that are logged, each cut; the rest is read and forgotten."""
_MOST_VALUES: Final = 60_000
"""Values of one message, which are parsed within 100 ms: four megabytes of `[],[],[]` would take seconds."""
_TOO_MANY_VALUES: Final = f"it sent a message of more than {_MOST_VALUES:,} values"
_LONG_NUMBER: Final = re.compile(rb"(?<![0-9])[0-9]{400}")
_LOCALHOST: Final = "localhost"


class ServerLost(ToolError):
    """The connection is over, for the reason in the message."""


class ConnectionEnd:
    """The end of a connection and its reason; setting it wakes the task that looks after the connection."""

    def __init__(self) -> None:
        self.reason = ""
        self.stirred = asyncio.Event()

    def end(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.stirred.set()


@asynccontextmanager
async def watch(
    transport: AbstractAsyncContextManager[TransportStreams], ending: ConnectionEnd
) -> AsyncGenerator[TransportStreams]:
    """Pass all messages on, and end the connection of a server that sends too many without being asked."""
    async with transport as (incoming, outgoing):
        passed_on, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def pass_on() -> None:
            strays = 0
            async with passed_on:
                async for message in incoming:
                    strays = 0 if _is_answer(message) else strays + 1
                    if strays > _STRAYS:
                        return ending.end(f"it sent {strays:,} messages that nobody had asked for")
                    try:
                        await passed_on.send(message)
                    except anyio.BrokenResourceError:  # the client is closed, and the server goes on talking
                        return
            ending.end("it ended the connection")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pass_on)
            try:
                yield received, outgoing
            finally:
                tasks.cancel_scope.cancel()
                received.close()


def _is_answer(message: SessionMessage | Exception) -> bool:
    return isinstance(message, SessionMessage) and isinstance(
        message.message, types.JSONRPCResponse | types.JSONRPCError
    )


def has_too_many_values(message: bytes) -> bool:
    """Count a message's commas, and its lists and objects three times, in the bytes before anything parses them.

    Commas inside texts do not count. The parser itself limits the depth.
    """
    texts = message.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', 4 * _MOST_VALUES)
    if len(texts) > 4 * _MOST_VALUES:  # each comma separates two texts at most
        return True
    outside = b" ".join(texts[::2])
    values = outside.count(b",") + 3 * (outside.count(b"[") + outside.count(b"{"))
    return values > _MOST_VALUES or _LONG_NUMBER.search(outside) is not None


# ── a program's pipes ───────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def program(
    command: Sequence[str], environment: Mapping[str, str], largest: int, ending: ConnectionEnd, logger: logging.Logger
) -> AsyncGenerator[TransportStreams]:
    """Start a program, and kill its process tree at the end. Raises OSError when it cannot be started."""
    started = await Program.start(command, environment, largest)
    process = started.process
    try:
        heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_say = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, process, heard, largest, ending, logger)
            tasks.start_soon(_say, process, to_say, ending)
            tasks.start_soon(_log_complaints, process, logger)
            tasks.start_soon(started.watch)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()
                for stream in (heard, incoming, outgoing, to_say):
                    stream.close()
    finally:
        await started.end()


async def _listen(
    process: Process,
    heard: ObjectSendStream[SessionMessage | Exception],
    largest: int,
    ending: ConnectionEnd,
    logger: logging.Logger,
) -> None:
    lines = cast("asyncio.StreamReader", process.stdout)
    garbage = 0
    async with heard:
        while garbage <= _GARBAGE:
            try:
                line = await lines.readline()
            except ValueError:
                return ending.end(f"it sent a message of more than {largest:,} bytes")
            if not line:
                return
            if has_too_many_values(line):
                return ending.end(_TOO_MANY_VALUES)
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except (ValueError, RecursionError):
                if line.strip():
                    garbage += 1
                    if garbage == 1:
                        logger.info("wrote a line that is no message: %s", _printable_line(line))
                continue
            try:
                await heard.send(SessionMessage(message))
            except anyio.BrokenResourceError:  # the client is closed, and the server goes on talking
                return
    ending.end(f"it wrote {garbage:,} lines to its standard output that are no messages")


async def _say(process: Process, to_say: ObjectReceiveStream[SessionMessage], ending: ConnectionEnd) -> None:
    pipe = cast("asyncio.StreamWriter", process.stdin)
    async with to_say:
        async for message in to_say:
            try:
                pipe.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await pipe.drain()
            except OSError:
                return ending.end("it closed its standard input")


async def _log_complaints(process: Process, logger: logging.Logger) -> None:
    pipe = cast("asyncio.StreamReader", process.stderr)
    left = _COMPLAINTS
    while chunk := await pipe.read(16_384):
        for line in chunk.splitlines()[:left]:
            logger.info("says: %s", _printable_line(line))
            left -= 1


def _printable_line(line: bytes) -> str:
    # Secrets before the cut: the log takes them out too, but would not recognise half of one.
    return redact_for_display(hide_and_cut(clean(line.decode("utf-8", "replace")), 2_000)).strip()[:300]


# ── HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def web_server(
    server: ServerSettings,
    headers: Mapping[str, str],
    largest: int,
    resolve: Resolve = look_up,
    tls: ssl.SSLContext | bool = True,
) -> AsyncGenerator[TransportStreams]:
    """Connect by the SDK's HTTP client. Raises ServerLost. `tls` may trust other authorities than this machine does."""
    resolved = await find(server, resolve)
    client = httpx2.AsyncClient(
        # No compression: a few bytes that unpack to gigabytes would be past the limit before anybody counts.
        headers={**headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT, read=_SILENCE),
        transport=_PinnedTransport(resolved, largest, tls),
        trust_env=False,
        max_redirects=0,
    )
    url = str(resolved.location)
    async with client, streamable_http_client(url, http_client=client, max_sse_event_size=largest) as streams:
        yield streams


class ResolvedAddresses(NamedTuple):
    """The only addresses that are connected to while the connection lasts."""

    location: Location
    addresses: tuple[Address, ...]


async def find(server: ServerSettings, resolve: Resolve = look_up) -> ResolvedAddresses:
    """Resolve a server's name and check its addresses. Raises ServerLost.

    A public name that leads into a private network is refused. A server may be private if its address says so, as
    `localhost` and `10.0.0.5` do, or its settings.
    """
    location = read_location(server.url)
    host = location.host
    is_private = server.private or location.address is not None or host == _LOCALHOST
    private = (f"{location.written_host}:{location.port}",) if is_private else ()
    gate = AddressGate(FetchRules(private=private, ports=(location.port,)), resolve=resolve)
    try:
        addresses = await gate.addresses(location)
    except ToolDenied as error:
        if is_private:
            raise ServerLost(
                f"{host} leads to an address that is nobody's server, such as a cloud's metadata"
            ) from error
        advice = "if that server is your own, set `private: true` for it"
        raise ServerLost(f"{host} is not on the open internet; {advice}") from error
    except ToolError as error:
        raise ServerLost(str(error)) from error
    if host == _LOCALHOST and not all(address.is_loopback for address in addresses):
        raise ServerLost("`localhost` leads to another machine here; write 127.0.0.1 in its `url`")
    return ResolvedAddresses(location, addresses)


class _PinnedTransport(httpx2.AsyncHTTPTransport):
    """Connects to the resolved addresses only, and limits the answers.

    The name stays in the Host header and is what the certificate must be for.
    """

    def __init__(self, resolved: ResolvedAddresses, largest: int, tls: ssl.SSLContext | bool) -> None:
        super().__init__(verify=tls, retries=0, trust_env=False)
        self._resolved = resolved
        self._largest = largest

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":
            async with asyncio.timeout(GOODBYE):  # a courtesy at the end, and nobody waits for its answer
                response = await self._send(request)
            await response.aclose()
            return httpx2.Response(response.status_code, request=request)
        response = await self._send(request)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            raise httpx2.RemoteProtocolError("the server packs its answers though it was asked not to")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _LimitedStream(response.stream, self._largest * _STREAM, self._largest)
        else:
            response.stream = _LimitedStream(response.stream, self._largest, None)
        return response

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        location = self._resolved.location
        port = request.url.port or DEFAULT_PORTS[location.scheme]
        if (request.url.scheme, request.url.host, port) != (location.scheme, location.host, location.port):
            raise httpx2.UnsupportedProtocol("the request would have gone to another server; nothing was sent")
        *others, last = self._resolved.addresses
        for address in others:
            try:
                return await super().handle_async_request(self._address_to(address, request))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue  # not connected, so nothing was sent, and the next address is tried
        return await super().handle_async_request(self._address_to(last, request))

    def _address_to(self, address: Address, request: httpx2.Request) -> httpx2.Request:
        extensions = dict(request.extensions)
        if self._resolved.location.address is None:
            extensions["sni_hostname"] = self._resolved.location.host
        url = request.url.copy_with(host=str(address))
        return httpx2.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=extensions
        )


class _LimitedStream(httpx2.AsyncByteStream):
    """Passes on whole messages after counting them: a body in one piece, a stream by events."""

    def __init__(self, inner: httpx2.AsyncByteStream, limit: int, largest_event: int | None) -> None:
        self._inner = inner
        self._limit = limit
        self._largest_event = largest_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        waiting = bytearray()
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
    """The end of the last whole event, searched from `begins`; 0 if there is none."""
    ends = [data.rfind(mark, begins) + len(mark) for mark in _ENDS_OF_EVENTS if mark in data[begins:]]
    return max(ends, default=0)


def _check_value_count(message: bytes) -> bytes:
    if has_too_many_values(message):
        raise httpx2.ReadError(_TOO_MANY_VALUES)
    return message
