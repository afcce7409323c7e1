"""Directives: options such as `/think high` in front of a message, or alone for the session.

They are read before anything else looks at the message, and the model never sees them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from finclaw.commands.declaration import Directive, directive_of
from finclaw.commands.registry import CommandRegistry
from finclaw.commands.words import describe_options, join_roles, say
from finclaw.errors import ModelUnknown
from finclaw.kernel.chunk import Model
from finclaw.kernel.envelope import NO_OPTIONS, TurnOptions
from finclaw.kernel.port import Command, CommandScope

DEFAULTS: Final = frozenset({"default", "기본", "기본값"})
"""Words behind a directive that give the choice back to the settings."""
NOT_CHOSEN: Final[Mapping[str, tuple[str, ...]]] = {"model": ("owner",)}
"""Roles that a directive needs where the settings name none: models differ in price."""
_WORD: Final = re.compile(r"(\S+)\s*")


class SessionOptions(Protocol):
    """Where the options are kept that hold for a session."""

    def find(self, session: str) -> TurnOptions: ...
    async def keep(self, session: str, options: TurnOptions) -> None: ...  # on disk when it returns


class GivenDirective(Struct, frozen=True):
    command: Command
    directive: Directive
    word: str  # what was written behind it; empty: nothing that belongs to it

    @property
    def is_default(self) -> bool:
        return self.word.casefold() in DEFAULTS

    @property
    def value(self) -> str | None:
        """What it sets; None: the word is no value."""
        if self.is_default:
            return self.directive.default or None
        if not self.word:
            return self.directive.bare
        return self.directive.read(self.word)


class DirectiveLine(Struct, frozen=True):
    """A message that begins with directives, and where its other words begin."""

    given: tuple[GivenDirective, ...]
    rest: int


class Directives:
    def __init__(
        self,
        registry: CommandRegistry,
        prefix: str,
        options: SessionOptions | None,
        find_model: Callable[[str | None], Model] | None,
        roles: Mapping[str, Sequence[str]],
    ) -> None:
        """`find_model` gives the model of a name, or the usual one, and raises ModelUnknown."""
        self._registry = registry
        self._prefix = prefix
        self._options = options
        self._find_model = find_model
        self._roles = {**NOT_CHOSEN, **roles}

    def parse(self, text: str, start: int) -> DirectiveLine | None:
        """The directives at the start of a text. None: there are none, or only one that asks for its value."""
        given: list[GivenDirective] = []
        at = start
        while (found := self._read(text, at)) is not None:
            given.append(found[0])
            at = found[1]
        asks = len(given) == 1 and not given[0].word and given[0].directive.bare is None and at == len(text)
        if not given or asks:
            return None
        return DirectiveLine(tuple(given), at)

    def _read(self, text: str, at: int) -> tuple[GivenDirective, int] | None:
        first = _WORD.match(text, at)
        if first is None or not first[1].startswith(self._prefix):
            return None
        command = self._registry.get(first[1].removeprefix(self._prefix))
        directive = directive_of(command)
        if command is None or directive is None:
            return None
        behind = _WORD.match(text, first.end())
        if behind is None or behind[1].startswith(self._prefix):
            return GivenDirective(command, directive, ""), first.end()
        one = GivenDirective(command, directive, behind[1])
        if one.value is None and not one.is_default and directive.bare is not None:
            return GivenDirective(command, directive, ""), first.end()  # the word belongs to the message
        return one, behind.end()

    def find_objection(self, given: Sequence[GivenDirective], scope: CommandScope, *, alone: bool) -> str | None:
        """Why one of them is not allowed for this person, agent or model, in words for the person."""
        for each in given:
            shown = f"{self._prefix}{each.command.name}"
            language = scope.language
            roles = (*self._roles.get(each.command.name, ()), *each.command.roles)
            if roles and not set(roles) & set(scope.sender.roles):
                which = "roles" if alone else "inline_roles"
                return say(which, language, shown, join_roles(roles, language))
            if each.value is None and not each.is_default:
                values = ", ".join((*each.directive.values, "default"))
                return say("bad_value" if each.word else "no_value", language, shown, values, each.word[:50])
        return self._find_model_objection(given, scope)

    def _find_model_objection(self, given: Sequence[GivenDirective], scope: CommandScope) -> str | None:
        wanted = set_options(self._read_kept(scope.session), given)
        if self._find_model is None or not any(each.directive.option in ("model", "thinking") for each in given):
            return None
        try:
            model = self._find_model(wanted.model)
        except ModelUnknown:
            return say("no_model", scope.language, (wanted.model or "")[:100], f"{self._prefix}model")
        thinks = any(each.directive.option == "thinking" for each in given) and wanted.thinking not in (None, "off")
        if thinks and not model.features.thinking:
            return say("no_thinking", scope.language, model.id, f"{self._prefix}think")
        return None

    async def keep(self, given: Sequence[GivenDirective], scope: CommandScope) -> str:
        """Set them for the session; gives what to tell the person."""
        kept = set_options(self._read_kept(scope.session), given)
        if self._options is not None:
            await self._options.keep(scope.session, kept)
        set_now = {each.directive.option: each.value or "" for each in given}
        lines = describe_options(set_now, scope.language)
        if all(each.is_default for each in given):
            return say("given_back", scope.language, lines)
        first = next(each for each in given if not each.is_default)
        return say("kept", scope.language, lines, self._prefix, first.command.name)

    def _read_kept(self, session: str) -> TurnOptions:
        return NO_OPTIONS if self._options is None else self._options.find(session)


def set_options(options: TurnOptions, given: Sequence[GivenDirective]) -> TurnOptions:
    """The options of a session with these set, and those given back that the settings shall decide."""
    changes = {each.directive.option: None if each.is_default else each.value for each in given}
    return replace(options, **changes)


def apply_options(options: TurnOptions | None, given: Sequence[GivenDirective]) -> TurnOptions:
    """The options of one message with these set; what shall be as in the settings is set to their value."""
    return replace(options or NO_OPTIONS, **{each.directive.option: each.value for each in given})
