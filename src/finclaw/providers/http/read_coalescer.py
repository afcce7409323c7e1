"""A rate limit on the wake-ups of one reader: what arrives fast is handed over together, at ticks every 40 ms.

Each wake-up runs a whole turn's code for a few words, and one that comes alone costs the event loop a round of its own.
So the ticks are the same for all connections, and a response that keeps coming fast is read only at them. Without that,
sixty-four answers with a word every 10 ms miss the goal of `cpu_64_paced` (`docs/decisions/0013-own-line.md`).
"""

import asyncio
from collections.abc import Callable
from math import floor
from typing import Final

INTERVAL: Final = 0.04
"""Seconds between two ticks: twenty-five a second, as many as a film has pictures. Nobody reads faster."""
_FAST: Final = 2
"""So many ticks in a row must have had something to hand over before reading waits for them."""


class ReadCoalescer:
    """A timer for what arrives soon after the last read. The first bytes of a response wake the reader at once.

    So do the last, unless the response came fast: then they wait for the next tick.
    """

    __slots__ = ("_loop", "_next_tick", "_paused", "_ticks", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._next_tick = 0.0
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._paused: asyncio.Transport | None = None

    def reset(self) -> None:
        """The next bytes wake the reader at once: they are the first of a response."""
        self.cancel()
        self._next_tick = 0.0
        self._ticks = 0

    def mark_read(self, transport: asyncio.Transport | None) -> None:
        """The reader has taken all that had arrived."""
        self._next_tick = (floor(self._loop.time() / INTERVAL) + 1) * INTERVAL
        if self._ticks >= _FAST and self._timer is None and transport is not None and not transport.is_closing():
            transport.pause_reading()
            self._paused = transport
            self._timer = self._loop.call_at(self._next_tick, self.cancel)

    def bytes_arrived(self, wake: Callable[[], None]) -> None:
        """Call `wake` now, or at the next tick if they came before it."""
        if self._timer is not None:
            return
        late = self._loop.time() - self._next_tick
        if late < 0:
            self._ticks += 1
            self._timer = self._loop.call_at(self._next_tick, self._fire, wake)
            return
        if late > INTERVAL:
            self._ticks = 0
        wake()

    def cancel(self) -> None:
        """Forget the timer, which knows the reader, and read again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._paused is not None:
            self._paused.resume_reading()
            self._paused = None

    def _fire(self, wake: Callable[[], None]) -> None:
        self._timer = None
        wake()
