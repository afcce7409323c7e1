"""A process and all that it has started: what has fled into a session of its own is found by its parents.

On Linux, whose orphans come back to an ancestor that asks for them. Elsewhere a process group is all there is.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

KNOWS_FAMILIES: Final = sys.platform == "linux"
_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_CHILD_SUBREAPER: Final = 36
_ROUNDS: Final = 200
"""Looks for somebody who is left. One who is born while we look is found by the next."""
_PAUSE: Final = 0.002


def adopt_orphans() -> None:
    """From now on whoever descends from this process is its child again when those between are gone."""
    _control(_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """From now on. One whose parent has died before it could ask for this ends here."""
    _control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end_descendants(root: int) -> None:
    """All below `root`, which must adopt orphans and must outlive this; `root` itself goes on."""
    for _ in range(_ROUNDS):
        living = living_descendants(root)
        if not living:
            return
        for each in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        time.sleep(_PAUSE)


def living_descendants(root: int) -> set[int]:
    """Without the dead whom nobody has asked for yet."""
    return {each.id for each in _descendants(root)}


def relatives(root: int) -> Sequence["Relative"]:
    """For a `root` that adopts nobody: who must be known before it goes, for their parents are not known after."""
    return tuple(_descendants(root)) if KNOWS_FAMILIES else ()


def end_relatives(known: Iterable["Relative"]) -> None:
    """Those who still live. Another process that has got the number of a dead one was born later, and is let alone."""
    for each in known:
        now = _look_at(each.id)
        if now is not None and now.born == each.born:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each.id, signal.SIGKILL)


class Relative(NamedTuple):
    id: int
    state: str
    parent: int
    born: int


def _descendants(root: int) -> Iterator[Relative]:
    children: dict[int, list[Relative]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (each := _look_at(int(name))) is not None:
            children.setdefault(each.parent, []).append(each)
    looking = [root]
    while looking:
        below = children.pop(looking.pop(), [])
        looking += (each.id for each in below)
        yield from (each for each in below if each.state not in ("Z", "X"))


def _look_at(id: int) -> Relative | None:
    try:
        with open(f"/proc/{id}/stat", "rb") as file:
            told = file.read()
    except OSError:
        return None  # gone since we looked
    rest = told.rpartition(b")")[2].split()  # a program may have any name, also one with brackets
    return Relative(id, rest[0].decode(), int(rest[1]), int(rest[19]))


def _control(option: int, value: int) -> None:
    if KNOWS_FAMILIES:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
