"""argparse in our own voice: one line that names the thing and says what to do, and a tree that can be walked."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, cast

from finclaw.config.words import did_you_mean


class Parser(argparse.ArgumentParser):
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
        """What may stand where no option stands, where that is a choice of few."""
        if self.commands:
            return tuple(self.commands)
        for action in self._actions:
            if not action.option_strings and action.choices and not isinstance(action.choices, dict):
                return tuple(action.choices)
        return ()

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of what stands where no option stands, as its usage has them."""
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
        from finclaw.cli.chat.clean import escape_controls  # noqa: PLC0415  few runs end here
        from finclaw.tools.guard.told import without_secrets  # noqa: PLC0415

        said = without_secrets(message.removeprefix("argument ").encode(errors="replace").decode())
        text = escape_controls(said)
        with suppress(OSError, AttributeError):  # a closed or missing standard error, which not every Python forgives
            sys.stderr.write(f"finclaw: {text}{' See' if text.endswith('?') else '; see'}: {self.prog} --help\n")
        raise SystemExit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(each) for each in action.choices]
        hint = did_you_mean(str(value), known) or f"; there are {', '.join(known)}"
        what = "command" if isinstance(action.choices, dict) else "choice"
        raise argparse.ArgumentError(None, f"{str(value)!r} is no {what}{hint}")
