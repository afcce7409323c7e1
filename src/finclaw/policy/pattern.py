"""Patterns over tool names: `*` any characters, `?` one, `[ab]` one of these, `[!ab]` one of the others."""

import re
from fnmatch import translate
from typing import Final

from msgspec import Struct

from finclaw.errors import ConfigError

_WILD: Final = re.compile(r"[*?\[]")
_ALLOWED: Final = re.compile(r"[A-Za-z0-9_*?\[\]!-]{1,128}")


class Pattern(Struct, frozen=True):
    text: str
    prefix: str
    """What every name that fits begins with; looking at this first spares most of the matching."""
    wild: re.Pattern[str] | None
    """None: it is a plain name."""

    def matches(self, name: str) -> bool:
        if self.wild is None:
            return name == self.text
        return name.startswith(self.prefix) and self.wild.match(name) is not None


def compile_pattern(text: str) -> Pattern:
    """Raises ConfigError for what no tool's name could ever fit."""
    if not _ALLOWED.fullmatch(text):
        hint = f"; write {text.replace(':', '__')}" if ":" in text else ""
        raise ConfigError(
            f"pattern {text[:64]!r} fits no tool: names are letters, digits, '_' and '-', as in market__*{hint}"
        )
    found = _WILD.search(text)
    if found is None:
        return Pattern(text, text, None)
    # Python's translation never tries a star twice, so that no pattern takes long, whatever it is held against.
    return Pattern(text, text[: found.start()], re.compile(translate(text)))
