"""A watchdog that breaks a deadlock between messages that wait for each other.

No order of events is known to cause one. If one exists all the same, exclusivity is the wait that can be given up: a
message that should have run alone then runs beside others.
"""

import asyncio
import logging
from typing import Final, Protocol

from finclaw.kernel.port import Clock

log = logging.getLogger(__name__)

PATIENCE: Final = 60.0
"""Seconds in which messages wait and none makes progress, before that counts as a deadlock."""
INTERVAL: Final = 15.0
SHOWN: Final = 20
"""Lines of the wait graph that are logged."""


class Queues(Protocol):
    """The messages in the pipeline."""

    @property
    def ended(self) -> int:
        """How many messages have left the pipeline."""
        ...

    @property
    def is_empty(self) -> bool: ...

    def describe_waits(self) -> list[str]:
        """The wait graph, a line for each session; empty while any message makes progress."""
        ...

    def give_up_exclusivity(self) -> None:
        """Turn all exclusive holds into shared ones."""
        ...


class DeadlockWatchdog:
    """The watchdog of one gateway. A timer that finds the queues empty is not set again."""

    def __init__(self, queues: Queues, clock: Clock) -> None:
        self._queues = queues
        self._clock = clock
        self._ended = -1
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """A message has entered the queues."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._queues.is_empty:
            return
        self.watch()
        now, ended, waits = self._clock.monotonic(), self._queues.ended, self._queues.describe_waits()
        if not waits or ended != self._ended:
            self._ended = ended
            self._since = now
            return
        if now - self._since >= PATIENCE:
            self._since = now
            self._break(waits)

    def _break(self, waits: list[str]) -> None:
        hidden = len(waits) - SHOWN
        graph = [*waits[:SHOWN], f"and {hidden} more"] if hidden > 0 else waits
        log.error(
            "no message has made progress for %.0f s; exclusive recovery is disabled; wait graph:\n  %s",
            PATIENCE,
            "\n  ".join(graph),
        )
        self._queues.give_up_exclusivity()
