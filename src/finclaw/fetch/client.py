"""An HTTP client for strangers' addresses: by hand from one redirect to the next, each judged anew, within limits."""

import asyncio
import logging
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from ipaddress import ip_address
from typing import Any, Final

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec.structs import replace

from finclaw.errors import ToolDenied, ToolError, ToolTimeout
from finclaw.fetch.address import Address
from finclaw.fetch.charset import is_text
from finclaw.fetch.gate import AddressGate
from finclaw.fetch.location import Location, join, read_location
from finclaw.fetch.revalidation import HostSlots, ReplyCache, validators
from finclaw.kernel.fetch import FetchReply, FetchRequest
from finclaw.redaction import hide_and_cut

log = logging.getLogger(__name__)

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHARSET: Final = re.compile(r"""charset\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""", re.IGNORECASE | re.ASCII)
_TEXT: Final = frozenset(
    {"application/json", "application/xml", "application/xhtml+xml", "application/x-ndjson", "application/yaml"}
)
_ACCEPT_TEXT: Final = "text/html, application/xhtml+xml, application/json, application/xml;q=0.9, text/*;q=0.8"
_HEADER_BYTES: Final = 16_384
_MOST_HEADERS: Final = 128
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]{0,8192}")
# fmt: off
_OWN_HEADERS: Final = frozenset({
    "accept-encoding", "connection", "content-length", "expect", "host", "if-modified-since", "if-none-match",
    "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
})
# fmt: on
"""Headers that decide how far an answer reaches and whose it is: they are written here and nowhere else."""

