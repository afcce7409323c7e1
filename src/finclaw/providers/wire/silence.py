"""One timer for all the answers that a line waits for: each would else set its own, and take it back unused."""

import asyncio
from typing import Protocol


class Waited(Protocol):
    def look(self, now: float) -> float:
        """Whether it has been silent for too long; when to look again. All times are the event loop's."""
        ...


class SilenceWatch:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._watched: set[Waited] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waited: Waited, due: float) -> None:
        """`due` is when to look at it first."""
        self._watched.add(waited)
        if self._timer is None or due < self._timer.when():
            self._set_timer(due)

    def discard(self, waited: Waited) -> None:
        """The timer stays, and is not set again if it finds nobody."""
        self._watched.discard(waited)

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self.loop.time()
        if self._watched:
            self._set_timer(min([waited.look(now) for waited in self._watched]))
