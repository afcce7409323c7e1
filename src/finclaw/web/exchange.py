"""Requests and replies of the API's routes, as values that no server is needed for.

The HTTP server hands requests in (`web/auth.py`), and so does the command line where no gateway runs
(`cli/attach.py`), which must not load aiohttp: most of its commands would start twice as slowly.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from finclaw.web.errors import ApiError
from finclaw.web.principal import Principal, Scope

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


class ApiRequest(Struct, frozen=True, kw_only=True):
    """An authenticated request, read to its end."""

    path_values: Mapping[str, str] = {}
    """Parts of the path, by their names in the route."""
    query: Mapping[str, str] = {}
    content_type: str = "application/json"
    body: bytes = b""


class ApiReply(Struct, frozen=True, kw_only=True):
    body: bytes
    status: int = 200
    content_type: str = "application/json"


Handler = Callable[[ApiRequest, Principal], Awaitable[ApiReply]]


class HttpRoute(NamedTuple):
    method: str
    path: str
    scope: Scope
    handler: Handler
    max_body: int | None = None
    """Bytes of its body, if it may be larger than that of other requests."""


def json_reply(data: object, status: int = 200) -> ApiReply:
    return ApiReply(body=_encode(data), status=status)


def read_json(request: ApiRequest, kind: type[T], empty: bytes = b"") -> T:
    """Decode the body. `empty` is what a request without a body counts as. Raises ApiError."""
    if request.content_type != "application/json":
        raise ApiError(415, "not_json", "send JSON, with the header `Content-Type: application/json`")
    try:
        return msgspec.json.decode(request.body or empty, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:  # its message names the field
        raise ApiError(400, "bad_request", f"the body does not fit: {error}") from error


def read_count(request: ApiRequest, name: str, default: int, most: int = 500) -> int:
    """Return a whole number of the query, from 1 on. Raises ApiError."""
    text = request.query.get(name, str(default))
    if not re.fullmatch("[1-9][0-9]{0,3}", text) or int(text) > most:
        raise ApiError(400, "bad_request", f"{name} must be a whole number from 1 to {most}")
    return int(text)
