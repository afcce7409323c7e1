"""What a command may declare beyond its port, and what its declaration reads like in a language."""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from finclaw.kernel.port import Command
from finclaw.text import Language


class Directive(Struct, frozen=True, kw_only=True):
    """A command that may stand in front of a message, as its attribute `directive`. There it sets an option for that
    message's turn; alone it sets the option for the session."""

    option: Literal["model", "thinking", "verbosity", "queue"]
    read: Callable[[str], str | None]
    """The value that a word behind it stands for; None: the word is no value."""
    values: tuple[str, ...] = ()
    """All values there are, as a person writes them; empty: too many to list."""
    bare: str | None = None  # the value that it has without a word behind it; None: it needs one
    default: str = ""  # the value of the settings, for `default` behind it


def directive_of(command: Command | None) -> Directive | None:
    return getattr(command, "directive", None)


def name_in(language: Language, command: Command) -> str:
    names: Mapping[Language, str] = getattr(command, "names", {})
    return names.get(language, command.name)


def describe_in(language: Language, description: str) -> str:
    """The part of a description that is in a language. It is written as `English / 한국어`, or in one language."""
    english, _, korean = description.partition(" / ")
    return korean if language == "ko" and korean else english
