"""Tuning of the cyclic garbage collector, for a process that is ours alone.

Reference counting frees almost everything at once, and a turn leaves no cycle behind; only extensions' code may. So
there is little to collect, and collecting took a twentieth of all the time.
"""

import atexit
import gc
from typing import Final

NEW_OBJECTS: Final = 5_000
"""More that stay than this, and it is looked among them; Python's own figure is 700."""
ROUNDS: Final = 20


def collect_rarely() -> None:
    gc.set_threshold(NEW_OBJECTS, ROUNDS, ROUNDS)


def freeze_startup_objects() -> None:
    """What was made at the start stays to the end: it need not be walked through again and again."""
    gc.collect()
    gc.freeze()


def skip_collection_at_exit() -> None:
    """At the end Python looks for garbage among all there is, several times, and the system takes it all anyway."""
    atexit.register(gc.freeze)
