"""Safe display of values that a person decides by: what looks the same is the same, and nothing hides.

Every shown value reads back as exactly the one that will be used.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, cast

_PLAIN: Final = (
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
"""All else, letters of other scripts that pose as these among it, is shown by its number.

A string, which `re` compiles when it is first used: few commands show a value."""
_RADICALS: Final = frozenset(
    "丨丶丿乀乁乚乛亅亠亻冂冖冫凵勹匚匸卩厶囗夂夊宀巛廴廾彐彑彡彳忄扌曰氵爫犭疒礻糹纟罒艹衤訁讠钅阝飠饣丷刂儿"
)
"""Strokes and parts of Hanja: they stand in no name, and each looks like a sign, a kana or another Hanja."""
_LOOK_ALIKE: Final = dict(
    zip("ロトカニハエタチオヒヌメセミヘベペリ", "口卜力二八工夕千才匕又乂七三へべぺり", strict=True)
)
"""Katakana, each with the Hanja or Hiragana that is drawn alike."""
_AMBIGUOUS: Final = frozenset((*_LOOK_ALIKE, *_LOOK_ALIKE.values()))
_WORD: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote_text(value: str) -> str:
    """In quotes, as JSON has it."""
    if _AMBIGUOUS.isdisjoint(value):
        return f'"{"".join(map(_show_character, value))}"'
    katakana = list(map(_is_among_katakana, value, _list_neighbours(value), reversed(_list_neighbours(value[::-1]))))
    return f'"{"".join(map(_show_look_alike, value, katakana))}"'


def _list_neighbours(value: str) -> list[str]:
    """For each character the last one before it that looks like no other; empty where there is none."""
    last, found = "", list[str]()
    for character in value:
        found.append(last)
        last = last if character in _AMBIGUOUS else character
    return found


def _is_among_katakana(character: str, before: str, behind: str) -> bool:
    return any("\u30a1" <= each <= "\u30fa" for each in (before, behind))


def _show_look_alike(character: str, katakana: bool) -> str:
    """Of two that are drawn alike one is shown as it is: katakana beside other katakana, and elsewhere its double.

    What stands beside looks the same in both readings, so one picture is always one text.
    """
    if character in _AMBIGUOUS and (character in _LOOK_ALIKE) != katakana:
        return _escape_character(character)
    return _show_character(character)


def _show_character(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    # A picture that is yet to be drawn is a blank box, and not printable.
    if re.match(_PLAIN, character) and character.isprintable() and character not in _RADICALS:
        return character
    return _escape_character(character)


def _escape_character(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def format_number(value: int | float) -> str:
    """With every digit, in groups of three. A whole number and a fraction that is whole stay apart."""
    if isinstance(value, int):
        return f"{value:,}"
    digits = f"{Decimal(repr(value)):,f}"
    return digits if "." in digits else digits + ".0"


def format_lines(value: Any, path: str = "") -> Iterator[str]:
    """One line per single value, with the way to it."""
    if isinstance(value, Mapping) and value:
        for key, each in cast("Mapping[str, Any]", value).items():
            yield from format_lines(each, _join_path(path, key))
    elif isinstance(value, list | tuple) and value:
        for place, each in enumerate(cast("list[Any]", value)):
            yield from format_lines(each, f"{path}[{place}]")
    else:
        yield f"{path} = {_format_value(value)}"


def _join_path(path: str, key: str) -> str:
    if not _WORD.fullmatch(key):
        return f"{path}[{quote_text(key)}]"
    return f"{path}.{key}" if path else key


def _format_value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return format_number(value)
    if isinstance(value, Mapping | list | tuple):
        return "{}" if isinstance(value, Mapping) else "[]"
    return quote_text(str(value))
