"""When whoever waits for an answer is told of more of it. Words that come fast are told together, and all the answers
of a line at one pulse: each telling wakes a whole turn, and one that is alone costs the event loop a round of its own.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from socket import socket
from typing import Final

from finclaw.providers.wire.gathering import ENOUGH, can_gather, gather

TOLD_EVERY: Final = 0.02
"""Seconds. What comes sooner behind the last words is told together with what follows: nobody reads faster."""
FAST: Final = 2
"""So many pulses in a row must have had something to tell, before the system gathers what comes between them."""
TOLD_AT_ONCE: Final = 64
"""Answers; then it is somebody else's turn."""


class Pulse:
    """Of one line. There is a next one as long as somebody waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: list[Pace] = []
        self._timer: asyncio.TimerHandle | None = None

    def join(self, pace: "Pace", due: float) -> None:
        """For the next pulse, which comes by `due`, a time of the event loop's."""
        self._waiting.append(pace)
        if self._timer is None:
            self._timer = self.loop.call_at(due, self._strike)
        elif due < self._timer.when():
            self._timer.cancel()
            self._timer = self.loop.call_at(due, self._strike)

    def _strike(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, []
        self._tell(waiting)

    def _tell(self, waiting: "Sequence[Pace]") -> None:
        for pace in waiting[:TOLD_AT_ONCE]:
            pace.pulse()
        if len(waiting) > TOLD_AT_ONCE:
            self.loop.call_soon(self._tell, waiting[TOLD_AT_ONCE:])


class Pace:
    """Of one answer after the other, as they come over a connection.

    Of one that keeps coming fast the system gathers what comes until the next pulse: so that is one read, and nothing
    wakes us in between. Its end, too, may then wait for the pulse.
    """

    __slots__ = ("_pulse", "_gathering", "_held", "_joined", "_loop", "_socket", "_tell_at", "_times_held")

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._loop = pulse.loop
        self._socket: socket | None = None
        self._tell_at = 0.0
        self._held: Callable[[], None] | None = None
        """Tells of what came too soon. Kept no longer: whom it tells knows us."""
        self._times_held = 0
        self._joined = self._gathering = False

    def over(self, connected: socket | None) -> None:
        """What the answers come over."""
        self._socket = connected

    def begin(self) -> None:
        """Another answer is asked for; its first words are told at once."""
        self._tell_at = 0.0
        self._held = None
        self._times_held = 0

    def told(self) -> None:
        self._tell_at = self._loop.time() + TOLD_EVERY

    def more(self, tell: Callable[[], None]) -> None:
        """Something came, and it is not the end."""
        now = self._loop.time()
        if now < self._tell_at:
            self._held = tell
            self._join(self._tell_at)
            return
        if now > self._tell_at + TOLD_EVERY:
            self._times_held = 0
        self._tell(tell, now)

    def let_through(self) -> None:
        """Whatever comes, as soon as it does."""
        if self._gathering:
            self._gathering = False
            self._hear_of(1)

    def pulse(self) -> None:
        self._joined = False
        now = self._loop.time()
        if now < self._tell_at - TOLD_EVERY / 2:  # it would be told too often; the next pulse comes in time for it
            self._join(self._tell_at)
            return
        if self._gathering:
            self.let_through()
            self._tell_at = now
        held, self._held = self._held, None
        if held is not None:
            self._times_held += 1
            self._tell(held, now)

    def _tell(self, tell: Callable[[], None], now: float) -> None:
        tell()
        if self._times_held >= FAST and self._socket is not None and not self._gathering and can_gather():
            self._gathering = True
            self._hear_of(ENOUGH)
            self._join(now + TOLD_EVERY)

    def _join(self, due: float) -> None:
        if not self._joined:
            self._joined = True
            self._pulse.join(self, due)

    def _hear_of(self, least: int) -> None:
        if self._socket is not None:
            with suppress(OSError, ValueError):  # it was closed just now; the second is how uvloop says so
                gather(self._socket, least)
