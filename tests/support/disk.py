"""A bad disk for SQLite: an APSW file layer that fails when told and remembers what a power cut would take.

    with Disk() as disk:
        db = apsw.Connection(path, vfs=disk.name)
        disk.fail(at=7, error="full")            # the 7th operation from here
        …
        disk.power_cut(into, "torn", Random(1))  # what the machine might find; opens with the ordinary layer

Everything is written through to real files, so reading and locking stay SQLite's own. Nothing is really synced:
a sync only moves the line between certain and lost, which also makes the layer fast. WAL works as usual, because
the shared memory of the WAL index is the base layer's; it is scratch and no part of what survives.
"""

import os
import threading
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Literal, Self

import apsw
from tests.support.platter import CutMode, Op, Platter

DiskOp = Literal["open", "write", "sync", "truncate", "delete"]
EVERY_OP: tuple[DiskOp, ...] = ("open", "write", "sync", "truncate", "delete")
DiskError = Literal["io", "full"]

_IO_CODES: dict[DiskOp, int] = {
    "open": apsw.SQLITE_CANTOPEN,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}
_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


@dataclass(slots=True)
class _Plan:
    """The next failure: after `left` more operations of these kinds, once or from then on."""

    left: int
    error: DiskError
    ops: Collection[DiskOp]
    forever: bool


class Disk:
    """A faulty disk.

    `count` and `counts` say how many operations there were, failed ones included; `log` holds those that worked.

    With `default=True` every connection uses it, also one that names no VFS.
    """

    def __init__(self, name: str = "finclaw-fault", *, default: bool = False) -> None:
        self.name = name
        self.log: list[Op] = []
        self.counts: Counter[DiskOp] = Counter()
        self.failed: list[tuple[DiskOp, str]] = []
        self._plan: _Plan | None = None
        self._watched: set[str] = set()
        self._lock = threading.RLock()
        self._vfs = _FaultVfs(self, apsw.vfs_names()[0], default)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """No new connection can use it; open ones go on."""
        self._vfs.unregister()

    # ── faults ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def fail(
        self, *, at: int = 1, error: DiskError = "io", ops: Collection[DiskOp] = EVERY_OP, forever: bool = False
    ) -> None:
        """Fail the `at`-th of these operations, counted from now over all files. `forever`: and all after it."""
        self._plan = _Plan(at - 1, error, ops, forever)

    def heal(self) -> None:
        """Somebody made room, or changed the cable."""
        self._plan = None

    def before(self, op: DiskOp, path: str) -> None:
        """Count the operation, and raise if its time has come."""
        with self._lock:
            self.counts[op] += 1
            plan = self._plan
            if plan is None or op not in plan.ops:
                return
            if plan.left > 0:
                plan.left -= 1
                return
            if not plan.forever:
                self._plan = None
            self.failed.append((op, path))
            if op == "sync":
                self.log.append(Op("sync_failed", path))
            raise _error(op, plan.error)

    def after(self, op: Op) -> None:
        """The operation worked: it belongs to the history of the disk."""
        with self._lock:
            self.log.append(op)

    def watch(self, path: str, created: bool) -> None:
        """A file was opened. One that is older than the watch starts with what it holds, all of it certain."""
        with self._lock:
            if created or path not in self._watched:
                self._watched.add(path)
                self.after(Op("open", path, data=b"" if created else Path(path).read_bytes(), created=created))

    # ── power ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def position(self) -> int:
        """This instant, for `power_cut(at=…)`. Take it when an acknowledgement leaves the process."""
        return len(self.log)

    def power_cut(self, into: Path, mode: CutMode, rng: Random, *, at: int | None = None) -> Path:
        """Put into an empty directory what a disk could hold had the power gone at that instant, or now."""
        with self._lock:
            ops = self.log[:at]
        return lay_out(Platter(ops).cut(mode, rng), into)


def lay_out(files: dict[str, bytes], into: Path) -> Path:
    """Write the files of a cut side by side, under their own names."""
    into.mkdir(parents=True, exist_ok=True)
    if any(into.iterdir()):
        raise ValueError(f"{into} is not empty; what it holds would mix with what the disk holds")
    for path, content in files.items():
        (into / os.path.basename(path)).write_bytes(content)
    return into


def _error(op: DiskOp, error: DiskError) -> Exception:
    refusal = apsw.exception_for(apsw.SQLITE_FULL if error == "full" else _IO_CODES[op])
    refusal.args = (f"{'disk is full' if error == 'full' else 'disk I/O error'} (fault injected into {op})",)
    return refusal


class _FaultVfs(apsw.VFS):
    def __init__(self, disk: Disk, base: str, default: bool) -> None:
        self._disk = disk
        self._base = base
        super().__init__(disk.name, base, makedefault=default)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or flags[0] & apsw.SQLITE_OPEN_DELETEONCLOSE:
            return apsw.VFSFile(self._base, name, flags)  # a temporary file means nothing after a restart
        self._disk.before("open", path)
        created = not os.path.exists(path)
        file = _FaultFile(self._disk, self._base, name, flags, path)
        self._disk.watch(path, created)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._disk.before("delete", filename)
        super().xDelete(filename, False)
        self._disk.after(Op("delete", filename))
        if syncdir:
            self._disk.after(Op("sync_dir", os.path.dirname(filename)))


class _FaultFile(apsw.VFSFile):
    def __init__(self, disk: Disk, base: str, name: str | apsw.URIFilename | None, flags: list[int], path: str) -> None:
        self._disk = disk
        self._path = path
        # As SQLite's own layer does: the first sync of a new journal also makes its name certain.
        self._dir_unsure = bool(flags[0] & _JOURNALS) and not os.path.exists(path)
        super().__init__(base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.before("write", self._path)
        super().xWrite(data, offset)
        self._disk.after(Op("write", self._path, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self._disk.before("truncate", self._path)
        super().xTruncate(newsize)
        self._disk.after(Op("truncate", self._path, newsize))

    def xSync(self, flags: int) -> None:
        self._disk.before("sync", self._path)
        self._disk.after(Op("sync", self._path))
        if self._dir_unsure:
            self._disk.after(Op("sync_dir", os.path.dirname(self._path)))
            self._dir_unsure = False
