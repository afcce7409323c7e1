"""An address of the web, read strictly and once: what was judged is, part by part, what is asked for.

Where readers of addresses disagree (credentials, backslashes, numbers that are hosts, signs that turn into others),
ours refuses. Nothing behind it reads the text again.
"""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import quote, urljoin

from yarl import URL

from finclaw.errors import ToolDenied
from finclaw.fetch.address import Address

LONGEST: Final = 2_048
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SCHEME: Final = re.compile(r"(https?)://", re.IGNORECASE | re.ASCII)
_AUTHORITY: Final = re.compile(r"[^/?#]*+")
_HOST_AND_PORT: Final = re.compile(r"(\[[0-9a-f:.]++\]|[^:\[\]]++)(?::([0-9]{1,5}))?", re.IGNORECASE | re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\\u2028\u2029\ud800-\udfff]")
_SAFE: Final = "/?:@!$&'()*+,;=-._~%[]"


@dataclass(frozen=True, slots=True)
class Location:
    scheme: str
    host: str
    """In lower case and ASCII: a name without its last dot, or an address without brackets."""
    port: int
    target: str  # path and query, as they are sent

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def address(self) -> Address | None:
        """When the host is one and no name."""
        if ":" in self.host:
            return IPv6Address(self.host)
        if _ends_in_number(self.host):
            return IPv4Address(self.host)
        return None

    @property
    def url(self) -> URL:
        path, _, query = self.target.partition("?")
        port = None if self._has_default_port else self.port
        return URL.build(
            scheme=self.scheme, host=self.written_host, port=port, path=path, query_string=query, encoded=True
        )

    def __str__(self) -> str:
        port = "" if self._has_default_port else f":{self.port}"
        return f"{self.scheme}://{self.written_host}{port}{self.target}"

    @property
    def _has_default_port(self) -> bool:
        return self.port == DEFAULT_PORTS[self.scheme]

    @property
    def written_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def read_location(text: str) -> Location:
    """Raises ToolDenied, with what is wrong in it."""
    text = text.strip(" ")
    _check_signs(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        raise ToolDenied("only addresses that begin with http:// or https:// can be fetched; give a whole one")
    authority = _AUTHORITY.match(text, scheme.end())
    assert authority is not None  # it matches nothing, too
    name = scheme[1].lower()
    host, port = read_host_and_port(authority[0])
    port = port or DEFAULT_PORTS[name]
    target = text[authority.end() :].partition("#")[0]
    if not target.startswith("/"):
        target = f"/{target}"
    return Location(name, host, port, quote(target, safe=_SAFE))


def join(base: Location, reference: str) -> Location:
    reference = reference.strip(" ")
    _check_signs(reference)
    try:
        whole = urljoin(str(base), reference)
    except ValueError as error:
        raise ToolDenied("it leads to an address that nobody can read; look for another source") from error
    return read_location(whole)


def read_host_and_port(authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise ToolDenied("an address with a name or password before '@' is not fetched; leave that part out")
    found = _HOST_AND_PORT.fullmatch(authority)
    if found is None:
        raise ToolDenied("the host of this address cannot be read; write it as example.com or example.com:443")
    if found[2] is None:
        return read_host(found[1]), None
    port = int(found[2])
    if not 0 < port < 65_536:
        raise ToolDenied(f"there is no port {port}; leave it out")
    return read_host(found[1]), port


def read_host(text: str) -> str:
    """The one spelling of a host. Every other way to write a number as a host is refused."""
    if text.startswith("["):
        return _read_v6(text[1:-1])
    host = _ascii(text).lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ToolDenied("the host of this address is no name; write it as example.com")
    if _ends_in_number(host):
        return _read_v4(host)
    return host


def _check_signs(text: str) -> None:
    if len(text) > LONGEST:
        raise ToolDenied(f"an address may have {LONGEST} characters; give a shorter one")
    if _FORBIDDEN.search(text):
        raise ToolDenied("the address holds a line break, a backslash or another control character; take it out")


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    if len(host) > 253:
        raise ToolDenied("the host of this address is too long to be a name")
    try:
        return URL.build(scheme="http", host=host).raw_host or ""
    except ValueError as error:
        raise ToolDenied("the host of this address is no international name; write it as xn--… or in ASCII") from error


def _ends_in_number(host: str) -> bool:
    """Then every resolver reads it as an IPv4 address, some of them in surprising ways."""
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _read_v4(host: str) -> str:
    try:
        return str(IPv4Address(host))
    except AddressValueError as error:
        raise ToolDenied("a numeric host is read as four decimal numbers only; use the site's name") from error


def _read_v6(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except AddressValueError as error:
        raise ToolDenied("what stands in [brackets] is no IPv6 address; use the site's name") from error
