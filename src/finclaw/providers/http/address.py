"""Addresses of APIs: what of a `base_url` must be known to open a connection, to send a request and to wait for it."""

from base64 import b64encode
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from finclaw.errors import BadRequest


class ApiAddress(NamedTuple):
    host: str
    port: int
    secure: bool
    authority: str  # the host as a request names it
    path: str
    login: Mapping[str, str]  # the header for a user and password that stand in the address


def parse_address(url: str, name: str) -> ApiAddress:
    """Raises BadRequest, which does not show the address: a password may stand in it."""
    try:
        parts = urlsplit(url)
        host = _ascii(parts.hostname or "")
        port = parts.port
    except ValueError:
        host = ""
        port = None
        parts = urlsplit("")
    path = parts.path or "/"
    if parts.query:
        path += f"?{parts.query}"
    speakable = (host + path).isascii() and (host + path).isprintable() and " " not in host + path
    if not host or parts.scheme not in ("http", "https") or not speakable:
        raise BadRequest(f"{name}: base_url is no address; it looks like https://api.example.com/v1")
    secure = parts.scheme == "https"
    default_port = 443 if secure else 80
    return ApiAddress(host, port or default_port, secure, _authority(host, port), path, _login(parts))


def endpoint_url(base_url: str, path: str, version: str = "") -> str:
    """Where to ask. Many copy all of that into `base_url`, or the version with it, because others want it so."""
    base = base_url.rstrip("/").removesuffix(path)
    return f"{base.removesuffix(version)}{version}{path}"


def _ascii(host: str) -> str:
    """As names are looked up. That one label is too long is a ValueError here, and a surprise later."""
    return host if ":" in host else host.encode("idna").decode()


def _authority(host: str, port: int | None) -> str:
    if ":" in host:
        host = f"[{host}]"
    return host if port is None else f"{host}:{port}"


def _login(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    both = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"authorization": "Basic " + b64encode(both.encode()).decode()}


# ── default timeouts ────────────────────────────────────────────────────────────────────────────────────────
# A machine of one's own reads a question slowly, so a private address gets more time.

FIRST_BYTE_S: Final = 120.0
FIRST_BYTE_PRIVATE_S: Final = 300.0
IDLE_S: Final = 60.0  # the longest silence within an answer

_HOME_NAMES: Final = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


def first_byte_timeout(provider: str, base_url: str) -> float:
    if provider == "ollama" or is_private_address(base_url):
        return FIRST_BYTE_PRIVATE_S
    return FIRST_BYTE_S


def is_private_address(base_url: str) -> bool:
    """Whether the address is of this machine or a private network; nobody is asked, not even for a name's address."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_HOME_NAMES)


def is_loopback(base_url: str) -> bool:
    """Whether the address is of this very machine; nobody is asked, not even for a name's address."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
