"""A session that connects to addresses that were judged, and to no other: whatever a name means by then."""

import socket
import ssl
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, ip_address
from typing import Any

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from finclaw.errors import ToolDenied
from finclaw.fetch.address import Address

_AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


def pinned_session(
    addresses: Sequence[Address], timeout: ClientTimeout, tls: ssl.SSLContext | None = None
) -> ClientSession:
    """For one host, and to be closed with the answer: nothing of it, cookies or connections, is there for the next.

    Certificates and the Host header keep to the name in the address; only the way there is ours.
    """
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
                hostname=host, host=str(each), port=port, family=_family(each), proto=0, flags=socket.AI_NUMERICHOST
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


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
