"""Watchdogs: of turns without a sign of life, and of messages that wait for each other."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from finclaw.kernel.event import Emit, Event, ExecutionCompleted, ExecutionStarted, MessageStalled
from finclaw.kernel.port import Clock

log = logging.getLogger(__name__)


LOOKS: Final = 8
"""How often it looks within the time after which it warns."""


PATIENCE: Final = 60.0
"""Seconds in which messages wait and none makes progress, before that counts as a deadlock."""

INTERVAL: Final = 15.0

SHOWN: Final = 20
"""Lines of the wait graph that are logged."""


class _Watched(Struct):
    started: ExecutionStarted
    last_sign: float
    sign: bool = False
    """It has shown one since somebody last looked. Events are many and looks are few, so these read the clock."""
    warned: bool = False


class Watchdog:
    """An observer that warns about turns without a sign of life, then stops them: a person never waits for nothing.

    Every event of a turn is a sign of life. A message that waits for its lane or its pool has not begun, and is left
    alone. A timer that finds no turn to watch is not set again.
    """

    def __init__(
        self, clock: Clock, emit: Emit, stop: Callable[[str, str], bool], *, warn_s: float, abort_s: float
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._stop = stop
        self._warn_s = warn_s
        self._abort_s = abort_s
        self._watched: dict[str, _Watched] = {}
        self._timer: asyncio.TimerHandle | None = None

    def observe(self, event: Event) -> None:
        watched = self._watched.get(event.inbound_id)
        if watched is not None:
            watched.sign = True
            if isinstance(event, ExecutionCompleted):
                del self._watched[event.inbound_id]  # the timer goes on: the next turn would set it (`cpu_plain_alone`)
        elif isinstance(event, ExecutionStarted):
            self._watched[event.inbound_id] = _Watched(event, self._clock.monotonic())
            self._set_timer()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._warn_s / LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for watched in list(self._watched.values()):
            if watched.sign:
                watched.last_sign, watched.sign, watched.warned = now, False, False
            self._judge(watched, now - watched.last_sign)
        if self._watched:
            self._set_timer()

    def _judge(self, watched: _Watched, silent: float) -> None:
        inbound_id = watched.started.inbound_id
        if silent >= self._abort_s:
            del self._watched[inbound_id]
            self._report_stalled(watched, silent, aborted=self._stop(inbound_id, f"no sign of life for {silent:.0f} s"))
        elif silent >= self._warn_s and not watched.warned:
            watched.warned = True
            self._report_stalled(watched, silent, aborted=False)
            watched.sign = False  # our own warning is none

    def _report_stalled(self, watched: _Watched, silent: float, *, aborted: bool) -> None:
        turn = watched.started
        what = "was stopped after" if aborted else "has shown"
        log.warning("turn %s %s %.0f s without a sign of life", turn.turn_id, what, silent)
        self._emit(
            MessageStalled(
                agent=turn.agent,
                session=turn.session,
                inbound_id=turn.inbound_id,
                turn_id=turn.turn_id,
                silent_s=silent,
                aborted=aborted,
            )
        )


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
    """A watchdog that breaks a deadlock between messages that wait for each other.

    No order of events is known to cause one. If one exists all the same, exclusivity is the wait that can be given up:
    a message that should have run alone then runs beside others. A timer that finds the queues empty is not set again.
    """

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
