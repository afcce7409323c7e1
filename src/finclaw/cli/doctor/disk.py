"""The disk under the state: space, kind, and how fast it keeps a promise."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from finclaw.cli.doctor.finding import Finding, bad, ok, warn
from finclaw.kernel.clock import SystemClock

MEGABYTE = 1_048_576
LITTLE, TOO_LITTLE = 1_024 * MEGABYTE, 64 * MEGABYTE
SLOW = 50.0
"""Promises a second: a lone turn makes four."""
_NETWORK = ("nfs", "cifs", "smb", "9p", "ceph", "gluster", "lustre", "afs", "fuse.sshfs", "fuse.rclone", "beegfs")
_MEMORY = ("tmpfs", "ramfs")
_MEASURE_S = 0.25


def checks(state: Path) -> Iterator[Finding]:
    place = nearest(state)
    yield judge_space(place)
    yield judge_kind(place, _kind(place))
    yield _speed(place)


def nearest(path: Path) -> Path:
    """The path, or what there is of it."""
    return next((each for each in (path, *path.parents) if each.is_dir()), Path("/"))


def judge_space(place: Path) -> Finding:
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    shown = f"{free / MEGABYTE:,.0f} MB free under {place}"
    if free < TOO_LITTLE:
        return bad("disk space", shown, "free some space: nothing can be accepted on a full disk")
    if disk.f_files and not disk.f_favail:
        return bad("disk space", f"{place} takes no more files, though {shown}", "remove some files there")
    if free < LITTLE:
        return warn("disk space", shown, "free some before it is full")
    return ok("disk space", shown)


def judge_kind(place: Path, kind: str) -> Finding:
    if kind.startswith(_NETWORK):
        advice = "locks and the database need a local disk: choose one with --state DIR"
        return warn("disk kind", f"{place} is on a network file system ({kind})", advice)
    if kind in _MEMORY:
        return warn(
            "disk kind", f"{place} is in memory ({kind})", "a power cut takes it all: choose a disk with --state DIR"
        )
    return ok("disk kind", f"{kind or 'unknown'}, on this machine" if kind else "this system does not tell")


def _kind(place: Path) -> str:
    """The file system's type, from the longest mount point above; empty where the system does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    real = f"{place.resolve()}/"
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = before.split()[4].replace("\\040", " ").rstrip("/")
        if real.startswith(f"{mount}/") and len(mount) >= len(best):  # the later hides the earlier
            best, kind = mount, after.split()[0]
    return kind


def _speed(place: Path) -> Finding:
    try:
        rate = _promises_per_second(place)
    except OSError as error:
        return bad(
            "disk speed", f"cannot write in {place}: {error.strerror}", "make it writable for you, or use --state DIR"
        )
    shown = f"{rate:,.0f} fsyncs/s"
    if rate < SLOW:
        return warn("disk speed", shown, "every message waits for four: a faster disk answers sooner")
    return ok("disk speed", shown)


def _promises_per_second(place: Path) -> float:
    """Measured on a file without a name: nobody sees it, and nothing is left of it."""
    clock = SystemClock()
    with tempfile.TemporaryFile(dir=place) as file:
        began, count = clock.monotonic(), 0
        while (spent := clock.monotonic() - began) < _MEASURE_S or not count:
            os.write(file.fileno(), b"\0" * 4_096)
            os.fsync(file.fileno())
            count += 1
    return count / spent
