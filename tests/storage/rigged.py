"""A disk for the file store that dies or refuses at any single call of the kernel, and knows what a power cut takes.

Nothing is really synced: a sync only notes what is certain from then on.
"""

import errno
import os
import shutil
from pathlib import Path
from random import Random
from typing import Literal

from finclaw.storage.files import Files
from finclaw.testing import SimulatedCrash

Fault = Literal["kill", "drop", "torn", "full", "io"]
"""`kill`: the process dies, the disk lives. `drop`, `torn`: the power goes, and with it all or some of what was not
synced. `full`, `io`: the call fails, and life goes on."""


class RiggedFiles(Files):
    def __init__(self, place: Path, fault: Fault | None = None, at: int = 0, lasts: int = 1) -> None:
        self.place = place
        self.calls = 0
        self._fault = fault
        self._bad = range(at, at + lasts)
        self._dead = False
        self._synced: dict[int, bytes] = {}
        """The certain content of files, by inode."""
        self._names: dict[Path, int] = {}
        """The certain names, with the inode that each had when its directory was synced."""
        self._note_tree()

    def plan(self, fault: Fault, after: int, lasts: int) -> None:
        """From now on: so many calls go well, and so many do not."""
        self._fault, self._bad = fault, range(self.calls + after + 1, self.calls + after + 1 + lasts)

    def _note_tree(self) -> None:
        for path in (each for each in self.place.rglob("*") if each.is_file()):
            self._synced[path.stat().st_ino] = path.read_bytes()
            self._names[path] = path.stat().st_ino

    def _call(self) -> bool:
        """Count it; True when this is the one that goes wrong halfway."""
        if self._dead:
            raise SimulatedCrash("the process is dead")
        self.calls += 1
        return self._fault is not None and self.calls in self._bad

    def _fail(self) -> None:
        if self._fault in ("full", "io"):
            code = errno.ENOSPC if self._fault == "full" else errno.EIO
            raise OSError(code, os.strerror(code))
        self._dead = True
        raise SimulatedCrash(f"call {self.calls}")

    # ── the kernel ──────────────────────────────────────────────────────────────────────────────────────────

    def open(self, path: Path) -> int:
        if self._call():
            self._fail()
        created = not path.exists()
        file = super().open(path)
        if created:
            self._synced[os.fstat(file).st_ino] = b""
        return file

    def write(self, file: int, path: Path, data: bytes, at: int) -> None:
        if self._call():
            super().write(file, path, data[: len(data) // 2], at)
            self._fail()
        super().write(file, path, data, at)

    def sync(self, file: int, path: Path) -> None:
        if self._call():
            self._fail()
        self._synced[os.fstat(file).st_ino] = path.read_bytes()

    def truncate(self, file: int, path: Path, size: int) -> None:
        if self._call():
            self._fail()
        super().truncate(file, path, size)

    def rename(self, source: Path, target: Path) -> None:
        if self._call():
            self._fail()
        super().rename(source, target)

    def make_directory(self, path: Path) -> None:
        if self._call():
            self._fail()
        super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        if self._call():
            self._fail()
        self._names = {name: inode for name, inode in self._names.items() if name.parent != path}
        self._names |= {name: name.stat().st_ino for name in path.iterdir() if name.is_file()}

    # ── power ───────────────────────────────────────────────────────────────────────────────────────────────

    def take_the_power(self, dice: Random) -> None:
        """Leave in the place what a machine could find there."""
        if self._fault == "kill":
            return
        now = {path.stat().st_ino: path.read_bytes() for path in self.place.rglob("*") if path.is_file()}
        names = dict(self._names)
        if self._fault == "torn" and dice.random() < 0.5:
            names |= {path: path.stat().st_ino for path in self.place.rglob("*.jsonl") if path.is_file()}
        files = {path: self._found(inode, now, dice) for path, inode in names.items() if path.suffix != ".lock"}
        shutil.rmtree(self.place, ignore_errors=True)
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _found(self, inode: int, now: dict[int, bytes], dice: Random) -> bytes:
        certain = self._synced.get(inode, b"")
        written = now.get(inode, certain)
        if self._fault == "drop" or written == certain:
            return certain
        if written.startswith(certain):
            return written[: dice.randint(len(certain), len(written))]
        return dice.choice((certain, written))  # it was cut: that happened or did not
