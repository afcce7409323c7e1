"""A skill and the parser of its file. The YAML header is parsed with few features on purpose: it may be untrusted."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any, Final, cast

from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import fields

from finclaw.errors import ConfigError
from finclaw.redaction.clean import clean

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


HEADER_ROOM: Final = 4_000  # characters that a header may have
_DEEPEST: Final = 6
_OTHERS: Final = frozenset({"license", "metadata", "compatibility", "allowed-tools", "version", "author"})
"""Fields that skills written for other programs have; they say nothing to us."""
_HEADER: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_TRIGGERS: Final = re.compile(r"^triggers:(.*)$", re.MULTILINE)
_BLANK: Final = "\u2800"
"""Braille without a dot: no space to any program, and nothing to any eye."""
_Word = Annotated[str, Meta(min_length=1, max_length=100)]


class _Header(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=NAME)]
    description: Annotated[str, Meta(min_length=1, max_length=1_024)]
    when: tuple[_Word, ...] | _Word = ()
    tools: tuple[_Word, ...] = ()
    channels: tuple[_Word, ...] = ()
    commands: Annotated[tuple[SkillCommand, ...], Meta(max_length=10)] = ()


def read_text(name: str, text: str) -> Skill:
    """A short text of the directory itself: its one field is `triggers`; without it, it is always given."""
    refuse_hidden_characters(text)
    header = _HEADER.match(text)
    if header is None:
        return Skill(name=name, text=text.strip(), always=True)
    listed = _TRIGGERS.search(header[1])
    words = triggers(listed[1].split(",")) if listed else ()
    return Skill(name=name, text=text[header.end() :].strip(), when=words, always=not words)


def read_skill(folder: str | None, text: str) -> Skill:
    """A SKILL.md. Its name must be that of its folder, if that is known. Raises BadSkill, which says what to change."""
    refuse_hidden_characters(text)
    text = text.removeprefix("\ufeff")
    header = _HEADER.match(text)
    if header is None:
        raise BadSkill("SKILL.md must begin with a line `---`, then name and description, then another line `---`")
    if len(header[1]) > HEADER_ROOM:
        raise BadSkill(f"what stands above the second `---` has more than {HEADER_ROOM:,} characters; shorten it")
    given = _parse_header(header[1])
    if folder is not None and given.name != folder:
        raise BadSkill(f"its name is {given.name!r} and its folder's {folder!r}; make them the same")
    body = text[header.end() :].strip()
    if not body:
        raise BadSkill("it has no instructions; write them below the second `---`")
    when = (given.when,) if isinstance(given.when, str) else given.when
    return Skill(
        name=given.name,
        text=body,
        description=" ".join(given.description.split()),
        when=triggers(when),
        tools=given.tools,
        channels=given.channels,
        commands=given.commands,
    )


def refuse_hidden_characters(text: str) -> None:
    """What a person cannot see when they read it through must not reach a model either."""
    read = unicodedata.normalize("NFC", text.removeprefix("\ufeff"))
    if (seen := clean(read)) != read:  # what joins letters and emoji is seen, where it stands between them
        hidden = next(one for one, other in zip_longest(read, seen) if one != other)
        raise BadSkill(f"it holds the invisible character U+{ord(hidden):04X}; remove it")
    for character in read:
        if unicodedata.category(character) in ("Cs", "Co") or character == _BLANK:
            raise BadSkill(f"it holds the invisible character U+{ord(character):04X}; remove it")


def _parse_header(header: str) -> _Header:
    found = _yaml(header)
    if not isinstance(found, dict):
        raise BadSkill("above the second `---` stand lines such as `name: dividends`")
    known = {key: value for key, value in cast("dict[object, Any]", found).items() if key not in _OTHERS}
    try:
        return convert(known, _Header)
    except ValidationError as error:
        names = ", ".join(each.name for each in fields(_Header))
        raise BadSkill(f"SKILL.md: {str(error)[:300]}; the fields are {names}") from error


def _yaml(text: str) -> object:
    import yaml  # noqa: PLC0415  `cold_cpu`: 30 ms, and most gateways have no skills

    try:
        _refuse_tricks(text)
        return cast("object", yaml.load(text, yaml.SafeLoader))
    except yaml.YAMLError as error:
        what = " ".join(str(error).split())[:200]
        raise BadSkill(f"SKILL.md is not valid YAML above the second `---`: {what}") from error
    except (ValueError, RecursionError) as error:  # a date that is none, a number without end
        raise BadSkill(f"SKILL.md holds a value that cannot be read ({str(error)[:100]}); put it in quotes") from error


def _refuse_tricks(text: str) -> None:
    """Before anything is built: a few anchors can become a thousand million values."""
    import yaml  # noqa: PLC0415  start-up, as above

    depth = 0
    for event in cast("Iterable[yaml.Event]", yaml.parse(text, yaml.SafeLoader)):  # pyright: ignore[reportUnknownMemberType]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise BadSkill("anchors (&) and aliases (*) are not read here; write the value out, or put it in quotes")
        if getattr(event, "tag", None):
            raise BadSkill("tags (!) are not read here; write the plain value, or put it in quotes")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            raise BadSkill("it is nested too deeply; it has fields and lists, and no more")
