"""A rate limit on the wake-ups of one reader: what arrives fast is handed over together, every 20 ms.

Each wake-up runs a whole turn's code for a few words. Sixty-four answers with a word every 10 ms, which is the row
`cpu_64_paced` of `docs/performance.md`, took 0.6 of the CPU with it (`docs/decisions/0013-own-line.md`).
"""

import asyncio
from collections.abc import Callable
from typing import Final

INTERVAL: Final = 0.02
"""Seconds between two wake-ups. Nobody reads faster."""


class ReadCoalescer:
    """A timer for what arrives soon after the last read. The first bytes and the last wake the reader at once."""

    __slots__ = ("_loop", "_next_wake", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next_wake = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def reset(self) -> None:
        """The next bytes wake the reader at once: they are the first of a response."""
        self.cancel()
        self._next_wake = 0.0

    def mark_read(self) -> None:
        """The reader has taken all that had arrived."""
        self._next_wake = self._loop.time() + INTERVAL

    def bytes_arrived(self, wake: Callable[[], None]) -> None:
        """Call `wake` now, or when the interval since the last read is over."""
        if self._timer is not None:
            return
        if self._loop.time() >= self._next_wake:
            wake()
        else:
            self._timer = self._loop.call_at(self._next_wake, self._fire, wake)

    def cancel(self) -> None:
        """Forget the timer, which knows the reader: whoever calls this wakes it, or nobody has to be woken."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self, wake: Callable[[], None]) -> None:
        self._timer = None
        wake()
