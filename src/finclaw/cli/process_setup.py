"""Set-up of a process that is ours alone: the garbage collector, and the hooks for uncaught errors and warnings.

Reference counting frees almost everything at once, and a turn leaves no cycle behind; only extensions' code may. So
there is little to collect, and collecting took a twentieth of all the time. Secrets are redacted in what the hooks
print.
"""

import atexit
import gc
import logging
import sys
import threading
import traceback
import warnings
from types import TracebackType
from typing import Any

from finclaw.diagnostics.log import PlainLines
from finclaw.text import escape_lines


def collect_rarely() -> None:
    """Collect once 5,000 objects more stay than before; Python's own figure is 700."""
    gc.set_threshold(5_000, 20, 20)


def freeze_startup_objects() -> None:
    """What was made at the start stays to the end: it need not be walked through again and again."""
    gc.collect()
    gc.freeze()


def skip_collection_at_exit() -> None:
    """At the end Python looks for garbage among all there is, several times, and the system takes it all anyway."""
    atexit.register(gc.freeze)


def install_excepthooks() -> None:
    """For a process that is ours alone, from its first line on. What takes secrets out is loaded when it is needed."""
    sys.excepthook = _print_error
    threading.excepthook = _print_thread_error
    sys.unraisablehook = _print_unraisable
    warnings.showwarning = _print_warning
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PlainLines(_safe_text))


def _safe_text(text: str) -> str:
    from finclaw.redaction.redact import redact_for_display  # noqa: PLC0415  start-up: most runs end without it

    return escape_lines(redact_for_display(text))


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(_safe_text("".join(traceback.format_exception(kind, error, trace))))


def _print_warning(  # the interpreter's own signature
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    text = warnings.formatwarning(message, category, filename, lineno, line)
    (file or sys.stderr).write(_safe_text(text))


def _print_thread_error(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        sys.stderr.write(f"in the thread {'?' if args.thread is None else args.thread.name}:\n")
        _print_error(args.exc_type, args.exc_value, args.exc_traceback)


def _print_unraisable(args: "sys.UnraisableHookArgs") -> None:
    if args.exc_value is not None:
        sys.stderr.write(f"{args.err_msg or 'an error that could not be raised'}:\n")
        _print_error(args.exc_type, args.exc_value, args.exc_traceback)
