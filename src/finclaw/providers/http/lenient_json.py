"""A lenient JSON parser, for servers that write it loosely."""

import json
from math import isfinite
from typing import Any, cast

from finclaw.text import fix_surrogates

_LONGEST_INTEGER = 1_000
_Path = tuple[str | int, ...]


class LenientJson:
    """A parser of the loose events of one answer. It has state: servers may cut a text in the middle of a character."""

    def __init__(self) -> None:
        self._halves: dict[_Path, str] = {}
        """First halves that ended a text of the event before, by where they stood in it."""

    def to_strict_json(self, data: bytes) -> bytes:
        """The same JSON as strict readers take it: no number is not one, no character is half. Raises ValueError.

        Half a character at the end of a text waits for its other half in the next loose event, and is left out
        if none comes. Deep nesting is a RecursionError here as everywhere.
        """
        waiting, self._halves = self._halves, {}
        read = self._join_halves(json.loads(data, parse_constant=_null, parse_int=_integer), (), waiting)
        return fix_surrogates(json.dumps(read, ensure_ascii=False)).encode()

    def _join_halves(self, value: Any, path: _Path, waiting: dict[_Path, str]) -> Any:
        match value:
            case str(text):
                return self._hold_back_half(waiting.get(path, "") + text, path)
            case dict():
                fields = cast(dict[str, Any], value)
                return {name: self._join_halves(each, (*path, name), waiting) for name, each in fields.items()}
            case list():
                items = cast(list[Any], value)
                return [self._join_halves(each, (*path, place), waiting) for place, each in enumerate(items)]
            case float() if not isfinite(value):  # 1e400
                return None
            case _:
                return value

    def _hold_back_half(self, text: str, path: _Path) -> str:
        if not "\ud800" <= text[-1:] <= "\udbff":
            return text
        self._halves[path] = text[-1]
        return text[:-1]


def _integer(text: str) -> int | None:
    """Null for a number that is longer than Python reads."""
    return int(text) if len(text) <= _LONGEST_INTEGER else None


def _null(_: str) -> None:
    """What NaN and the infinities become."""
