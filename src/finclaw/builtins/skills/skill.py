"""One skill: what it is called, when it is wanted, and what it says."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta, Struct

from finclaw.errors import ConfigError

NAME: Final = r"^[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?$"
"""It becomes part of tool names, which have room for 64."""


class BadSkill(ConfigError):
    """A skill that cannot be read; a gateway leaves it out and says so."""


class SkillCommand(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=r"^[^\W_][\w-]{0,31}$")]
    description: Annotated[str, Meta(max_length=200)] = ""
    roles: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...], Meta(max_length=10)] = ()
    """Whoever has none of these may not use it; empty: everybody may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill. Without a description it is not listed: it is given when its words are said, or always."""

    name: str
    text: str
    description: str = ""
    when: tuple[re.Pattern[str], ...] = ()
    always: bool = False
    tools: tuple[str, ...] = ()
    """Those it cannot do without."""
    channels: tuple[str, ...] = ()
    """The only ones where it is known; none: everywhere."""
    commands: tuple[SkillCommand, ...] = ()

    def fits(self, message: str) -> bool:
        return self.always or any(each.search(message) for each in self.when)


def triggers(words: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(_trigger(word) for each in words if (word := each.strip()))


def _trigger(word: str) -> re.Pattern[str]:
    """A Latin word must stand alone, though a particle may follow it; Korean words carry theirs with them."""
    if word.isascii():
        return re.compile(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", re.IGNORECASE | re.ASCII)
    return re.compile(re.escape(word), re.IGNORECASE)
