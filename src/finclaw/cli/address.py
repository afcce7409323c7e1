"""Where a running gateway can be reached: `gateway.json` in the state directory, there while it runs.

It is a signpost and not a lock: after a crash it points nowhere, or at a stranger. Whoever follows it asks for a
proof first (`cli/client.py`).
"""

import json
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

FILE_NAME = "gateway.json"


class Address(NamedTuple):
    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


class _Signpost(msgspec.Struct):
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
    """None if there is no signpost, or one that no gateway of ours can have written."""
    try:
        signpost = msgspec.json.decode((state / FILE_NAME).read_bytes(), type=_Signpost)
    except (OSError, msgspec.DecodeError):
        return None
    # The token goes to this address, so it has to be one of this machine, whatever the file says.
    place = re.fullmatch(r"http://(127\.[0-9.]+|\[::1\]):([0-9]{1,5})", signpost.url)
    if place is None or int(place[2]) > 65_535:
        return None
    return Address(place[1].strip("[]"), int(place[2]), signpost.pid)
