"""The entry point of the command line: find the command, run it, and end every failure in one clear line."""

import contextlib
import errno
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Final, cast

from finclaw import __version__
from finclaw.cli.arguments import unread_file_hint
from finclaw.cli.parser import COMMANDS, Parser, build_overview, build_parser, import_command
from finclaw.cli.process_setup import collect_rarely, install_excepthooks, skip_collection_at_exit
from finclaw.errors import ConfigError, FinclawError, StateBusy

OK = 0
FAILED = 1
MISUSED = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 failed, 2 wrongly used or configured, 130 interrupted."""
    if argv is None:  # this process is ours alone
        argv = sys.argv[1:]
        install_excepthooks()
        collect_rarely()
        skip_collection_at_exit()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore  an answer is worth more than a perfect character
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  closed by whoever started us
        text = "standard output is closed, so nobody would see an answer; send it to /dev/null instead"
        return _complain(text, FAILED)
    try:
        code = _run(argv)
        _flush()
    except FinclawError as error:
        return _complain_of(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _discard_output()
    except OSError as error:
        # If it was the output that failed, what is left of it must not fail once more at the interpreter's end.
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        text = f"{error.strerror or error}; {_advice(error)}"
        return _complain(f"{error.filename}: {text}" if error.filename else text, FAILED)
    return code


def _run(argv: Sequence[str]) -> int:
    parser = _parser_for(argv)
    if argv and not argv[0].startswith("-") and argv[0] not in parser.commands:
        from finclaw.cli import extension_command  # noqa: PLC0415  start-up: it loads the extensions

        _close_to_other_processes()
        return extension_command.run(parser, argv[0], argv[1:])
    args = parser.parse_args(argv)
    if args.version:
        print(f"finclaw {__version__}")
        return OK
    if args.command is None:
        parser.print_help(sys.stderr)
        return MISUSED
    if args.command in _HOLDS_KEYS:
        _close_to_other_processes()
    if args.command in _USES_SETTINGS and (hint := unread_file_hint(args)):
        _complain(hint, OK)
    run = cast("Callable[[Namespace], int | None]", import_command(args.command).run)
    return run(args) or OK


_HOLDS_KEYS: Final = ("serve", "chat", "ask", "channels", "mcp", "replay")
"""What asks models or runs other people's programs: it has keys in its environment and in its memory."""


def _close_to_other_processes() -> None:
    """No other process of the same user reads our environment or memory, such as a program that is an MCP server. Then
    there are no core dumps either."""
    from finclaw.tools.process.process_tree import set_dumpable  # noqa: PLC0415  start-up: most commands hold no keys

    set_dumpable(dumpable=False)


_USES_SETTINGS: Final = (
    *("serve", "chat", "channels", "extensions", "config", "doctor", "models", "tools", "explain", "skills"),
    "instruments",
)


def _parser_for(words: Sequence[str]) -> Parser:
    """Of the command that is typed alone, so that no other command's module is imported."""
    if words and words[0] in COMMANDS:
        return build_parser(only=words[0])
    if words and words[0].startswith("-") and not COMMANDS.keys().isdisjoint(words):
        return build_parser()
    return build_overview()


def _flush() -> None:
    """A reader who left, or a full disk, is noticed here and not by the interpreter's last breath."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard_output()
        raise FinclawError(f"cannot write to standard output: {error.strerror}; {_advice(error)}") from error


def _complain_of(error: FinclawError) -> int:
    if isinstance(error, StateBusy):
        option = "" if "--state" in str(error) else " with --state DIR"  # only a command line knows this option
        return _complain(f"{error}{option}", FAILED)
    return _complain(str(error), MISUSED if isinstance(error, ConfigError) else FAILED)


def _complain(text: str, code: int) -> int:
    # Somebody will paste this line where others read it.
    from finclaw.redaction.redact import redact_for_display  # noqa: PLC0415  start-up: as above
    from finclaw.text import escape_controls  # noqa: PLC0415  start-up: few runs end in an error

    one_line = escape_controls(redact_for_display(text))  # a path may hold anything
    with contextlib.suppress(OSError, AttributeError):  # a closed or missing standard error
        sys.stderr.write(f"finclaw: {one_line}\n")
    return code


def _discard_output() -> int:
    # The interpreter flushes once more at its end; that must find an open file.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _advice(error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return "free some space and try again"
        case errno.EFBIG:
            return "a limit on the size of files is in the way; raise it with: ulimit -f unlimited"
        case errno.EMFILE | errno.ENFILE:
            return "too many files are open; raise the limit with: ulimit -n 4096"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "give yourself the right to write there, or choose another place with --state DIR"
        case _:
            return "`finclaw doctor` looks for the cause"
