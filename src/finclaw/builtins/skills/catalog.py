"""The tool catalog of a step: the skills by name in one tool's description, and the tools of those that were given."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from finclaw.builtins.skills.skill import Skill
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.scope import StepContext

USE: Final = "skills__use"
_MOST_LISTED: Final = 100
_SHOWN: Final = 400
"""Characters of a description in the list."""
_ABOUT: Final = (
    "Gives you the instructions of a skill, for this turn. Use it before you begin what one of these is about:"
)


class SkillList:
    """The tool in whose description the skills are listed."""

    def __init__(self, spec: ToolSpec) -> None:
        def with_list(about: str) -> ToolSpec:
            return replace(spec, description=about)

        # The same object for the same list: a model's cache, and ours of what it is sent, go by it.
        self._with = lru_cache(maxsize=32)(with_list)

    def of(self, skills: Iterable[Skill]) -> ToolSpec | None:
        """None where there are none to use."""
        listed = [skill for skill in skills if skill.description][:_MOST_LISTED]
        return self._with("\n".join((_ABOUT, *map(_line, listed)))) if listed else None


def _line(skill: Skill) -> str:
    about = skill.description
    return f"- {skill.name}: {about if len(about) <= _SHOWN else about[: _SHOWN - 1] + '…'}"


def offered_tools(
    ctx: StepContext, listed: ToolSpec | None, given: Mapping[str, Skill], owned: Mapping[str, str]
) -> tuple[ToolSpec, ...]:
    """The step's catalog with what the given skills need, and without the tools of those that were not given."""
    allowed = {spec.name: spec for spec in ctx.turn.tool_catalog}
    needed = {name for skill in given.values() for name in skill.tools}
    needed |= {name for name, skill in owned.items() if skill in given}
    chosen = {spec.name: spec for spec in ctx.tool_catalog if owned.get(spec.name, "") in ("", *given)}
    chosen |= {name: allowed[name] for name in needed & allowed.keys() if name not in chosen}
    chosen.pop(USE, None)
    if listed is not None and USE in allowed:
        chosen[USE] = listed
    return tuple(chosen[name] for name in sorted(chosen))
