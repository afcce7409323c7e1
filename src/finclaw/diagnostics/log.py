"""Structured logs. Every line says which message and turn it belongs to, without anybody passing ids around."""

import json
import logging
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Any, Literal, cast

from finclaw.diagnostics.log_limit import limit_repeats
from finclaw.text import escape_controls, escape_json, escape_lines

_ids: ContextVar[Mapping[str, str]] = ContextVar("finclaw_log_ids", default=MappingProxyType({}))

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What every record has anyway; whatever else it carries came from `extra=` and is a field."""


class log_ids:
    """A context manager: inside this block, and in tasks started inside it, every line carries these ids.

    A class and not a generator: every message has such a block.
    """

    __slots__ = ("_more", "_token")

    def __init__(self, **ids: str) -> None:
        self._more = ids
        self._token: Token[Mapping[str, str]] | None = None

    def __enter__(self) -> None:
        self._token = _ids.set({**_ids.get(), **self._more})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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


def redact_nothing(text: str) -> str:
    return text


class JsonLines(logging.Formatter):
    """A log formatter: one JSON object a line, for machines."""

    def __init__(self, redact: Redact = redact_nothing) -> None:
        super().__init__()
        self._redact = redact

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


class PlainLines(logging.Formatter):
    """A log formatter for people at a terminal, which obeys nothing that a line quotes. Traces are indented."""

    def __init__(self, redact: Redact = redact_nothing) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        more = " ".join(f"{key}={value}" for key, value in fields(record).items())
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}" + (f"  ({more})" if more else "")
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
    return _redacted_text(text, redact, name)


def _redacted_text(text: str, redact: Redact, name: str) -> str:
    """A password has no form of its own: it is known by the name that stands before it."""
    before = f'{name}="'
    told = redact(f'{before}{text}"')
    whole = told.startswith(before) and told.endswith('"')
    return told[len(before) : -1] if whole else redact(text)


def start_logging(
    level: str = "info", form: Literal["json", "plain"] = "json", redact: Redact = redact_nothing
) -> None:
    """Send our logs to standard error. Called once, by a program that owns the process; never by the library."""
    handler = logging.StreamHandler()
    lines = JsonLines(redact) if form == "json" else PlainLines(redact)
    # The last resort is where libraries, and lost tasks, say what nobody else takes.
    for each in (handler, logging.lastResort):
        if each is not None:
            each.setFormatter(lines)
            limit_repeats(each)
    root = logging.getLogger("finclaw")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
