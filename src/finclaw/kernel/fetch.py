"""The fetch port: one outbound request to an address that somebody else may have named, its limits and its answer."""

from collections.abc import Mapping
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct


class FetchRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which hosts may be asked. Without any, the open internet on its usual ports and nothing else."""

    allow: tuple[str, ...] = ()
    """When any stands here, nothing else is fetched: `example.com`, or `*.example.com` with all below it."""
    deny: tuple[str, ...] = ()
    """Hosts that are never fetched, written the same way. They win over all else."""
    private: tuple[str, ...] = ()
    """Hosts of your own network that may be fetched, each as `host:port`. Everybody who may chat reaches them."""
    ports: tuple[Annotated[int, Meta(ge=1, le=65_535)], ...] = (80, 443)
    """Ports of public hosts that may be asked."""
    fake_addresses: bool = False
    """Names may resolve to 198.18.0.0/15, as they do behind a proxy on this machine that makes addresses up."""


class FetchLimits(Struct, frozen=True, kw_only=True):
    seconds: float = 20.0
    """For the whole of it: waiting for the host's other requests, names, redirects, the last byte."""
    connecting: float = 10.0
    body: int = 5_000_000
    """Bytes of the answer, unpacked."""
    redirects: int = 5


class FetchRequest(Struct, frozen=True, kw_only=True):
    """One outbound request. What is not said here is not sent: no cookies, no credentials, no proxy."""

    url: str
    purpose: str
    """Who asks and what for, in a word or two, for the log: `web__fetch`, `link preview`."""
    method: Literal["GET", "POST"] = "GET"
    headers: Mapping[str, str] = {}
    """They go to the host of `url` alone: a redirect to another one leaves them behind."""
    body: bytes = b""
    accept: tuple[str, ...] = ()
    """Media types that are wanted, `image/*` for all of a kind. Empty: whatever is text. Others are never read."""
    limits: FetchLimits = FetchLimits()


class FetchReply(Struct, frozen=True, kw_only=True):
    """An answer, whatever its status: only what the limits or the rules forbid is an error."""

    status: int
    url: str
    """Where it was found, after all redirects."""
    host: str
    media_type: str
    charset: str
    """As the header has it; empty when it has none."""
    body: bytes
    truncated: bool
    headers: Mapping[str, str]
    """By name in lower case; the first of a name counts."""
    revalidated: bool = False
    """The server said that what it gave before still holds, and it was not sent again."""


class Fetcher(Protocol):
    """The one way to an address that a person, a model or a page has named. Nobody closes it: it holds no connection.

    Private addresses are never asked, whatever a name, a redirect or a later look-up says. Few requests go to one host
    at a time; the others wait, within their own limit of time. An answer with an ETag or a date is kept for a while,
    and the next GET asks only whether it still holds.
    """

    async def fetch(self, request: FetchRequest) -> FetchReply:
        """Raises ToolDenied for what the rules forbid, ToolTimeout, or ToolError for what could not be had."""
        ...
