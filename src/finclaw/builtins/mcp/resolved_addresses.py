"""Resolved addresses of an MCP server: its name is looked up once and judged as for any page, and held to from then on.

A public name that leads into our own network is a trick. A server of one's own is one whose address says so, as
`localhost` and `10.0.0.5` do, or whose settings do.
"""

from dataclasses import dataclass

from finclaw.builtins.mcp.settings import ServerSettings
from finclaw.builtins.mcp.transport import ServerLost
from finclaw.errors import ToolDenied, ToolError
from finclaw.fetch.address import Address
from finclaw.fetch.gate import AddressGate, Resolve, look_up
from finclaw.fetch.location import Location, read_location
from finclaw.kernel.fetch import FetchRules

_OURSELVES = "localhost"


@dataclass(frozen=True, slots=True)
class ResolvedAddresses:
    """Addresses of a server: nothing but these is connected to while the connection lasts."""

    location: Location
    addresses: tuple[Address, ...]


async def find(server: ServerSettings, resolve: Resolve = look_up) -> ResolvedAddresses:
    """Raises ServerLost."""
    location = read_location(server.url)
    is_own = server.private or location.address is not None or location.host == _OURSELVES
    own = (f"{location.written_host}:{location.port}",) if is_own else ()
    gate = AddressGate(FetchRules(private=own, ports=(location.port,)), resolve=resolve)
    try:
        addresses = await gate.addresses(location)
    except ToolDenied as error:
        raise ServerLost(_refusal(location, is_own=is_own)) from error
    except ToolError as error:
        raise ServerLost(str(error)) from error
    if location.host == _OURSELVES and not all(address.is_loopback for address in addresses):
        raise ServerLost("`localhost` leads to another machine here; write 127.0.0.1 in its `url`")
    return ResolvedAddresses(location, addresses)


def _refusal(location: Location, *, is_own: bool) -> str:
    if is_own:
        return f"{location.host} leads to an address that is nobody's server, such as a cloud's metadata"
    return f"{location.host} is not on the open internet; if that server is your own, set `private: true` for it"
