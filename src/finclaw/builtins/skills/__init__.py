"""The skills extension: skills of a directory are listed by name, and given as passing messages when they are needed.

A skill is given for its words (`when`), for its command, or when the model asks for it with `skills__use`. It is given
once in a turn, and the conversation never keeps it. An edit counts from the next turn on.
"""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.builtins.note import note_under, put_note, waits_for_results
from finclaw.builtins.skills.folder import CODE_FILE, Contents, read_folder, record_of
from finclaw.builtins.skills.skill import BadSkill, Skill
from finclaw.builtins.skills.skill_directory import SkillDirectory
from finclaw.errors import ExtensionError, ToolError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.extension import ExtensionApi, Finding
from finclaw.kernel.message import Append
from finclaw.kernel.port import LayerCommand, Tool, ToolOutput, ToolScope
from finclaw.kernel.scope import StepContext, StepResult, TurnContext, TurnResult
from finclaw.taint.sources import is_typed
from finclaw.text import shorten
from finclaw.tools.define import tool

KEY: Final = "skills"
USE: Final = "skills__use"
_ABOUT: Final = (
    "Gives you the instructions of a skill, for this turn. Use it before you begin what one of these is about:"
)
_MOST_LISTED: Final = 100
_LONGEST_ABOUT: Final = 400  # characters of a description in the list
INNERMOST: Final = 100
"""A layer that narrows the catalog has done so by then, and what a skill needs is put back."""


class SkillSettings(Struct, frozen=True, forbid_unknown_fields=True):
    directory: str
    """Where they are: a folder with a `SKILL.md` for each, and perhaps short texts, one `.md` file each."""
    enabled: tuple[str, ...] | None = None
    """The only ones that are known, by name; null: all there are."""
    channels: Mapping[str, tuple[str, ...]] = {}
    """For a channel the only ones that are known there; what `enabled` leaves out stays out."""
    code: bool = False
    """Whether the Python tools in a skill's `tools.py` are loaded: those that `finclaw skills add` put there."""
    prefix: Annotated[str, Meta(min_length=1)] = "/"
    """What stands before the commands of skills, as `commands.prefix` does before all others."""
    longest: Annotated[int, Meta(ge=1)] = 20_000
    """Characters of one text. A longer one is not given: half an instruction may say the opposite."""
    most: Annotated[int, Meta(ge=1)] = 60_000
    """Characters of all that are given in one turn; the first by name come first."""


class Use(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=64, description="The skill's name, as listed.")]


@dataclass(slots=True)
class _Turn:
    """What one turn may use, what it was given, and how much more it can be."""

    usable: Mapping[str, Skill]
    room: int
    given: dict[str, Skill] = field(default_factory=dict[str, Skill])


