"""Structured logs. Every line says which message and turn it belongs to, without anybody passing ids around."""

import atexit
import json
import logging
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from finclaw.redaction import hide_and_cut
from finclaw.text import escape_controls, escape_json, escape_lines

_ids: ContextVar[Mapping[str, str]] = ContextVar("finclaw_log_ids", default=MappingProxyType({}))
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What every record has anyway; whatever else it carries came from `extra=` and is a field."""


class log_ids:
    """A context manager: inside this block, and in tasks started inside it, every line carries these ids. A class and
    not a generator: every message has such a block."""

    __slots__ = ("_more", "_token")

    def __init__(self, **ids: str) -> None:
        self._more = ids
        self._token: Token[Mapping[str, str]] | None = None

    def __enter__(self) -> None:
        self._token = _ids.set({**_ids.get(), **self._more})

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _ids.reset(self._token)


def bind_log_ids(**ids: str) -> None:
    """For the rest of this task, every line carries these ids too."""
    _ids.set({**_ids.get(), **ids})


def fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    return {**_ids.get(), **extra}


_LONG_NUMBER = 12
"""Digits. A shorter number is no card's and nobody's."""
Redact = Callable[[str], str]
"""Takes out of a text what nobody may read. Logs cannot know what that is; who starts them does."""


class _Lines(logging.Formatter):
    def __init__(self, redact: Redact = str) -> None:
        super().__init__()
        self._redact = redact


class JsonLines(_Lines):
    """A log formatter: one JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
            **fields(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        safe = line if _is_harmless(line, self._redact) else _redact_value(line, self._redact)
        return escape_json(json.dumps(safe, ensure_ascii=False, default=repr))


class PlainLines(_Lines):
    """A log formatter for people at a terminal, which obeys nothing that a line quotes. Traces are indented."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        more = " ".join(f"{key}={value}" for key, value in fields(record).items())
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}"
        if more:
            line += f"  ({more})"
        shown = escape_controls(self._redact(line))
        if record.exc_info and record.exc_info[0] is not None:
            shown += "\n" + escape_lines(self._redact(self.formatException(record.exc_info)), "  | ")
        return shown


def _is_harmless(line: dict[str, Any], redact: Redact) -> bool:
    """One look at all of it, which is enough for most lines. What is nested is taken apart in any case."""
    if not all(value is None or isinstance(value, str | int | float) for value in line.values()):
        return False
    together = "\n".join(f'{name}="{value}"' for name, value in line.items())
    return redact(together) == together


def _redact_value(value: Any, redact: Redact, name: str = "") -> Any:
    """Text by text: what JSON puts between them would keep a secret from being known for one."""
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value).items()
        return {redact(str(key)): _redact_value(each, redact, str(key)) for key, each in members}
    if isinstance(value, list | tuple):
        return [_redact_value(each, redact, name) for each in cast("list[Any]", value)]
    text = value if isinstance(value, str) else repr(value)
    if value is None or (isinstance(value, bool | int | float) and len(text) < _LONG_NUMBER):
        return value
    # A password has no form of its own: it is recognized by the name before it.
    before = f'{name}="'
    redacted = redact(f'{before}{text}"')
    if redacted.startswith(before) and redacted.endswith('"'):
        return redacted[len(before) : -1]
    return redact(text)


def start_logging(level: str = "info", form: Literal["json", "plain"] = "json", redact: Redact = str) -> None:
    """Send our logs to standard error. Called once, by a program that owns the process; never by the library."""
    handler = logging.StreamHandler()
    lines = (JsonLines if form == "json" else PlainLines)(redact)
    # The last resort is where libraries, and lost tasks, say what nobody else takes.
    for each in (handler, logging.lastResort):
        if each is not None:
            each.setFormatter(lines)
            limit_repeats(each)
    root = logging.getLogger("finclaw")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def silence_logging() -> None:
    """Drop our logs, in a command whose own output says what went wrong."""
    logging.getLogger("finclaw").addHandler(logging.NullHandler())
    logging.getLogger("finclaw").propagate = False


# ── limit for repeated lines, so that nobody can fill a disk by making us complain ──────────────────────────────
# Lines are counted by where they come from: logger, level and message template (the line of code, if the message was
# formatted beforehand). Beyond the limit they are dropped, and one line says how many.


WINDOW: Final = 10.0  # seconds for which a limit counts
WARNINGS: Final = 20  # lines of one kind in that time, from warnings on: what a stranger can cause
OTHERS: Final = 2_000  # the same below that: one message has several lines of its own
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
            text = f"{record.pathname.rpartition('/')[2]}:{record.lineno}"
            if record.args or record.levelno < logging.WARNING:
                text = hide_and_cut(str(record.msg), 200)
            kind = (record.name, record.levelno, text)
            count = self._counts.get(kind) or self._begin(kind)
            limit = WARNINGS if record.levelno >= logging.WARNING else OTHERS
            if count.shown < limit:
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
    limit = RepeatLimit(handler)
    handler.filters[:] = [limit]
    atexit.register(limit.write_summaries, at_exit=True)
