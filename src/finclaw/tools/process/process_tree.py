"""A process tree: a process and all that it has started, also what has fled into a session of its own.

On Linux two things find its members. Orphans are reparented to an ancestor that is a subreaper, the supervisor. And all
of them have the marker rlimits, for a tool may kill its supervisor: two limits without any effect, set to 0, which
children inherit and only the system's administrator can raise. A process that has both and no supervisor is an orphan.
What other services start for a tool, as `systemd-run` does, is not found. On other systems a process group is all there
is: a process that leaves it escapes.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

HAS_PROCESS_TREE: Final = sys.platform == "linux"
_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_DUMPABLE: Final = 4
_SET_CHILD_SUBREAPER: Final = 36
_MARKER_RLIMITS: Final = {
    5: b"Max resident set          0                    0 ",
    10: b"Max file locks            0                    0 ",
}
"""RLIMIT_RSS and RLIMIT_LOCKS with their lines in /proc/PID/limits: nothing has looked at them since Linux 2.4. Both,
because one of them at 0 could be somebody else's doing, and we kill by this."""
_MOST_SCANS: Final = 200  # a process that is started during one is found by the next
_PAUSE: Final = 0.002


def become_subreaper() -> None:
    """From now on a descendant of this process becomes its child when the processes between are gone."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def set_dumpable(*, dumpable: bool) -> None:
    """Without it no other process reads or writes the memory of this one, as a debugger does; only root still may."""
    _prctl(_SET_DUMPABLE, 1 if dumpable else 0)


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """From now on. A process whose parent has died before it could ask for this ends here."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, by)
    if os.getppid() != parent:
        os._exit(1)


def set_marker_rlimits() -> None:
    """For good, and for all descendants of this process."""
    if HAS_PROCESS_TREE:
        import resource  # noqa: PLC0415  optional: not on every system

        for limit in _MARKER_RLIMITS:
            resource.setrlimit(limit, (0, 0))


def kill_descendants(root: int) -> None:
    """All below `root`, which must be a subreaper and must outlive this; `root` itself goes on."""
    _kill_all(lambda each, processes: root in processes.ancestors(each))


def kill_orphans() -> None:
    """Kill marked processes that lost their supervisor, and leave other gateways' trees alone."""
    if not HAS_PROCESS_TREE or _Processes().is_marked(os.getpid()):  # in a tree ourselves: its supervisor will kill it
        return
    _kill_all(_is_orphan)
    _reap_adopted()


@cache
def kill_orphans_of_dead_gateways() -> None:
    """Once: of a gateway that was killed together with its supervisors."""
    kill_orphans()


def living_descendants(root: int) -> set[int]:
    """Without zombies."""
    processes = _Processes()
    return {each.id for each in _list_living(processes) if root in processes.ancestors(each)}


class _Process(NamedTuple):
    id: int
    state: str
    parent: int

    @property
    def is_alive(self) -> bool:
        return self.state not in ("Z", "X")


class _Processes:
    """A cache of what one scan of /proc has read so far."""

    def __init__(self) -> None:
        self._read: dict[int, _Process | None] = {}

    @property
    def dead(self) -> set[int]:
        return {id for id, each in self._read.items() if each is None or not each.is_alive}

    def find(self, id: int) -> _Process | None:
        if id not in self._read:
            self._read[id] = _read_stat(id)
        return self._read[id]

    def is_marked(self, id: int) -> bool:
        limits = _read_file(f"/proc/{id}/limits")
        if not limits:
            self._read[id] = None
        return bool(limits) and all(each in limits for each in _MARKER_RLIMITS.values())

    def ancestors(self, process: _Process) -> list[int]:
        """The nearest first."""
        found: list[int] = []
        at: _Process | None = process
        while at is not None and at.parent and at.parent not in found:  # an id may have been given anew meanwhile
            found.append(at.parent)
            at = self.find(at.parent)
        return found


def _is_orphan(process: _Process, processes: _Processes) -> bool:
    if not processes.is_marked(process.id):
        return False
    unmarked = next((id for id in processes.ancestors(process) if not processes.is_marked(id)), None)
    here = processes.find(os.getpid())
    # The first process by its number: our own ancestors may be hidden from us.
    return here is not None and unmarked in (1, here.id, *processes.ancestors(here))


def _kill_all(is_target: Callable[[_Process, _Processes], bool]) -> None:
    """Until a scan finds no target, and none that died during it: in a relay each starts a child and exits."""
    dead: set[int] = set()
    for _ in range(_MOST_SCANS):
        processes = _Processes()
        has_killed = False
        for each in _list_living(processes):
            if is_target(each, processes):  # killed as soon as it is seen
                has_killed = True
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(each.id, signal.SIGKILL)
        if not has_killed and processes.dead <= dead:
            return
        dead = processes.dead
        time.sleep(_PAUSE if has_killed else 0)


def _reap_adopted() -> None:
    """In a container we may be the first process, to which all orphans come. Children of our own are not marked."""
    processes = _Processes()
    for each in filter(None, map(processes.find, _list_ids())):
        if each.parent == os.getpid() and not each.is_alive and processes.is_marked(each.id):
            with suppress(ChildProcessError):
                os.waitpid(each.id, os.WNOHANG)


def _list_living(processes: _Processes) -> Iterator[_Process]:
    """The newest first."""
    for id in _list_ids():
        each = processes.find(id)
        if each is not None and each.is_alive:
            yield each


def _list_ids() -> list[int]:
    return sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)


def _read_stat(id: int) -> _Process | None:
    stat = _read_file(f"/proc/{id}/stat")
    if not stat:
        return None
    rest = stat.rpartition(b")")[2].split()  # a program may have any name, also one with brackets
    return _Process(id, rest[0].decode(), int(rest[1]))


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(8_192) or b""
    except OSError:
        return b""  # gone since we looked


def _prctl(option: int, value: int) -> None:
    if HAS_PROCESS_TREE:
        import ctypes  # noqa: PLC0415  start-up: 3 ms, and most commands need no prctl

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
