"""Limit for repeated log lines, so that nobody can fill a disk by making us complain.

Lines are counted by where they come from: logger, level and message template (the line of code, if the message was
formatted beforehand). Beyond the limit they are dropped, and one line says how many.
"""

import atexit
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from finclaw.redaction import hide_and_cut

WINDOW: Final = 10.0
"""Seconds for which a limit counts."""
WARNINGS: Final = 20
"""Lines of one kind in that time, from warnings on: what a stranger can cause."""
OTHERS: Final = 2_000
"""The same below that: one message has several lines of its own."""
MOST_KINDS: Final = 1_000

Kind = tuple[str, int, str]


class _Count:
    __slots__ = ("dropped", "shown", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.shown = 0
        self.dropped = 0


class RepeatLimit(logging.Filter):
    """The filter of one handler, which also writes the summaries of what was dropped."""

    def __init__(self, handler: logging.Handler, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._handler = handler
        self._now = now
        self._counts: dict[Kind, _Count] = {}
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        with self._lock:
            self.write_summaries()
            kind = _kind_of(record)
            count = self._counts.get(kind) or self._begin(kind)
            if count.shown < (WARNINGS if record.levelno >= logging.WARNING else OTHERS):
                count.shown += 1
                return True
            count.dropped += 1
            self._summarize_later()
            return False

    def write_summaries(self, *, at_exit: bool = False) -> None:
        """One line for each kind of which lines were dropped and whose time is over."""
        with self._lock:
            over = self._now() - WINDOW
            ended = [kind for kind, count in self._counts.items() if at_exit or count.since <= over]
            for kind in ended:
                self._write_summary(kind, self._counts.pop(kind))

    def _begin(self, kind: Kind) -> _Count:
        if len(self._counts) >= MOST_KINDS:  # the oldest makes room
            oldest = next(iter(self._counts))
            self._write_summary(oldest, self._counts.pop(oldest))
        count = self._counts[kind] = _Count(self._now())
        return count

    def _summarize_later(self) -> None:
        """So that the number of what was dropped is told even if nothing is logged after it."""
        if self._timer is None:
            self._timer = threading.Timer(WINDOW + 1, self._timer_ended)
            self._timer.daemon = True
            self._timer.start()

    def _timer_ended(self) -> None:
        with self._lock:
            self._timer = None
            self.write_summaries()
            if any(count.dropped for count in self._counts.values()):
                self._summarize_later()

    def _write_summary(self, kind: Kind, count: _Count) -> None:
        if not count.dropped:
            return
        name, level, text = kind
        times = f"repeated {count.dropped:,} times more within {WINDOW:.0f} s, not shown: "
        record = logging.LogRecord(name, level, __file__, 0, "%s%s", (times, text), None)
        self._handler.acquire()
        try:
            self._handler.emit(record)
        finally:
            self._handler.release()


def limit_repeats(handler: logging.Handler) -> None:
    """Give the handler this filter and no other."""
    limit = RepeatLimit(handler)
    handler.filters[:] = [limit]
    atexit.register(limit.write_summaries, at_exit=True)


def _kind_of(record: logging.LogRecord) -> Kind:
    if record.args or record.levelno < logging.WARNING:
        return record.name, record.levelno, hide_and_cut(str(record.msg), 200)
    return record.name, record.levelno, f"{record.pathname.rpartition('/')[2]}:{record.lineno}"
