"""Settings of MCP servers, and the environment that a server gets."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from finclaw.errors import ExtensionError, ToolDenied
from finclaw.fetch.location import read_location
from finclaw.redaction import Secret, is_secret_name, remember_secret, remember_secrets_in_address

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,31}$")]
"""No underscore: `name__tool` can be read in one way only."""

_INHERITED: Final = ("PATH", "HOME", "LANG")
_REFERENCE: Final = "env:"
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    command: tuple[str, ...] = ()
    """The program and its arguments, each an entry of its own: no shell reads them."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Variables for the program, beside PATH, HOME and LANG; `env:NAME` takes over one of ours."""
    url: str = ""
    """Instead of a command: where the server answers over HTTP."""
    headers: dict[str, Secret] = field(default_factory=dict[str, Secret])
    """Headers for the server at `url`, each as `env:NAME` or `file:PATH`: a secret does not stand in this file."""
    private: bool = False
    """The server at `url` is in your own network. Without it, a name that leads there is not connected to."""

    def check(self, name: str) -> None:
        """Raises ExtensionError for what could never work."""
        if bool(self.command) == bool(self.url):
            raise ExtensionError(f"server {name!r} needs either a `command` or a `url`; give one of them")
        if self.command and self.headers:
            raise ExtensionError(f"server {name!r} has a command, so its `headers` go nowhere; use `env`")
        if self.url and self.env:
            raise ExtensionError(f"server {name!r} has a url, so its `env` goes nowhere; use `headers`")
        if self.command and self.private:
            raise ExtensionError(f"server {name!r} has a command, so `private` says nothing; leave it out")
        if self.url and not _is_web_address(self.url):
            raise ExtensionError(f"server {name!r}: its `url` must be https://HOST/PATH or http://HOST/PATH")
        for header in self.headers:
            if not _HEADER.fullmatch(header):
                raise ExtensionError(f"server {name!r}: {header!r} is no header; write `Authorization: env:NAME`, say")


class McpSettings(Struct, frozen=True, forbid_unknown_fields=True):
    servers: dict[Name, ServerSettings] = field(default_factory=dict[str, ServerSettings])
    """The servers, under names of your own: the tool `now` of the server `clock` is `clock__now` here."""
    tools: tuple[str, ...] = ("*",)
    """Which tools are let in, as patterns of their names here, such as `clock__*`."""
    pin: Literal["first", "ask"] = "first"
    """A tool that was never seen: `first` trusts it as it is then, `ask` leaves it out until you approve it."""
    timeout: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """Seconds for one call."""
    largest: Annotated[int, Meta(ge=10_000, le=100_000_000)] = 4_000_000
    """Bytes of one message of a server. One that sends more is ended, and started again later."""
    patience: Annotated[float, Meta(gt=0, le=30)] = 5.0
    """Seconds for which the first turns wait for servers that are still starting."""

    def check(self) -> None:
        for name, server in self.servers.items():
            server.check(name)


def environment(server: ServerSettings, ours: Mapping[str, str]) -> dict[str, str]:
    """All that a server's program gets of our environment. Raises ExtensionError for a variable that is not set."""
    inherited = {name: ours[name] for name in _INHERITED if name in ours}
    return inherited | {name: _resolve_reference(name, value, ours) for name, value in server.env.items()}


def request_headers(server: ServerSettings) -> dict[str, str]:
    remember_secrets_in_address(server.url)
    return {name: value.reveal() for name, value in server.headers.items()}


def _resolve_reference(variable: str, value: str, ours: Mapping[str, str]) -> str:
    if not value.startswith(_REFERENCE):
        if is_secret_name(variable):
            remember_secret(value)
        return value
    name = value.removeprefix(_REFERENCE)
    if not ours.get(name):
        raise ExtensionError(f"the environment variable {name} is not set; set it, and start the gateway again")
    remember_secret(ours[name])
    return ours[name]


def _is_web_address(url: str) -> bool:
    """As it will be read when it is connected to, and in no other way."""
    try:
        read_location(url)
    except ToolDenied:
        return False
    return True
