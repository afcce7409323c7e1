"""Write health: whether the store can write, by its last commit or, where there was none lately, by a probe."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import apsw

from finclaw.errors import SessionError, StoreCorrupt, StoreFailed

FRESH_SECONDS: Final = 1.0
"""For so long the last commit or probe counts, so that a health check is cheap however often it comes."""
_PROBE: Final = bytes(64 * 1_024)


class WriteHealth:
    """The health of one store's writes. Lives on the event loop."""

    def __init__(self) -> None:
        self.failure: SessionError | None = None
        self.on_change: Callable[[SessionError | None], None] | None = None
        self._looked_at = float("-inf")
        self._written = 0

    def note(self, answers: Sequence[object], written: int) -> None:
        """Note what became of a group of writes, and how many groups have reached the disk by now."""
        failure = next((each for each in answers if isinstance(each, StoreFailed | StoreCorrupt)), None)
        if failure is not None or written != self._written:
            self.change(failure)
        self._written = written

    def change(self, failure: SessionError | None) -> None:
        self._looked_at = asyncio.get_running_loop().time()
        is_news = (failure is None) != (self.failure is None)
        self.failure = failure
        if is_news and self.on_change is not None:
            self.on_change(failure)

    def begin_look(self) -> bool:
        """Return whether to probe now. Whoever asks meanwhile gets the last known state."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < FRESH_SECONDS:
            return False
        self._looked_at = now
        return True


def write_probe(db: apsw.Connection) -> None:
    """Write to the file system and to the journal, in a commit that changes nothing. Raises OSError, apsw.Error."""
    from tempfile import TemporaryFile  # noqa: PLC0415  start-up: only a health check needs it

    with TemporaryFile(dir=Path(db.filename).parent) as file:
        file.write(_PROBE)
        file.flush()
        os.fsync(file.fileno())
    db.execute(f"PRAGMA user_version = {int(db.pragma('user_version'))}")  # rewrites a page, also with the same value
