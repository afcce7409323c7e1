"""Commands as the settings want them: without those that are disabled, with more names and other cooldowns."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.kernel.port import Command, names_of
from finclaw.text import suggest_name


class CommandOverrides(Struct, frozen=True, kw_only=True):
    disabled: Collection[str] = ()
    aliases: Mapping[str, str] = {}
    cooldown_s: Mapping[str, float] = {}

    def apply(self, commands: Iterable[Command]) -> list[Command]:
        off = {name.casefold() for name in self.disabled}
        return [self._override(each) for each in commands if off.isdisjoint(map(str.casefold, names_of(each)))]

    def disabled_names(self, commands: Iterable[Command]) -> frozenset[str]:
        off = {name.casefold() for name in self.disabled}
        every = ([name.casefold() for name in names_of(each)] for each in commands)
        return frozenset(name for names in every if not off.isdisjoint(names) for name in names)

    def check(self, commands: Sequence[Command]) -> None:
        """Raises ConfigError for the name of a command that is not there, and for an alias that is taken."""
        known = {name.casefold(): each for each in commands for name in names_of(each)}
        wanted = {"disabled": self.disabled, "aliases": self.aliases.values(), "cooldown_s": self.cooldown_s}
        for key, name in ((key, name) for key, names in wanted.items() for name in names):
            if name.casefold() not in known:
                hint = suggest_name(name.casefold(), known)
                raise ConfigError(f"commands.{key} names {name!r}, which is no command{hint}")
        for alias in self.aliases:
            if (owner := known.get(alias.casefold())) is not None:
                raise ConfigError(f"commands.aliases has {alias!r}, a name of {owner.name} already; take another")

    def _override(self, command: Command) -> Command:
        names = {name.casefold() for name in names_of(command)}
        aliases = [alias for alias, name in self.aliases.items() if name.casefold() in names]
        pauses = [seconds for name, seconds in self.cooldown_s.items() if name.casefold() in names]
        if not aliases and not pauses:
            return command
        cooldown = [getattr(command, "cooldown", 0.0), *pauses][-1]
        return cast("Command", OverriddenCommand(command, (*command.aliases, *aliases), cooldown))


NO_OVERRIDES: Final = CommandOverrides()


class OverriddenCommand:
    """A command with other aliases and another cooldown. All else is the command's own, whatever that has."""

    def __init__(self, command: Command, aliases: tuple[str, ...], cooldown: float) -> None:
        self._command = command
        self.aliases = aliases
        self.cooldown = cooldown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._command, name)
