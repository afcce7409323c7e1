"""Values as a person can trust their eyes with them: what looks the same is the same, and nothing hides.

Every shown value reads back as exactly the one that will be used.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, cast

from finclaw.kernel.lazy_pattern import LazyPattern

_PLAIN: Final = LazyPattern(
    "["
    " -~"  # ASCII
    "¢-¥₩€°±"
    "À-ÖØ-öø-ÿ"  # Nestlé, Zürich
    "\u3041-\u3096\u30a1-\u30fa"  # kana
    "\u4e00-\u9fff"  # Hanja
    "\uac00-\ud7a3"  # Korean, syllable by syllable; in parts it only looks like it
    "\U0001f300-\U0001faff"  # pictures
    "]"
)
"""All else, letters of other scripts that pose as these among it, is shown by its number."""
_WORD: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text(value: str) -> str:
    """In quotes, as JSON has it."""
    return f'"{"".join(map(_character, value))}"'


def _character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if _PLAIN.match(character) and character.isprintable():  # a picture that is yet to be drawn is a blank box
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def number(value: int | float) -> str:
    """With every digit, in groups of three. A whole number and a fraction that is whole stay apart."""
    if isinstance(value, int):
        return f"{value:,}"
    digits = f"{Decimal(repr(value)):,f}"
    return digits if "." in digits else digits + ".0"


def lines(value: Any, path: str = "") -> Iterator[str]:
    """One line per single value, with the way to it."""
    if isinstance(value, Mapping) and value:
        for key, each in cast("Mapping[str, Any]", value).items():
            yield from lines(each, _below(path, key))
    elif isinstance(value, list | tuple) and value:
        for place, each in enumerate(cast("list[Any]", value)):
            yield from lines(each, f"{path}[{place}]")
    else:
        yield f"{path} = {_single(value)}"


def _below(path: str, key: str) -> str:
    if not _WORD.fullmatch(key):
        return f"{path}[{text(key)}]"
    return f"{path}.{key}" if path else key


def _single(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping | list | tuple):
        return "{}" if isinstance(value, Mapping) else "[]"
    return text(str(value))
