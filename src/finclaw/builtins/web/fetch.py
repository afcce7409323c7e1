"""Fetching a location: by hand from one redirect to the next, each judged anew, within limits of time and size."""

import asyncio
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import aiohttp
from aiohttp import ClientResponse, ClientTimeout

from finclaw.builtins.web.body import ENCODINGS, read_body
from finclaw.builtins.web.charset import decode, is_text
from finclaw.builtins.web.gate import AddressGate
from finclaw.builtins.web.location import Location, join, read_location
from finclaw.builtins.web.pinned import pinned_session
from finclaw.errors import ToolDenied, ToolError, ToolTimeout

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_CHARSET: Final = re.compile(r"""charset\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""", re.IGNORECASE | re.ASCII)
_TEXT: Final = frozenset(
    {"application/json", "application/xml", "application/xhtml+xml", "application/x-ndjson", "application/yaml"}
)
_HEADERS: Final = {
    "Accept": "text/html, application/xhtml+xml, application/json, application/xml;q=0.9, text/*;q=0.8",
    "Accept-Encoding": ENCODINGS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    seconds: float = 20.0
    """For the whole of it: names, redirects, the last byte."""
    connecting: float = 10.0
    body: int = 5_000_000
    """Bytes, unpacked."""
    header: int = 16_384
    """Bytes of one header."""
    headers: int = 128
    redirects: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    status: int
    location: Location
    """Where it was found, after all redirects."""
    media_type: str
    charset: str
    """As the header has it; empty when it has none."""
    body: bytes
    truncated: bool

    @property
    def final_url(self) -> str:
        return str(self.location)

    @property
    def text(self) -> str:
        return decode(self.body, self.charset)

    @property
    def is_html(self) -> bool:
        return self.media_type in ("text/html", "application/xhtml+xml")


def is_readable(media_type: str) -> bool:
    """What can be shown to a model as text."""
    if media_type.startswith("text/") or media_type in _TEXT:
        return True
    return media_type.startswith("application/") and media_type.endswith(("+json", "+xml"))


class Fetcher:
    """A client for web pages, the only way to an address that somebody else has named.

    GET, no cookies, no credentials, no proxy.
    """

    def __init__(
        self, gate: AddressGate | None = None, *, limits: FetchLimits | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` is for whoever trusts other authorities than this machine does."""
        self._gate = gate or AddressGate()
        self._limits = limits or FetchLimits()
        self._tls = tls

    async def fetch(self, url: str, *, accept: Callable[[str], bool] = is_readable) -> WebPage:
        """Raises ToolDenied for what the rules forbid, ToolTimeout, or ToolError for what could not be had.

        `accept` says which media types are wanted; a body of another is never read.
        """
        location = read_location(url)
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._follow(location, accept)
        except TimeoutError as error:
            raise ToolTimeout(f"{location.host} took too long; try again later, or look for another source") from error

    async def _follow(self, location: Location, accept: Callable[[str], bool]) -> WebPage:
        for _ in range(self._limits.redirects + 1):
            answer = await self._ask(location, accept)
            if isinstance(answer, WebPage):
                return answer
            self._check_step(location, answer)
            location = answer
        raise ToolError(f"{location.host} redirects again and again; look for another source")

    def _check_step(self, before: Location, after: Location) -> None:
        if before.scheme == "https" and after.scheme == "http":
            raise ToolDenied(f"{before.host} redirects from https to http, which is not followed")
        if self._gate.is_private(after) and not self._gate.is_private(before):
            raise ToolDenied(f"{before.host} redirects into the operator's own network, which is not followed")

    async def _ask(self, location: Location, accept: Callable[[str], bool]) -> WebPage | Location:
        addresses = await self._gate.addresses(location)
        # Its own limit for the whole is ours; aiohttp's would begin again with every redirect.
        timeout = ClientTimeout(total=None, sock_connect=self._limits.connecting)
        try:
            async with (
                pinned_session(addresses, timeout, self._tls) as session,
                session.get(
                    location.url,
                    headers={**_HEADERS, "User-Agent": _user_agent()},
                    allow_redirects=False,
                    max_line_size=self._limits.header,
                    max_field_size=self._limits.header,
                    max_headers=self._limits.headers,
                ) as response,
            ):
                return await self._read(location, response, accept)
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise ToolError(_failure(location.host, error)) from error

    async def _read(
        self, location: Location, response: ClientResponse, accept: Callable[[str], bool]
    ) -> WebPage | Location:
        if response.status in _REDIRECTS and "Location" in response.headers:
            return join(location, response.headers["Location"])
        named = response.headers.get("Content-Type", "")
        media_type = named.partition(";")[0].strip().lower()
        if media_type and not accept(media_type):
            raise ToolError(
                f"{location.host} gave {media_type[:80]!r}, which cannot be read here; look for a text page"
            )
        encoding = response.headers.get("Content-Encoding", "")
        body, truncated = await read_body(response.content.iter_any(), encoding, self._limits.body)
        charset = _CHARSET.search(named)
        page = WebPage(
            status=response.status,
            location=location,
            media_type=media_type or _sniff_type(body),
            charset=charset[1] if charset else "",
            body=body,
            truncated=truncated,
        )
        return _check_is_text(page, accept)


@cache
def _user_agent() -> str:
    from importlib.metadata import version  # noqa: PLC0415  `cold_cpu`: 20 ms, and most turns fetch nothing

    return f"FinClaw/{version('finclaw-gateway')}"


def _check_is_text(page: WebPage, accept: Callable[[str], bool]) -> WebPage:
    """A server's word about its body is only a word."""
    if not accept(page.media_type) or (is_readable(page.media_type) and not is_text(page.body, page.charset)):
        raise ToolError(f"what {page.location.host} gave is no text, whatever it is called; look for a text page")
    return page


def _sniff_type(body: bytes) -> str:
    if not is_text(body, ""):
        return "application/octet-stream"
    return "text/html" if body.lstrip()[:1] == b"<" else "text/plain"


def _failure(host: str, error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError | aiohttp.ClientSSLError):
        return f"{host} could not prove who it is (its certificate is not valid); look for another source"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{host} could not be reached; try again later, or look for another source"
    return f"{host} gave no answer that can be read; try again later, or look for another source"
