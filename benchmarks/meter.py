"""What a process has used so far."""

import os
import resource
from pathlib import Path


def cpu_seconds() -> float:
    """User and system time of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def written_bytes() -> int:
    """What this process made the kernel write to disks: whole pages, a page as often as it was flushed."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["write_bytes"])


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
