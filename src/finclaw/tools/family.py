"""A process and all that it has started, also what has fled into a session of its own and away from its parents.

On Linux two things find them. Orphans come back to an ancestor that asks for them, the warden. And all of them bear a
mark, for a tool may kill its warden: two limits that do nothing any more, at nought, which everybody inherits and only
the system's administrator can raise. Who has both and no warden is a stray. What other services start for a tool, as
`systemd-run` does, is not found. Elsewhere a process group is all there is: who leaves it escapes.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

KNOWS_FAMILIES: Final = sys.platform == "linux"
_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_DUMPABLE: Final = 4
_SET_CHILD_SUBREAPER: Final = 36
_MARK: Final = {
    5: b"Max resident set          0                    0 ",
    10: b"Max file locks            0                    0 ",
}
"""RLIMIT_RSS and RLIMIT_LOCKS, as a process's limits are told: nothing has looked at them since Linux 2.4. Both,
because one of them at nought could be somebody else's doing, and we kill by this."""
_ROUNDS: Final = 200
"""Looks for somebody who is left. One who is born while we look is found by the next."""
_PAUSE: Final = 0.002


def adopt_orphans() -> None:
    """From now on whoever descends from this process is its child again when those between are gone."""
    _control(_SET_CHILD_SUBREAPER, 1)


def let_nobody_in(*, closed: bool = True) -> None:
    """Its memory is nobody else's to read or write, as a debugger does; only what runs as root still may."""
    _control(_SET_DUMPABLE, 0 if closed else 1)


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """From now on. One whose parent has died before it could ask for this ends here."""
    _control(_SET_PARENT_DEATH_SIGNAL, by)
    if os.getppid() != parent:
        os._exit(1)


def bear_the_mark() -> None:
    """For good, and all who descend from this process."""
    if KNOWS_FAMILIES:
        import resource  # noqa: PLC0415  not on every system

        for limit in _MARK:
            resource.setrlimit(limit, (0, 0))


def end_descendants(root: int) -> None:
    """All below `root`, which must adopt orphans and must outlive this; `root` itself goes on."""
    _end_all(lambda each, known: root in known.above(each))


def end_strays() -> None:
    """Whoever bears the mark and has lost their warden: orphans then belong to somebody above us, or to us.

    The families of other gateways have their own wardens and are let alone.
    """
    if not KNOWS_FAMILIES or _Known().is_marked(os.getpid()):  # in a family ourselves: who started us will end it
        return
    _end_all(_is_stray)
    _bury_adopted()


@cache
def end_strays_of_the_dead() -> None:
    """Once: of a gateway that was killed together with its wardens."""
    end_strays()


def living_descendants(root: int) -> set[int]:
    """Without the dead whom nobody has asked for yet."""
    known = _Known()
    return {each.id for each in _everybody(known) if root in known.above(each)}


class _Relative(NamedTuple):
    id: int
    state: str
    parent: int

    @property
    def lives(self) -> bool:
        """Not so one whose end nobody has asked for yet."""
        return self.state not in ("Z", "X")


class _Known:
    """What one look at the processes has shown so far."""

    def __init__(self) -> None:
        self._seen: dict[int, _Relative | None] = {}

    @property
    def dead(self) -> set[int]:
        return {id for id, each in self._seen.items() if each is None or not each.lives}

    def find(self, id: int) -> _Relative | None:
        if id not in self._seen:
            self._seen[id] = _look_at(id)
        return self._seen[id]

    def is_marked(self, id: int) -> bool:
        told = _read(f"/proc/{id}/limits")
        if not told:
            self._seen[id] = None
        return bool(told) and all(each in told for each in _MARK.values())

    def above(self, one: _Relative) -> list[int]:
        """Its ancestors, the nearest first."""
        found: list[int] = []
        at: _Relative | None = one
        while at is not None and at.parent and at.parent not in found:  # a number may have been given anew meanwhile
            found.append(at.parent)
            at = self.find(at.parent)
        return found


def _is_stray(each: _Relative, known: _Known) -> bool:
    if not known.is_marked(each.id):
        return False
    unmarked = next((id for id in known.above(each) if not known.is_marked(id)), None)
    here = known.find(os.getpid())
    # The first process by its number: who is above us may be hidden from us.
    return here is not None and unmarked in (1, here.id, *known.above(here))


def _end_all(are_meant: Callable[[_Relative, _Known], bool]) -> None:
    """Until a look finds nobody, and nobody who has died under our eyes: in a relay each has a child and goes."""
    dead: set[int] = set()
    for _ in range(_ROUNDS):
        known = _Known()
        found = [_end(each) for each in _everybody(known) if are_meant(each, known)]  # each as soon as it is seen
        if not found and known.dead <= dead:
            return
        dead = known.dead
        time.sleep(_PAUSE if found else 0)


def _end(one: _Relative) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(one.id, signal.SIGKILL)


def _bury_adopted() -> None:
    """In a container we may be the first process, to whom all orphans come. Children of our own bear no mark."""
    known = _Known()
    for each in filter(None, map(known.find, _ids())):
        if each.parent == os.getpid() and not each.lives and known.is_marked(each.id):
            with suppress(ChildProcessError):
                os.waitpid(each.id, os.WNOHANG)


def _everybody(known: _Known) -> Iterator[_Relative]:
    """Who lives, the newest first."""
    for id in _ids():
        each = known.find(id)
        if each is not None and each.lives:
            yield each


def _ids() -> list[int]:
    return sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)


def _look_at(id: int) -> _Relative | None:
    told = _read(f"/proc/{id}/stat")
    if not told:
        return None
    rest = told.rpartition(b")")[2].split()  # a program may have any name, also one with brackets
    return _Relative(id, rest[0].decode(), int(rest[1]))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(8_192) or b""
    except OSError:
        return b""  # gone since we looked


def _control(option: int, value: int) -> None:
    if KNOWS_FAMILIES:
        import ctypes  # noqa: PLC0415  needed only by whoever has a family

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