class Skills:
    name = "skills"

    def __init__(self, settings: SkillSettings) -> None:
        self._settings = settings
        self._directory = Path(settings.directory).expanduser().absolute()
        self._turns: dict[str, _Turn] = {}
        self._owned: Mapping[str, str] = {}
        """The skill that each tool from a `tools.py` belongs to."""

    def register(self, api: ExtensionApi) -> None:
        if not self._directory.is_dir():
            raise ExtensionError(f"there is no directory {self._directory}; make it, or set `directory` to another")
        self._logger = api.logger
        self._skill_directory = SkillDirectory(self._directory, self._settings.longest, api.logger)
        known = {skill.name: skill for skill in self._skill_directory.skills() if self._is_enabled(skill)}
        for name in sorted(set(self._settings.enabled or ()) - set(known)):
            api.logger.warning("the skill %s is enabled, and there is none in %s", name, self._directory)
        if self._settings.code:
            self._owned = _load_tools(self._directory, known, api)
        api.tools.register(self._tool())
        api.commands.mention(self._commands)
        api.doctor.check("skills", self._look)
        api.pipeline.register("turn", self.give)
        api.pipeline.register("step", self.offer, priority=INNERMOST)

    # ── which ───────────────────────────────────────────────────────────────────────────────────────────────

    def _is_enabled(self, skill: Skill) -> bool:
        return self._settings.enabled is None or skill.name in self._settings.enabled

    def _is_usable(self, skill: Skill, channel: str, tools: set[str]) -> bool:
        """By the agent's list, the channel's list, and the skill's own: all three must have it."""
        here = self._settings.channels.get(channel)
        return (
            self._is_enabled(skill)
            and (here is None or skill.name in here)
            and (not skill.channels or channel in skill.channels)
            and tools.issuperset(skill.tools)
        )

    def _begin(self, ctx: TurnContext) -> _Turn:
        inbound = ctx.context.inbound
        channel = inbound.channel
        if inbound.limits is not None and inbound.limits.pool == "subagent":
            channel = inbound.account  # that of the turn that delegated it
        tools = {spec.name for spec in ctx.tool_catalog}
        usable = {each.name: each for each in self._skill_directory.skills() if self._is_usable(each, channel, tools)}
        return _Turn(usable, self._settings.most)

    def _look(self) -> Finding:
        left_out = self._skill_directory.left_out()
        if not left_out:
            return Finding("ok", f"{len(self._skill_directory.skills())} in {self._directory}")
        why = "; ".join(f"{name} is not given: {reason}" for name, reason in left_out.items())
        return Finding("warning", why, "`finclaw skills list` shows them")

    def _commands(self) -> dict[str, LayerCommand]:
        return {
            command.name: LayerCommand(command.description or skill.description, command.roles)
            for skill in self._skill_directory.skills()
            if self._is_enabled(skill)
            for command in skill.commands
        }

    # ── given ───────────────────────────────────────────────────────────────────────────────────────────────

    async def give(self, ctx: TurnContext) -> TurnResult:
        turn = self._turns[ctx.ids["turn_id"]] = self._begin(ctx)
        command = self._command(ctx)
        try:
            for skill in turn.usable.values():
                called = any(each.name.casefold() == command for each in skill.commands)
                if called or skill.fits(ctx.input.text):
                    self._put(ctx, turn, skill, command if called else "")
            return await ctx.next()
        finally:
            self._turns.pop(ctx.ids["turn_id"], None)

    def _command(self, ctx: TurnContext) -> str:
        """The one that was typed. Commands of the gateway never get here; what it does not know, does."""
        if not is_typed(ctx.context.as_accepted):
            return ""
        first, *_ = ctx.context.command_text.split(maxsplit=1) or [""]
        prefix = self._settings.prefix
        if not first.startswith(prefix):
            return ""
        return first.removeprefix(prefix).casefold()

    def _put(self, ctx: TurnContext, turn: _Turn, skill: Skill, command: str = "") -> None:
        if skill.name in turn.given:
            return
        if len(skill.text) > turn.room:
            self._logger.warning("more skills fit than may be given; %s was left out", skill.name)
            return
        key = f"{KEY}/{skill.name}"
        if waits_for_results(ctx.conversation) and note_under(ctx.conversation, key) is None:
            return  # a crash left calls open; the step after them comes here again
        turn.room -= len(skill.text)
        turn.given[skill.name] = skill
        put_note(ctx, key, _skill_text(skill, command, self._settings.prefix))

    # ── offered ─────────────────────────────────────────────────────────────────────────────────────────────

    async def offer(self, ctx: StepContext) -> StepResult:
        turn = self._turns[ctx.ids["turn_id"]]
        for name in _asked_for(ctx.turn):
            if skill := turn.usable.get(name):
                self._put(ctx.turn, turn, skill)
        ctx.tool_catalog = self._offered_tools(ctx, turn)
        return await ctx.next()

    def _offered_tools(self, ctx: StepContext, turn: _Turn) -> tuple[ToolSpec, ...]:
        """The step's catalog with what the given skills need, and without the tools of those that were not given."""
        allowed = {spec.name: spec for spec in ctx.turn.tool_catalog}
        needed = {name for skill in turn.given.values() for name in skill.tools}
        needed |= {name for name, skill in self._owned.items() if skill in turn.given}
        chosen = {spec.name: spec for spec in ctx.tool_catalog if self._owned.get(spec.name, "") in ("", *turn.given)}
        chosen |= {name: allowed[name] for name in needed & allowed.keys() if name not in chosen}
        chosen.pop(USE, None)
        listed = [
            f"- {skill.name}: {shorten(skill.description, _LONGEST_ABOUT)}"
            for skill in turn.usable.values()
            if skill.description
        ][:_MOST_LISTED]
        if listed and USE in allowed:
            chosen[USE] = self._spec_about("\n".join((_ABOUT, *listed)))
        return tuple(chosen[name] for name in sorted(chosen))

    def _tool(self) -> Tool:
        @tool(USE, "Gives you the instructions of a skill.", group="tools")
        async def use(args: Use, scope: ToolScope) -> ToolOutput:
            return ToolOutput(self._use(args.name, scope))

        @lru_cache(maxsize=32)  # the same object for the same list: the caches of requests compare by identity
        def spec_about(about: str) -> ToolSpec:
            return replace(use.spec, description=about)

        self._spec_about = spec_about
        return use

    def _use(self, name: str, scope: ToolScope) -> str:
        turn = self._turns.get(scope.turn_id) or _Turn({}, 0)
        skill = turn.usable.get(name)
        if skill is None or not skill.description:
            known = ", ".join(each.name for each in turn.usable.values() if each.description) or "none"
            raise ToolError(f"there is no skill {name!r} here; there are: {known}")
        if name not in turn.given and len(skill.text) > turn.room:
            raise ToolError(f"{name} does not fit beside the skills that this turn was given; go on with those")
        return f"the instructions of {name} follow as a message of the gateway, for this turn only"


