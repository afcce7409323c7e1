"""`finclaw NAME` where NAME is not ours: only then are the settings read and the extensions loaded."""

import inspect
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from finclaw.builtin_extensions import load_registrar
from finclaw.cli.extension_services import services
from finclaw.cli.options import settings_from
from finclaw.cli.parser import Parser, extension_parser
from finclaw.config.words import did_you_mean
from finclaw.errors import ConfigError, ExtensionError, FinclawError
from finclaw.extensions.attribution import attribute_error, origin_of
from finclaw.extensions.registration import CliCommand


def run(ours: Parser, name: str, rest: Sequence[str]) -> int:
    """The exit code of an extension's command. Raises SystemExit(2) with the usual complaint when there is none."""
    theirs = _load_commands(ours, name, rest)
    command = next((each for each in theirs if each.name == name), None)
    if command is None:
        names = [*ours.commands, *(each.name for each in theirs)]
        hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
        ours.error(f"{name!r} is no command{hint}")
    parser = extension_parser(name, command.about)
    return _run_command(command, parser, rest)


def _load_commands(ours: Parser, name: str, rest: Sequence[str]) -> Sequence[CliCommand]:
    where, _ = extension_parser(name, "", add_help=False).parse_known_args(rest)
    try:
        settings = settings_from(where)
        return load_registrar(settings, services(settings)).cli
    except (ConfigError, ExtensionError):
        if did_you_mean(name, ours.commands):  # a slip of the finger is told first
            return ()
        raise


def _run_command(command: CliCommand, parser: Parser, rest: Sequence[str]) -> int:
    try:
        command.arguments(parser)
        args: Namespace = parser.parse_args(rest)
        code: Any = command.run(args)
    except (FinclawError, OSError):
        raise
    except Exception as error:  # an extension is a stranger; its failure ends in one line like any other
        raise attribute_error(command.extension, origin_of(command.run), error) from error
    if inspect.iscoroutine(code):
        code.close()
        raise ExtensionError(
            f"extension {command.extension!r}: a command's function must not be async; use asyncio.run"
        )
    return code if isinstance(code, int) else 0
