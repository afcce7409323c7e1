"""The address of a running gateway: `gateway.json` in the state directory, there while it runs.

The file is no lock: after a crash it names an address where nobody listens, or another program. A client asks for a
proof first (`cli/client.py`).
"""

import json
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from finclaw.clock import SystemClock
from finclaw.errors import StateBusy

if TYPE_CHECKING:
    from finclaw.cli.client import GatewayClient

T = TypeVar("T")
FILE_NAME = "gateway.json"
_PAUSE: Final = 0.1


class Address(NamedTuple):
    """The address of a gateway on this machine, and its process."""

    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


class _GatewayFile(msgspec.Struct):
    url: str
    pid: int


@contextmanager
def announce_gateway(state: Path, url: str) -> Generator[None]:
    """Inside, other commands find the gateway."""
    path, aside = state / FILE_NAME, state / f".{FILE_NAME}.{os.getpid()}"
    opened = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(opened, "w", encoding="ascii") as file:
        json.dump({"url": url, "pid": os.getpid()}, file)
    os.replace(aside, path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def read_address(state: Path) -> Address | None:
    """None if there is no such file, or one that no gateway of ours can have written."""
    try:
        written = msgspec.json.decode((state / FILE_NAME).read_bytes(), type=_GatewayFile)
    except (OSError, msgspec.DecodeError):
        return None
    # The token goes to this address, so it has to be one of this machine, whatever the file says.
    place = re.fullmatch(r"http://(127\.[0-9.]+|\[::1\]):([0-9]{1,5})", written.url)
    if place is None or int(place[2]) > 65_535:
        return None
    return Address(place[1].strip("[]"), int(place[2]), written.pid)


def find_running(state: Path) -> "GatewayClient | None":
    """The gateway that runs on this state; None if there is none."""
    if read_address(state) is None:
        return None
    from finclaw.cli.client import find_gateway  # noqa: PLC0415  the HTTP client costs 20 ms; mostly none runs

    return find_gateway(state)


def retry_while_busy(reach: Callable[[], T], patience: float) -> T:
    """Call it until it does not raise StateBusy. Raises the last StateBusy when the seconds are over."""
    clock = SystemClock()
    give_up = clock.monotonic() + patience
    while True:
        try:
            return reach()
        except StateBusy:
            if clock.monotonic() > give_up:
                raise
        time.sleep(_PAUSE)
