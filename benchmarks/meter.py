"""What a process has used so far, and how fast the machine is that it runs on."""

import os
import re
import resource
import time
from pathlib import Path
from typing import Final

_ORDINARY_SECONDS: Final = 0.0065
"""CPU time of the calibration on the machine for which bounds in CPU time were chosen, with nothing else to do."""
_WORDS: Final = "The market closed higher on Monday; volume was 1,234,567 shares at $187.44. " * 1_000


def measure_slowness(tries: int = 3) -> float:
    """How many times as long a fixed calculation takes here and now as on that machine, and at least 1.

    Other processes share the caches of this processor, another machine may be slower: both make whatever else is
    measured just as much longer.
    """
    return max(1.0, min(_calibrate() for _ in range(tries)) / _ORDINARY_SECONDS)


def _calibrate() -> float:
    began = time.process_time()
    found = [word.lower() for word in re.findall(r"[A-Za-z]+|[\d,.]+", _WORDS)]
    counted = dict[str, int]()
    for word in found * 5:
        counted[word] = counted.get(word, 0) + len(word)
    sorted(found)
    return time.process_time() - began


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
