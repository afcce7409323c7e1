"""Default timeouts: how long an answer may take to begin, and how long it may pause.

A machine of one's own reads a question slowly, so a private address gets more time.
"""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

FIRST_BYTE_S: Final = 120.0
FIRST_BYTE_PRIVATE_S: Final = 300.0
IDLE_S: Final = 60.0
"""The longest silence within an answer."""

_HOME_NAMES: Final = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


def first_byte_timeout(provider: str, base_url: str) -> float:
    """Seconds until the first byte must have come."""
    return FIRST_BYTE_PRIVATE_S if provider == "ollama" or is_private_address(base_url) else FIRST_BYTE_S


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
