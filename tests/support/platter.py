"""The possible contents of a disk after a power cut: a pure replay of a log of file operations.

A write is certain only once its file was synced, a name (created or deleted) only once its directory was. What
came after may be there, or not, or partly: `cut` rolls those dice. A sync that failed is worse than none, as on
Linux: the writes before it count as clean, so no later sync makes them certain; they stay in doubt for ever.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from itertools import takewhile
from random import Random
from typing import Literal

SECTOR = 512
"""What a disk writes whole or not at all."""

CutMode = Literal["drop", "prefix", "torn"]
"""`drop`: nothing unsynced survives. `prefix`: the disk kept the order and stopped somewhere. `torn`: any sectors."""

OpKind = Literal["open", "write", "truncate", "sync", "sync_failed", "sync_dir", "delete"]


@dataclass(frozen=True, slots=True)
class Op:
    """An operation that reached the file system. `created` marks an open that made the file."""

    kind: OpKind
    path: str
    offset: int = 0
    data: bytes = b""
    created: bool = False


@dataclass(slots=True)
class _Change:
    when: int
    op: Op
    fate: Literal["open", "sure", "doubtful"] = "open"


@dataclass(slots=True)
class _File:
    """One file, whatever its names: what is certain, and what was done to it since."""

    certain: bytearray = field(default_factory=bytearray)
    changes: list[_Change] = field(default_factory=list[_Change])

    def sync(self) -> None:
        self._decide("sure")
        # A sure change cannot be folded in before a doubtful one that it may lie upon.
        folded = list(takewhile(lambda change: change.fate == "sure", self.changes))
        for change in folded:
            _apply(self.certain, change.op)
        del self.changes[: len(folded)]

    def fail_sync(self) -> None:
        self._decide("doubtful")

    def _decide(self, fate: Literal["sure", "doubtful"]) -> None:
        for change in self.changes:
            if change.fate == "open":
                change.fate = fate


_Names = dict[str, _File]


class Platter:
    """A disk as the log tells it. Feed it operations in order; cut the power whenever you like."""

    def __init__(self, ops: Iterable[Op] = ()) -> None:
        self._live: _Names = {}
        self._certain: _Names = {}
        self._renamed: list[tuple[int, str, _File | None]] = []
        self._clock = 0
        for op in ops:
            self.apply(op)

    def apply(self, op: Op) -> None:
        self._clock += 1
        # What is written to a file without a name is gone in any case; it needs a place, but no other care.
        file = self._live.get(op.path) or _File()
        match op.kind:
            case "open":
                self._open(op)
            case "delete":
                self._live.pop(op.path, None)
                self._renamed.append((self._clock, op.path, None))
            case "write" | "truncate":
                file.changes.append(_Change(self._clock, op))
            case "sync":
                file.sync()
            case "sync_failed":
                file.fail_sync()
            case "sync_dir":
                self._certain = dict(self._live)
                self._renamed.clear()

    def _open(self, op: Op) -> None:
        if op.path in self._live:
            return
        file = _File(bytearray(op.data))
        self._live[op.path] = file
        if op.created:
            self._renamed.append((self._clock, op.path, file))
        else:
            self._certain[op.path] = file  # it was there before we began to watch

    def cut(self, mode: CutMode, rng: Random) -> dict[str, bytes]:
        """The files a machine could find after the power went now."""
        until = rng.randint(0, self._clock) if mode == "prefix" else 0
        names = dict(self._certain)
        for when, path, file in self._renamed:
            if _survives(when, mode, until, rng):
                _rename(names, path, file)
        return {path: _contents(file, mode, until, rng) for path, file in names.items()}


def _rename(names: _Names, path: str, file: _File | None) -> None:
    if file is None:
        names.pop(path, None)
    else:
        names[path] = file


def _survives(when: int, mode: CutMode, until: int, rng: Random) -> bool:
    return when <= until if mode == "prefix" else mode == "torn" and rng.random() < 0.5


def _contents(file: _File, mode: CutMode, until: int, rng: Random) -> bytes:
    image = copy(file.certain)
    for change in file.changes:
        if change.fate != "sure" and mode == "torn" and change.op.kind == "write":
            _tear(image, change.op, rng)
        elif change.fate == "sure" or _survives(change.when, mode, until, rng):
            _apply(image, change.op)
    return bytes(image)


def _apply(image: bytearray, op: Op) -> None:
    if op.kind == "write":
        _write(image, op.offset, op.data)
    else:
        _resize(image, op.offset)


def _tear(image: bytearray, op: Op, rng: Random) -> None:
    """Write some of the sectors. Half the time all or none, as most writes are not torn."""
    whole = rng.random()
    at = 0
    while at < len(op.data):
        size = SECTOR - (op.offset + at) % SECTOR
        if whole < 0.25 or (whole < 0.75 and rng.random() < 0.5):
            _write(image, op.offset + at, op.data[at : at + size])
        at += size


def _write(image: bytearray, offset: int, data: bytes) -> None:
    if offset > len(image):
        _resize(image, offset)
    image[offset : offset + len(data)] = data


def _resize(image: bytearray, size: int) -> None:
    if size <= len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))
