"""How fast the disk under a directory makes small writes last. A durable turn cannot be faster than this allows."""

import os
import statistics
import tempfile
import time
from pathlib import Path

BLOCK = b"\0" * 4096


def syncs_per_second(directory: Path, seconds: float = 1.0) -> float:
    """4 kB written and synced, one after the other; the median wait, as a rate."""
    waits: list[float] = []
    with tempfile.TemporaryFile(dir=directory) as file:
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            started = time.perf_counter()
            os.pwrite(file.fileno(), BLOCK, (len(waits) % 256) * len(BLOCK))
            os.fdatasync(file.fileno())
            waits.append(time.perf_counter() - started)
    return 1 / statistics.median(waits)