_ENCODINGS: Final = "gzip, deflate"
"""Content encodings that we ask for. Each can be unpacked in small pieces, so a decompression bomb never unfolds."""
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_ANY_HEADER: Final = zlib.MAX_WBITS | 32
_FAMILIES: Final = {4: socket.AF_INET, 6: socket.AF_INET6}
_AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class HttpFetcher:
    """A client for web pages: no cookies, no credentials, no proxy, and a connection for each request."""

    def __init__(
        self,
        gate: AddressGate | None = None,
        *,
        slots: HostSlots | None = None,
        kept: ReplyCache | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls` is for whoever trusts other authorities than this machine does."""
        self._gate = gate or AddressGate()
        self._slots = slots or HostSlots()
        self._kept = kept or ReplyCache()
        self._tls = tls

    async def fetch(self, request: FetchRequest) -> FetchReply:
        location = read_location(request.url)
        _check_headers(request)
        try:
            async with asyncio.timeout(request.limits.seconds):
                reply = await self._follow(location, request)
        except TimeoutError as error:
            raise ToolTimeout(f"{location.host} took too long; try again later, or look for another source") from error
        log.debug("%s: %s answered %d, %d bytes", request.purpose, reply.host, reply.status, len(reply.body))
        return reply

    async def _follow(self, location: Location, request: FetchRequest) -> FetchReply:
        for _ in range(request.limits.redirects + 1):
            answer = await self._ask(location, request)
            if isinstance(answer, FetchReply):
                return answer
            self._check_redirect(location, answer, request)
            if location.origin != answer.origin:
                request = replace(request, headers={})
            location = answer
        raise ToolError(f"{location.host} redirects again and again; look for another source")

    def _check_redirect(self, before: Location, after: Location, request: FetchRequest) -> None:
        if request.method != "GET":
            raise ToolError(f"{before.host} redirects what was sent to it, which is not followed; give its new address")
        if before.scheme == "https" and after.scheme == "http":
            raise ToolDenied(f"{before.host} redirects from https to http, which is not followed")
        if self._gate.is_private(after) and not self._gate.is_private(before):
            raise ToolDenied(f"{before.host} redirects into the operator's own network, which is not followed")

    async def _ask(self, location: Location, request: FetchRequest) -> FetchReply | Location:
        addresses = await self._gate.addresses(location)
        known = self._kept.find(location, request)
        headers = {
            "Accept": ", ".join(request.accept) or _ACCEPT_TEXT,
            "User-Agent": _user_agent(),
            **request.headers,
            "Accept-Encoding": _ENCODINGS,
            **validators(known),
        }
        # The limit for the whole is ours; aiohttp's would begin again with every redirect.
        timeout = ClientTimeout(total=None, sock_connect=request.limits.connecting)
        try:
            async with (
                self._slots.of(location),
                pinned_session(addresses, timeout, self._tls) as session,
                session.request(
                    request.method,
                    location.url,
                    data=request.body or None,
                    headers=headers,
                    allow_redirects=False,
                    max_line_size=_HEADER_BYTES,
                    max_field_size=_HEADER_BYTES,
                    max_headers=_MOST_HEADERS,
                ) as response,
            ):
                if known and response.status == 304:
                    return replace(known, revalidated=True)
                answer = await _read(location, response, request)
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise ToolError(_failure(location.host, error)) from error
        if isinstance(answer, FetchReply):
            self._kept.keep(location, request, answer)
        return answer


async def _read(location: Location, response: ClientResponse, request: FetchRequest) -> FetchReply | Location:
    if response.status in _REDIRECTS and "Location" in response.headers:
        return join(location, response.headers["Location"])
    named = response.headers.get("Content-Type", "")
    media_type = named.partition(";")[0].strip().lower()
    if media_type and not _is_wanted(media_type, request):
        raise ToolError(
            f"{location.host} gave {hide_and_cut(media_type, 80)!r}, which cannot be read here; look for a text page"
        )
    encoding = response.headers.get("Content-Encoding", "")
    body, truncated = await read_body(response.content.iter_any(), encoding, request.limits.body)
    charset = _CHARSET.search(named)
    reply = FetchReply(
        status=response.status,
        url=str(location),
        host=location.host,
        media_type=media_type or _sniff_type(body),
        charset=charset[1] if charset is not None else "",
        body=body,
        truncated=truncated,
        headers={name.lower(): response.headers[name] for name in response.headers},
    )
    # A server's word about its body is only a word.
    is_binary = is_readable(reply.media_type) and not is_text(body, reply.charset)
    if is_binary or not _is_wanted(reply.media_type, request):
        raise ToolError(f"what {location.host} gave is no text, whatever it is called; look for a text page")
    return reply


def is_readable(media_type: str) -> bool:
    """Whether it can be shown to a model as text."""
    if media_type.startswith("text/") or media_type in _TEXT:
        return True
    return media_type.startswith("application/") and media_type.endswith(("+json", "+xml"))


def _is_wanted(media_type: str, request: FetchRequest) -> bool:
    if not request.accept:
        return is_readable(media_type)
    return any(fnmatchcase(media_type, each) for each in request.accept)


def _check_headers(request: FetchRequest) -> None:
    for name, value in request.headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ToolDenied(
                f"the header {hide_and_cut(name, 40)!r} holds what no header can; write it in printable ASCII"
            )
        if name.lower() in _OWN_HEADERS or name.lower().startswith("proxy-"):
            raise ToolDenied(f"the header {name} is the gateway's own; leave it out")


@cache
def _user_agent() -> str:
    from importlib.metadata import version  # noqa: PLC0415  `cold_cpu`: 20 ms, and most turns fetch nothing

    return f"FinClaw/{version('finclaw-gateway')}"


def _sniff_type(body: bytes) -> str:
    if not is_text(body, ""):
        return "application/octet-stream"
    if body.lstrip().startswith(b"<"):
        return "text/html"
    return "text/plain"


def _failure(host: str, error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError | aiohttp.ClientSSLError):
        return f"{host} could not prove who it is (its certificate is not valid); look for another source"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{host} could not be reached; try again later, or look for another source"
    return f"{host} gave no answer that can be read; try again later, or look for another source"


# ── the connection ────────────────────────────────────────────────────────────────────────────────────────────


def pinned_session(
    addresses: Sequence[Address], timeout: ClientTimeout, tls: ssl.SSLContext | None = None
) -> ClientSession:
    """A session for one host and one answer. Certificates and the Host header keep the name; the address is ours."""
    connector = TCPConnector(
        resolver=_Judged(addresses),
        use_dns_cache=False,
        force_close=True,
        ssl=tls or True,
        # The resolver is not asked about hosts that are numbers. Nobody gets past a socket.
        socket_factory=_only_to(frozenset(addresses)),
    )
    return ClientSession(
        connector=connector, cookie_jar=DummyCookieJar(), trust_env=False, timeout=timeout, auto_decompress=False
    )


class _Judged(AbstractResolver):
    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(each),
                port=port,
                family=_FAMILIES[each.version],
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for each in self._addresses
        ]

    async def close(self) -> None:
        pass


def _only_to(judged: frozenset[Address]) -> Callable[[_AddressInfo], socket.socket]:
    def open_socket(info: _AddressInfo) -> socket.socket:
        family, kind, protocol, _, (host, *_) = info
        if ip_address(host) not in judged:
            raise ToolDenied("the connection would have gone to an address that was not judged; nothing was sent")
        return socket.socket(family, kind, protocol)

    return open_socket


# ── the body ──────────────────────────────────────────────────────────────────────────────────────────────────


async def read_body(chunks: AsyncIterator[bytes], encoding: str, most: int) -> tuple[bytes, bool]:
    """The first `most` bytes, and whether there were more."""
    unpack = _unpacker(encoding.strip().lower())
    body = bytearray()
    try:
        async for chunk in chunks:
            body += unpack.feed(chunk, most + 1 - len(body))
            if len(body) > most:
                return bytes(body[:most]), True
    except zlib.error as error:
        raise ToolError("the page is packed in a way that cannot be unpacked; look for another source") from error
    if not unpack.is_whole:
        raise ToolError("the page broke off before its end; try again, or look for another source")
    return bytes(body), False


class _Plain:
    is_whole = True

    def feed(self, chunk: bytes, room: int) -> bytes:
        return chunk[:room]


class _Zipped:
    def __init__(self, *, may_be_bare: bool) -> None:
        self._may_be_bare = may_be_bare
        self._stream = zlib.decompressobj(_ANY_HEADER)
        self._has_begun = False

    @property
    def is_whole(self) -> bool:
        return self._stream.eof or not self._has_begun

    def feed(self, chunk: bytes, room: int) -> bytes:
        if not self._has_begun and chunk:
            self._has_begun = True
            if self._may_be_bare and chunk[0] & 0x0F != zlib.DEFLATED:  # many servers leave the header out
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        # What does not fit into the room stays packed, and nobody asks for it: the room is then full.
        if self._stream.eof:
            return b""
        return self._stream.decompress(chunk, room)


def _unpacker(encoding: str) -> _Plain | _Zipped:
    if encoding in ("", "identity"):
        return _Plain()
    if encoding in _GZIP or encoding == "deflate":
        return _Zipped(may_be_bare=encoding == "deflate")
    raise ToolError("the page is packed in a way that was not asked for; look for another source")
