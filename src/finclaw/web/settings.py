"""The settings of the HTTP server."""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated

from msgspec import Meta

from finclaw.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class WebServerSettings:
    """Settings of the HTTP server: where it listens, and how much of a request it takes."""

    host: str = "127.0.0.1"
    """A loopback address. Whoever can reach the port and has the token speaks as the owner."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8787
    """0 takes any free port; `finclaw status` says which."""
    max_body: Annotated[int, Meta(ge=1_024)] = 1_048_576
    """Bytes of one request."""
    wait_limit: Annotated[float, Meta(ge=0)] = 60.0
    """Seconds for which `?wait=` may hold a request open."""
    impersonate: bool = False
    """Messages with a `sender` label get the token's roles. Only for a token whose holder vouches for the labels."""

    def __post_init__(self) -> None:
        if not _is_loopback(self.host):
            raise ConfigError(
                f"web.host is {self.host!r}, but the gateway listens on this machine only, because the token travels "
                "unencrypted; use 127.0.0.1, ::1 or localhost, and reach it from elsewhere through an SSH tunnel"
            )

    @property
    def address(self) -> str:
        """What to bind: `localhost` may name two addresses, and a server should listen on one it can name."""
        return "127.0.0.1" if self.host == "localhost" else self.host


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
