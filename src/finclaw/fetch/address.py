"""Public and private addresses. The table is our own: what the interpreter believes changes with its version."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address

# fmt: off
_CLOSED_V4: Final = tuple(map(IPv4Network, (
    "0.0.0.0/8",            # this network; Linux connects 0.0.0.0 to itself
    "10.0.0.0/8",           # private
    "100.64.0.0/10",        # behind a carrier's NAT; Alibaba's metadata is 100.100.100.200
    "127.0.0.0/8",          # loopback
    "168.63.129.16/32",     # Azure's metadata and DNS, though the number is a public one
    "169.254.0.0/16",       # link-local, and most clouds' metadata
    "172.16.0.0/12",        # private
    "192.0.0.0/24",         # protocol assignments; Oracle's metadata is 192.0.0.192
    "192.0.2.0/24",         # documentation
    "192.88.99.0/24",       # 6to4 relays, withdrawn
    "192.168.0.0/16",       # private
    "198.18.0.0/15",        # benchmarks, and what proxies with made-up addresses answer
    "198.51.100.0/24",      # documentation
    "203.0.113.0/24",       # documentation
    "224.0.0.0/4",          # multicast
    "240.0.0.0/4",          # reserved, and broadcast
)))
_OPEN_V6: Final = IPv6Network("2000::/3")
"""All of IPv6 that was ever given out for use on the internet. Mapped, local and multicast addresses are outside."""
_CLOSED_V6: Final = tuple(map(IPv6Network, (
    "2001::/23",            # protocol assignments: Teredo, ORCHID, benchmarks
    "2001:db8::/32",        # documentation
    "2002::/16",            # 6to4 carries an IPv4 address, whichever its writer likes
    "3fff::/20",            # documentation
)))
_INTRANET: Final = tuple(map(IPv4Network, (
    "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15",
)))
_INTRANET_V6: Final = (IPv6Network("::1/128"), IPv6Network("fc00::/7"))
_METADATA: Final = frozenset(map(ip_address, ("100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254")))
# fmt: on
_NAT64: Final = IPv6Network("64:ff9b::/96")
_MADE_UP: Final = IPv4Network("198.18.0.0/15")
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""Before the last 32 bits: those are an IPv4 address to tunnel to."""


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _CLOSED_V4)
    if address.scope_id is not None:  # it means something on one cable only
        return False
    if address in _NAT64:  # how a network without IPv4 reaches it: the answer of every name there
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _OPEN_V6 and not _is_special(address)


def is_intranet(address: Address) -> bool:
    """What an operator may open by name. Never a cloud's metadata, nor what only neighbours on the cable can mean."""
    if address in _METADATA:
        return False
    if isinstance(address, IPv4Address):
        return any(address in network for network in _INTRANET)
    return address.scope_id is None and any(address in network for network in _INTRANET_V6)


def is_made_up(address: Address) -> bool:
    """What a proxy on this machine answers instead of a name's true address, to know the connection by it."""
    return isinstance(address, IPv4Address) and address in _MADE_UP


def read_addresses(answer: Sequence[str]) -> tuple[Address, ...]:
    """Each once, in the order of the answer. Raises ValueError for what is none."""
    return tuple(dict.fromkeys(ip_address(each) for each in answer))


def _is_special(address: IPv6Address) -> bool:
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        return True
    return any(address in network for network in _CLOSED_V6)
