"""A watchdog of turns without a sign of life: it warns, then stops them, so that a person never waits for nothing.

It watches turns that run. A message that waits for its lane or its pool has not begun, and is left alone.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from finclaw.kernel.event import Emit, Event, ExecutionCompleted, ExecutionStarted, MessageStalled
from finclaw.kernel.port import Clock

log = logging.getLogger(__name__)

LOOKS: Final = 8
"""How often it looks within the time after which it warns."""


class _Watched(Struct):
    started: ExecutionStarted
    last_sign: float
    sign: bool = False
    """It has shown one since somebody last looked. Events are many and looks are few, so these read the clock."""
    warned: bool = False


class Watchdog:
    """An observer: every event of a turn is a sign of life. A timer that finds no turn to watch is not set again."""

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
