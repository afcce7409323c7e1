"""Whether the system gathers what comes over a line until it is enough, and tells us at once when less will do."""

import select
import sys
from functools import cache
from socket import IPPROTO_TCP, SO_RCVLOWAT, SOL_SOCKET, TCP_NODELAY, create_connection, create_server, socket

ENOUGH = 16_384
"""Bytes of which the system tells us all the same at once."""


def gather(line: socket, least: int) -> None:
    """Be told of so many bytes only. Raises OSError or, where uvloop has it, ValueError for a line that is closed."""
    line.setsockopt(SOL_SOCKET, SO_RCVLOWAT, least)


@cache
def can_gather() -> bool:
    """Tried once, because who believes a system that forgets to tell waits for words that are there."""
    if sys.platform != "linux":
        return False
    try:
        with create_server(("127.0.0.1", 0)) as server, create_connection(server.getsockname()) as ours:
            theirs, _ = server.accept()
            with theirs, select.epoll() as watch:
                return _tells(ours, theirs, watch)
    except OSError:
        return False


def _tells(ours: socket, theirs: socket, watch: select.epoll) -> bool:
    theirs.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
    watch.register(ours, select.EPOLLIN)
    gather(ours, ENOUGH)
    theirs.send(b"word")
    heard_too_soon = watch.poll(0)
    gather(ours, 1)
    return not heard_too_soon and bool(watch.poll(0))
