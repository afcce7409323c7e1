"""SSRF checks: whether a location may be asked, and at which addresses. Nothing else is connected to."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from finclaw.errors import ExtensionError, ToolDenied, ToolError
from finclaw.fetch.address import Address, is_intranet, is_made_up, is_public, read_addresses
from finclaw.fetch.location import Location, read_host, read_host_and_port
from finclaw.kernel.fetch import FetchRules

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""A name's addresses, as text. Raises OSError when there are none."""

# fmt: off
_INSIDE: Final = frozenset({
    "arpa", "corp", "home", "internal", "intranet", "invalid", "lan", "local", "localdomain", "localhost", "onion",
    "private", "test",
})
# fmt: on
"""Last labels that mean something inside a network only, whatever a resolver says."""
_MOST: Final = 16
"""Addresses of one name that are judged. Of more, none is trusted."""

_LOOKING_UP: Final = ThreadPoolExecutor(8, "finclaw-names")
"""A name server that hangs keeps a thread for as long as it likes: not one of those that everybody shares."""


async def look_up(name: str, port: int) -> Sequence[str]:
    ask = partial(socket.getaddrinfo, name, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    found = await asyncio.get_running_loop().run_in_executor(_LOOKING_UP, ask)
    return [str(address[0]) for *_, address in found]


class AddressGate:
    def __init__(
        self,
        rules: FetchRules | None = None,
        *,
        resolve: Resolve = look_up,
        public: Callable[[Address], bool] = is_public,
    ) -> None:
        """Raises ExtensionError for a host in the rules that is none."""
        rules = rules or FetchRules()
        self._allowed = _Hosts("allow", rules.allow)
        self._denied = _Hosts("deny", rules.deny)
        self._private = frozenset(map(_read_private, rules.private))
        self._ports = frozenset(rules.ports)
        self._fake_addresses = rules.fake_addresses
        self._resolve = resolve
        self._public = public

    def is_private(self, location: Location) -> bool:
        return (location.host, location.port) in self._private

    async def addresses(self, location: Location) -> tuple[Address, ...]:
        """Where it may be asked; the name is looked up once, here. Raises ToolDenied, or ToolError for no answer."""
        self._check(location)
        found = (location.address,) if location.address is not None else await self._look_up(location)
        if not all(self._may_be_asked(location, each) for each in found):
            raise ToolDenied(
                f"{location.host} is not on the open internet, so it is not fetched; look for a public source"
            )
        return found

    def _check(self, location: Location) -> None:
        if self._denied.contain(location.host):
            raise ToolDenied(f"{location.host} is on this gateway's list of denied hosts; look for another source")
        if self.is_private(location):
            return
        if self._allowed and not self._allowed.contain(location.host):
            raise ToolDenied(f"{location.host} is not on this gateway's list of allowed hosts; look for another source")
        if location.port not in self._ports:
            ports = ", ".join(map(str, sorted(self._ports)))
            raise ToolDenied(f"port {location.port} is not asked, only {ports}; leave the port out")
        if location.address is None and _is_inside(location.host):
            raise ToolDenied(f"{location.host} is a name of a local network, so it is not fetched; give a public one")

    async def _look_up(self, location: Location) -> tuple[Address, ...]:
        # The last dot keeps a resolver from trying the name inside the machine's own domain.
        name = f"{location.host}."
        if self.is_private(location):
            name = location.host
        try:
            found = read_addresses(await self._resolve(name, location.port))
        except (OSError, UnicodeError) as error:
            raise ToolError(f"the host {location.host} was not found; check the address") from error
        except ValueError as error:
            raise ToolDenied(f"{location.host} has an address that cannot be read; look for another source") from error
        if not found:
            raise ToolError(f"the host {location.host} has no address; check it")
        if len(found) > _MOST:
            raise ToolDenied(f"{location.host} has more addresses than an honest host; look for another source")
        return found

    def _may_be_asked(self, location: Location, address: Address) -> bool:
        if self._public(address):
            return True
        if self._fake_addresses and location.address is None and is_made_up(address):
            return True
        return self.is_private(location) and is_intranet(address)


class _Hosts:
    def __init__(self, setting: str, patterns: Iterable[str]) -> None:
        self._exact: set[str] = set()
        self._with_all_below: set[str] = set()
        for pattern in patterns:
            host = _read_setting(setting, pattern.removeprefix("*."))
            if pattern.startswith("*."):
                self._with_all_below.add(host)
            else:
                self._exact.add(host)

    def __bool__(self) -> bool:
        return bool(self._exact or self._with_all_below)

    def contain(self, host: str) -> bool:
        if host in self._exact:
            return True
        labels = host.split(".")
        return any(".".join(labels[start:]) in self._with_all_below for start in range(len(labels)))


def _is_inside(host: str) -> bool:
    first, dot, _ = host.partition(".")
    return not dot or not first or host.rpartition(".")[2] in _INSIDE


def _read_setting(setting: str, host: str) -> str:
    try:
        if ":" in host:
            return read_host(f"[{host}]")
        return read_host(host)
    except ToolDenied as error:
        raise ExtensionError(f"`{setting}` holds {host!r}, which is no host; write example.com and no port") from error


def _read_private(text: str) -> tuple[str, int]:
    try:
        host, port = read_host_and_port(text)
    except ToolDenied as error:
        raise ExtensionError(f"`private` holds {text!r}, which cannot be read; write host:port") from error
    if port is None:
        raise ExtensionError(f"`private` holds {text!r} without a port; write {host}:443, for one")
    return host, port