def _asked_for(turn: TurnContext) -> Iterator[str]:
    """Read from the turn's log, so that a turn that resumes after a crash is given the same."""
    for event in turn.conversation.events:
        if not isinstance(event, Append):
            continue
        for call in event.message.tool_calls:
            name = call.args.get("name")
            if call.name == USE and isinstance(name, str):
                yield name


def _skill_text(skill: Skill, command: str, prefix: str) -> str:
    if not skill.description:
        return skill.text
    heading = f"The skill {skill.name}, installed by whoever runs this gateway"
    if command:
        heading += f"; the person asked for it with {prefix}{command}, and what follows that is its input"
    return f"[{heading}]\n{skill.text}"


# ── Python tools of skills, loaded only if the operator allows it and only as they were added ────────────────


def _load_tools(directory: Path, skills: Iterable[str], api: ExtensionApi) -> dict[str, str]:
    """Register the tools; return the skill of each tool. Raises ExtensionError, which stops the start."""
    owned: dict[str, str] = {}
    for name in skills:
        contents = _trusted_contents(directory / name, api.logger)
        if contents is None:
            continue
        for each in _run_code(name, contents):
            api.tools.register(each)
            owned[each.spec.name] = name
        api.logger.info("the tools of the skill %s are loaded, sha256 %s", name, contents.digest)
    return owned


def _trusted_contents(folder: Path, logger: logging.Logger) -> Contents | None:
    """What is run is what was read and compared, and not what lies on the disk a moment later."""
    if not folder.is_dir():  # a text
        return None
    try:
        contents = read_folder(folder)
        record = record_of(folder)
    except (OSError, BadSkill) as error:
        logger.warning("the tools of the skill %s are not loaded: %s", folder.name, error)
        return None
    if not contents.has_code:
        return None
    if record is not None and record.sha256 == contents.digest:
        return contents
    why = "it was changed since it was added" if record else "it was not added with `finclaw skills add`"
    again = "look at it, and add it again"
    logger.warning("the tools of the skill %s are not loaded: %s; %s", folder.name, why, again)
    return None


def _run_code(skill: str, contents: Contents) -> Iterator[Tool]:
    module = ModuleType(f"_finclaw_skill_{contents.digest[:16]}")
    module.__file__ = f"{skill}/{CODE_FILE}"
    sys.modules[module.__name__] = module  # annotations are looked up there
    try:
        exec(compile(contents.files[CODE_FILE], module.__file__, "exec"), module.__dict__)
    except Exception as error:  # a stranger's code, which must be named when it fails
        del sys.modules[module.__name__]
        raise ExtensionError(f"{module.__file__} cannot be run: {type(error).__name__}: {error}") from error
    tools: Any = getattr(module, "TOOLS", None)
    if not isinstance(tools, list | tuple):
        raise ExtensionError(f"{module.__file__} has no list TOOLS; put its tools there")
    for each in cast("Iterable[Tool]", tools):
        if not each.spec.name.startswith(f"{skill}__"):
            raise ExtensionError(f"{module.__file__}: call the tool {each.spec.name!r} {skill}__… as its skill")
        yield each


name = Skills.name


def register(api: ExtensionApi) -> None:
    Skills(api.read_settings(SkillSettings)).register(api)
