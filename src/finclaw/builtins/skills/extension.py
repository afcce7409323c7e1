"""The skills extension: skills are listed by name, and given as passing messages when a message calls for them.

A skill is called for by its words (`when`), by a command of its own, or by the model, with `skills__use`. However often
it is given, it is there once, and the conversation never keeps it. An edit counts from the next turn on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta, Struct

from finclaw.builtins.note import note_under, put_note, waits_for_results
from finclaw.builtins.skills.catalog import USE, SkillList, offered_tools
from finclaw.builtins.skills.code import load_tools
from finclaw.builtins.skills.skill import Skill
from finclaw.builtins.skills.skill_directory import SkillDirectory
from finclaw.errors import ExtensionError, ToolError
from finclaw.kernel.extension import ExtensionApi, Finding
from finclaw.kernel.message import Append
from finclaw.kernel.port import LayerCommand, Tool, ToolOutput, ToolScope
from finclaw.kernel.scope import StepContext, StepResult, TurnContext, TurnResult
from finclaw.taint.sources import is_typed
from finclaw.tools.define import tool

KEY: Final = "skills"
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
            self._owned = load_tools(self._directory, known, api)
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
        delegated = inbound.limits is not None and inbound.limits.pool == "subagent"
        channel = inbound.account if delegated else inbound.channel
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
        return first.removeprefix(prefix).casefold() if first.startswith(prefix) else ""

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
        ctx.tool_catalog = offered_tools(ctx, self._list.of(turn.usable.values()), turn.given, self._owned)
        return await ctx.next()

    def _tool(self) -> Tool:
        @tool(USE, "Gives you the instructions of a skill.", group="tools")
        async def use(args: Use, scope: ToolScope) -> ToolOutput:
            return ToolOutput(self._use(args.name, scope))

        self._list = SkillList(use.spec)
        return use

    def _use(self, name: str, scope: ToolScope) -> str:
        turn = self._turns.get(scope.turn_id)
        skill = None if turn is None else turn.usable.get(name)
        if turn is None or skill is None or not skill.description:
            known = ", ".join(each.name for each in turn.usable.values() if each.description) if turn else ""
            raise ToolError(f"there is no skill {name!r} here; there are: {known or 'none'}")
        if name not in turn.given and len(skill.text) > turn.room:
            raise ToolError(f"{name} does not fit beside the skills that this turn was given; go on with those")
        return f"the instructions of {name} follow as a message of the gateway, for this turn only"


def _asked_for(turn: TurnContext) -> Iterator[str]:
    """By the turn's own log, so that one which resumes after a crash is given the same."""
    said = (each.message for each in turn.conversation.events if isinstance(each, Append))
    for call in (call for message in said for call in message.tool_calls if call.name == USE):
        name = call.args.get("name")
        if isinstance(name, str):
            yield name


def _skill_text(skill: Skill, command: str, prefix: str) -> str:
    if not skill.description:
        return skill.text
    heading = f"[The skill {skill.name}, installed by whoever runs this gateway"
    why = f"; the person asked for it with {prefix}{command}, and what follows that is its input" if command else ""
    return f"{heading}{why}]\n{skill.text}"
