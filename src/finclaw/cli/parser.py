"""The parser of the command line, built from the commands; its errors are one line that says what to do."""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Final, NoReturn, cast

from finclaw.cli.arguments import add_state_options, to_sentence
from finclaw.text import did_you_mean, suggest_name

# The help texts stand here and not in the commands' modules: `finclaw --help` lists them all, and to import all
# commands takes half a second. Only the module of the command that was typed is imported (start-up time,
# docs/performance.md).
COMMANDS: Final[dict[str, str]] = {
    "serve": "run the gateway until Ctrl-C",
    "chat": "talk: a line, its answer, and again",
    "ask": "ask one question and print the answer",
    "status": "say whether a gateway runs, and how many sessions and messages it has",
    "sessions": "look at conversations, copy, export, import, repair, reset and erase them",
    "skills": "list, add and remove what the agent knows how to do",
    "memory": "list, forget and export the notes that people asked to be remembered",
    "people": "list persons, and say how somebody likes to be answered",
    "instruments": "find stocks, funds, coins and rates by code or name; add records, fetch current lists",
    "mcp": "look at the tools of MCP servers, approve them, or serve our own to another assistant",
    "channels": "list where people can write, and test whether a channel can be reached",
    "forget": "erase everything that one person said, for good",
    "backup": "write everything into one file, also while the gateway runs",
    "restore": "replace the state with a backup; the old state is kept beside it",
    "prune": "remove conversations and messages that nobody has used for long",
    "approvals": "list, approve and deny what needs an approval; list and revoke grants",
    "tools": "list the tools, where they come from, and whether they may run",
    "explain": "say why a tool may run, must be approved, or is denied",
    "init": "make a state directory, a token and a settings file with everything explained",
    "config": "check the settings, or show the values in effect",
    "doctor": "check everything that could be wrong, and say what to do; it changes nothing",
    "extensions": "list the extensions, in order, with what each adds; or make a new one",
    "models": "list the models that can be used: windows, prices, what they can do",
    "turns": "list the latest turns",
    "costs": "show what the models have cost, by day, model, person or agent, and what caching saved",
    "trace": "show what a turn did: its steps, calls, times and costs",
    "replay": "run a recorded turn again, offline, and show what would come out differently",
    "completion": "print a script that lets your shell complete commands and options",
}


def import_command(name: str) -> ModuleType:
    return importlib.import_module(f"finclaw.cli.commands.{name}")


class Parser(argparse.ArgumentParser):
    """An argument parser with errors in one line, whose commands and options can be listed."""

    @property
    def commands(self) -> dict[str, "Parser"]:
        """By name. Empty for a command that has no actions of its own."""
        for action in self._actions:
            if isinstance(action.choices, dict):
                return cast("dict[str, Parser]", action.choices)
        return {}

    @property
    def options(self) -> list[argparse.Action]:
        return [action for action in self._actions if action.option_strings]

    @property
    def words(self) -> tuple[str, ...]:
        choices = (action.choices for action in self._actions if action.choices and not action.option_strings)
        return tuple(next(choices, ()))

    @property
    def takes(self) -> tuple[str, ...]:
        return tuple(str(action.metavar) for action in self._actions if not action.option_strings)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # pyright: ignore
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            command = self.commands.get(parsed.command, self)
            at = command.commands.get(getattr(parsed, "action", ""), command)
            known = [name for action in at.options for name in action.option_strings]
            at.error(f"unknown argument {rest[0]}{did_you_mean(rest[0].partition('=')[0], known)}")
        return parsed

    def error(self, message: str) -> NoReturn:
        from finclaw.redaction.redact import redact_for_display  # noqa: PLC0415  start-up: as above
        from finclaw.text import escape_controls  # noqa: PLC0415  start-up: few runs end here

        redacted = redact_for_display(message.removeprefix("argument ").encode(errors="replace").decode())
        text = escape_controls(redacted)
        text += " See" if text.endswith("?") else "; see"
        with suppress(OSError, AttributeError):  # a closed or missing standard error, which not every Python forgives
            sys.stderr.write(f"finclaw: {text}: {self.prog} --help\n")
        raise SystemExit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        what = "command" if isinstance(action.choices, dict) else "choice"
        raise argparse.ArgumentError(None, f"{str(value)!r} is no {what}{suggest_name(str(value), known)}")


def build_parser(only: str | None = None) -> Parser:
    parser, add_command = _start_parser()
    for name, about in COMMANDS.items():
        if only in (None, name):
            import_command(name).arguments(add_command(name, about))
    return parser


def build_overview() -> Parser:
    """A parser that knows the commands by name alone, for `finclaw --help` and for a command that is none of them."""
    parser, add_command = _start_parser()
    for name, about in COMMANDS.items():
        add_command(name, about)
    return parser


def _start_parser() -> tuple[Parser, Callable[[str, str], Parser]]:
    parser = Parser(
        prog="finclaw",
        description="Talk to a finance agent from the chats you already use.",
        epilog='Try: finclaw ask "What is AAPL trading at?" Extensions may add commands: finclaw extensions',
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog=parser.prog)

    def add_command(name: str, about: str) -> Parser:
        return commands.add_parser(name, help=about, description=to_sentence(about), allow_abbrev=False)

    return parser, add_command


def extension_parser(name: str, about: str, *, add_help: bool = True) -> Parser:
    parser = Parser(prog=f"finclaw {name}", description=about, add_help=add_help, allow_abbrev=False)
    parser.set_defaults(command=name)
    add_state_options(parser)
    return parser
