"""A block on network access: inside it, every connection and name lookup fails at once, also to this machine."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_REACHES = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname")


@contextmanager
def block_network() -> Generator[None]:
    """By an audit hook, which the interpreter itself calls: no library gets around it. Child processes are not held."""
    inside = True

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        if inside and event in _REACHES:
            raise OSError("a replay reaches no network")

    sys.addaudithook(refuse)  # it cannot be taken away again; behind the block it does nothing
    try:
        yield
    finally:
        inside = False
