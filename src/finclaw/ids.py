"""Identifiers: those drawn for messages and turns, and those of people, by the channel on which they write."""

import itertools
import os
from functools import lru_cache
from typing import Final

_process = os.urandom(10).hex()
_count: Final = itertools.count()


def _draw_process() -> None:
    global _process  # noqa: PLW0603  a forked child that drew its parent's next id would be taken for a repetition
    _process = os.urandom(10).hex()


os.register_at_fork(after_in_child=_draw_process)


def new_id() -> str:
    """Unique in the world, and no secret: asking the system for randomness each time costs 35 µs on some machines."""
    return f"{_process}{next(_count):012x}"


def drawn_after(mark: str, given: str) -> bool:
    """Whether an id was drawn by this process after that mark of ours: then nothing older can have it."""
    return given > mark and given.startswith(_process) and len(given) == len(mark)


@lru_cache(maxsize=1_024)
def identity(channel: str, account: str, sender: str) -> str:
    """One person in one channel: `channel:account:sender-id`. Two channels never make the same one."""
    return f"{_escape(channel)}:{_escape(account)}:{sender}"


def parts_of(who: str) -> tuple[str, str, str]:
    """The inverse of `identity`: channel, account, sender."""
    channel, account, sender = who.split(":", 2)
    return _unescape(channel), _unescape(account), sender


def _unescape(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")
