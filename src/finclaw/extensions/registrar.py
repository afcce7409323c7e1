"""The registrar of extensions. An extension that fails leaves nothing behind and is named with its line."""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from finclaw.agent.prompt.sections import Section
from finclaw.delivery.visible import Check
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ConfigError, ExtensionError
from finclaw.extensions.api import Api, tool_registered
from finclaw.extensions.loading import LocatedExtension, as_builtin, attribute_error
from finclaw.extensions.registration import (
    NULL_SERVICES,
    CliCommand,
    ExtensionRegistry,
    Recurring,
    Registered,
    Services,
)
from finclaw.kernel.context import ContextField
from finclaw.kernel.event import ToolUnregistered
from finclaw.kernel.extension import Extension
from finclaw.kernel.middleware import Layer
from finclaw.kernel.port import Command, ExtensionRoute, LayerCommand, names_of
from finclaw.text import suggest_name
from finclaw.tools.registry import ToolRegistry

log = logging.getLogger(__name__)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
CLOSE_GRACE: Final = 2.0
"""Seconds for each thing an extension wants to do at the end; then it is left behind."""


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


class Registrar:
    def __init__(
        self, events: EventStream, services: Services = NULL_SERVICES, overrides: CommandOverrides = NO_OVERRIDES
    ) -> None:
        self.events = events
        self._overrides = overrides
        self.services = services
        self.tools = ToolRegistry(services.clock)
        self._registry = ExtensionRegistry(events, services, self.tools)
        self.loaded: Sequence[Registered] = self._registry.loaded
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self.sections: list[Section] = []
        self.fields: list[ContextField] = []
        self.checks: list[Check] = []
        self.recurring: list[Recurring] = []
        self.routes: list[ExtensionRoute] = []
        self.cli: list[CliCommand] = []

    def load(self, extensions: Iterable[Extension | LocatedExtension]) -> None:
        """In order. Raises ExtensionError; what was loaded before stays, for the caller to close."""
        for extension in extensions:
            self._load(extension if isinstance(extension, LocatedExtension) else as_builtin(extension, ""))

    def _load(self, found: LocatedExtension) -> None:
        mine = Registered(found.name, found.origin, found.why, found.settings, found.follow)
        try:
            self._must_be_new(found.name)
            answer = cast("object", found.register(Api(mine, self._registry)))
            if inspect.iscoroutine(answer):
                answer.close()
            if inspect.isawaitable(answer):
                raise ExtensionError("register(api) must be a plain function, without `async`")
        except (Exception, SystemExit) as error:  # loading an extension is where a stranger's failure is contained
            self._undo(mine)
            if isinstance(error, ConfigError):  # the operator's to mend, and no line of the extension's
                raise ConfigError(f"extension {mine.name!r}: {error}") from error
            raise attribute_error(mine.name, mine.origin, error) from error
        finally:
            self._closers += mine.closers  # also of one that failed: what it had opened by then is closed
        mine.stage = "loaded"
        self._registry.loaded.append(mine)
        self.sections += mine.sections
        self.fields += mine.fields
        self.checks += mine.checks
        self.recurring += mine.recurring
        self.routes += mine.routes
        self.cli += mine.cli
        for tool in mine.tools:
            self.events.emit(tool_registered(mine, tool))

    def _must_be_new(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ExtensionError(f"{name!r} is no name for an extension; set `name` to letters, digits, '-' and '_'")
        # Its database is a file of that name, and some disks take two spellings for one.
        if any(each.name.casefold() == name.casefold() for each in self._registry.loaded):
            raise ExtensionError("there is an extension of that name already; set another `name`, or list it once")

    def _undo(self, mine: Registered) -> None:
        mine.stage = "closed"
        for tool in mine.tools:
            self.tools.unregister(tool.spec.name)
        for stop in mine.stop_observing:
            stop()

    @property
    def strangers(self) -> Sequence[str]:
        """The names of those that are not our own: as_builtin are loaded with a reason for their place."""
        return [each.name for each in self.loaded if not each.why]

    def layers(self, ring: str) -> tuple[Layer[Any, Any], ...]:
        return tuple(layer for each in self.loaded for kind, layer in each.layers if kind == ring)

    @property
    def commands(self) -> list[Command]:
        """Those that people may use, as the settings want them."""
        return self._overrides.apply(self._registered_commands())

    @property
    def disabled_commands(self) -> frozenset[str]:
        return self._overrides.disabled_names(self._registered_commands())

    def check_commands(self) -> None:
        """Raises ConfigError for settings of a command that no extension has registered."""
        self._overrides.check(self._registered_commands())

    def _registered_commands(self) -> list[Command]:
        return [command for each in self.loaded for command in each.commands]

    def known_commands(self) -> tuple[str, ...]:
        """What may follow the command prefix, aliases too."""
        own = (name for command in self.commands for name in names_of(command))
        return (*own, *self.layer_commands())

    def layer_commands(self) -> dict[str, LayerCommand]:
        """Commands that layers understand. Those of an extension that cannot tell them are logged and left out."""
        found: dict[str, LayerCommand] = {}
        for each in self.loaded:
            for words in each.mentioned:
                try:
                    told = words()
                    found |= {name: LayerCommand(it) if isinstance(it, str) else it for name, it in told.items()}
                except Exception:
                    log.exception("extension %s cannot tell its commands", each.name)
        return found

    async def close(self) -> None:
        """Last registered, first closed. One that fails or hangs does not keep the others from closing."""
        while self._closers:
            await _close(self._closers.pop())
        for mine in reversed(self.loaded):
            self._undo(mine)
            for tool in mine.tools:
                self.events.emit(ToolUnregistered(tool=tool.spec.name))
            mine.tools.clear()
            if mine.database is not None:
                await _close(mine.database.close)


async def _close(close: Callable[[], Awaitable[None]]) -> None:
    try:
        closing = asyncio.ensure_future(close())
    except Exception:  # a stranger's last words must not keep the others from theirs
        log.exception("an extension could not be closed")
        return
    done, _ = await asyncio.wait([closing], timeout=CLOSE_GRACE)
    if not done:
        closing.cancel()
        log.error("an extension did not close within %g s and is left behind", CLOSE_GRACE)
    elif not closing.cancelled() and closing.exception() is not None:
        log.error("an extension could not be closed", exc_info=closing.exception())
