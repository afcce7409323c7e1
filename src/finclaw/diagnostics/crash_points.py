"""Crash points: named places where a test makes the process die, to prove that dying there loses nothing.

Off, a point costs one comparison. `finclaw.testing` arms them; nothing else may.
"""

from collections.abc import Callable
from typing import Final

# fmt: off
CRASH_POINTS: Final = (
    "accept:before_commit", "accept:after_commit", "pipeline:started", "claim:before_commit",
    "claim:after_commit", "model:reserved", "model:first_chunk", "items:before_commit",
    "items:after_commit", "model:ended", "model:settled", "tools:before_commit", "tools:started",
    "tools:money_moved", "tools:between", "tools:ended", "results:after_commit",
    "finish:before_commit", "finish:after_commit", "send:before", "send:after",
    "next_unit:after_commit", "receipt:before_commit", "receipt:after_commit",
)
# fmt: on
"""In the order in which a message meets them between accept and receipt."""
FILE_CRASH_POINTS: Final = ("fold:before_append", "fold:after_append", "fold:after_clear")
"""Met between the commit of an end and the receipt, where conversations are kept in files."""
JOIN_CRASH_POINTS: Final = ("join:before_commit", "join:after_commit")
"""Met where a message joins a turn that runs."""
BLOB_CRASH_POINTS: Final = ("blob:after_file", "blob:after_commit", "blob:before_erase")
"""Met where a file is kept or removed."""
STOP_CRASH_POINTS: Final = ("stop:before_commit", "stop:after_commit", "amend:before_commit", "amend:after_commit")
"""Met where a person stops what runs, and where they edit what waits."""

ALL_CRASH_POINTS: Final = (
    *CRASH_POINTS,
    *FILE_CRASH_POINTS,
    *JOIN_CRASH_POINTS,
    *BLOB_CRASH_POINTS,
    *STOP_CRASH_POINTS,
)

armed: Callable[[str], None] | None = None


def crash_point(name: str) -> None:
    if armed is not None:
        armed(name)
