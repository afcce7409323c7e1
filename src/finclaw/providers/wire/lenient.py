"""JSON from servers that write it loosely."""

import json
from typing import Any, cast

from finclaw.kernel.text import fix_surrogates

_Path = tuple[str | int, ...]


class LenientReader:
    """Reads the loose events of one answer; it remembers, for servers may cut a text in the middle of a character."""

    def __init__(self) -> None:
        self._halves: dict[_Path, str] = {}
        """First halves that ended a text of the event before, by where they stood in it."""

    def strictly(self, data: bytes) -> bytes:
        """The same JSON as strict readers take it: no number is not one, no character is half. Raises ValueError.

        Half a character at the end of a text waits for its other half in the next loose event, and is left out
        if none comes. Deep nesting is a RecursionError here as everywhere.
        """
        waiting, self._halves = self._halves, {}
        read = self._joined(json.loads(data, parse_constant=_nothing), (), waiting)
        return fix_surrogates(json.dumps(read, ensure_ascii=False)).encode()

    def _joined(self, value: Any, path: _Path, waiting: dict[_Path, str]) -> Any:
        match value:
            case str(text):
                return self._held_back(waiting.get(path, "") + text, path)
            case dict():
                fields = cast(dict[str, Any], value)
                return {name: self._joined(each, (*path, name), waiting) for name, each in fields.items()}
            case list():
                items = cast(list[Any], value)
                return [self._joined(each, (*path, place), waiting) for place, each in enumerate(items)]
            case _:
                return value

    def _held_back(self, text: str, path: _Path) -> str:
        if not "\ud800" <= text[-1:] <= "\udbff":
            return text
        self._halves[path] = text[-1]
        return text[:-1]


def _nothing(_: str) -> None:
    """For NaN and the infinities."""
