"""What extensions add to the gateway's doors: paths that they serve, and commands that people may type."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

from msgspec import Struct

Method = Literal["GET", "POST"]


class RouteRequest(Struct, frozen=True, kw_only=True):
    """A request that has passed the door: `principal` is who the token belongs to."""

    principal: str
    query: Mapping[str, str]
    body: bytes


class RouteReply(Struct, frozen=True, kw_only=True):
    body: bytes
    status: int = 200
    content_type: str = "application/json"


class ExtensionRoute(Struct, frozen=True, kw_only=True):
    extension: str
    method: Method
    path: str
    """Without a slash at either end."""
    handle: Callable[[RouteRequest], Awaitable[RouteReply]]
