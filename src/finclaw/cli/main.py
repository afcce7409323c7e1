"""The way in from a terminal: find the command, run it, and end every failure in one clear line."""

import contextlib
import importlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import cast

from finclaw import __version__
from finclaw.cli.parser import build_parser
from finclaw.errors import ConfigError, FinclawError, StateBusy

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 failed, 2 wrongly used or configured, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore  an answer is worth more than a perfect character
    try:
        code = _run(argv)
        sys.stdout.flush()  # a reader who left is noticed here and not by the interpreter's last breath
    except FinclawError as error:
        return _complain(str(error), MISUSED if _is_misuse(error) else FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _nobody_reads()
    except OSError as error:
        return _complain(_in_words(error), FAILED)
    return code


def _run(argv: Sequence[str] | None) -> int:
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.version:
        print(f"finclaw {__version__}")
        return OK
    if args.command is None:
        parser.print_help(sys.stderr)
        return MISUSED
    command = importlib.import_module(f"finclaw.cli.{args.command}")
    return cast("Callable[[Namespace], int]", command.run)(args)


def _is_misuse(error: FinclawError) -> bool:
    return isinstance(error, ConfigError) and not isinstance(error, StateBusy)


def _complain(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        print(f"finclaw: {text}", file=sys.stderr)
    return code


def _nobody_reads() -> int:
    # The interpreter flushes once more at its end; that must find an open file.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _in_words(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; check that it exists, that you may write there, and that there is space"
