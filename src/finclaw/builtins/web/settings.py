"""Settings of web fetching."""

from typing import Annotated

from msgspec import Meta, Struct


class WebFetchSettings(Struct, frozen=True, forbid_unknown_fields=True):
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
    longest: Annotated[int, Meta(ge=1_000, le=90_000)] = 40_000
    """Characters of a page that the model is given."""
