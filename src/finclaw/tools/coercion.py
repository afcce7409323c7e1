"""Coercion of an argument of the wrong type that plainly means a value: `"5"` where a number goes. Exact, or not."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
"""Of a length that every store and every API can hold."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_DEEPEST: Final = 4
"""Rounds: what was JSON in a text may hold such texts itself."""
_LONGEST_SHOWN: Final = 60

Path = tuple[str | int, ...]
Errors = Callable[[dict[str, Any]], Iterable["ValidationError"]]
_UNCHANGED: Final = object()


def coerce_arguments(args: dict[str, Any], errors: Errors) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A copy in which values of the wrong type have the right one, where that is exact; and each change in words."""
    better, changes = deepcopy(args), list[str]()
    for _ in range(_DEEPEST):
        wanted = [each for error in errors(better) for each in _expected_types(error).items()]
        found = [change for path, types in wanted if (change := _mend(better, path, types))]
        if not found:
            break
        changes += found
    return better, tuple(changes)


def format_path(path: Iterable[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _expected_types(error: "ValidationError") -> dict[Path, list[str]]:
    """The types that would do, by place. Of alternatives, such as a number or nothing, those of all."""
    kind: Any = error.kind
    if kind.name == "type":
        return {tuple(error.instance_path): list(kind.types)}
    wanted: dict[Path, list[str]] = {}
    if kind.name in ("anyOf", "oneOf"):
        for each in (inner for branch in kind.context for inner in branch):
            for path, types in _expected_types(each).items():
                wanted.setdefault(path, []).extend(types)
    return wanted


def _mend(args: dict[str, Any], path: Path, wanted: Sequence[str]) -> str:
    """Empty when there is nothing to be done."""
    if not path:
        return ""
    holder: Any = args
    for step in path[:-1]:
        holder = holder[step]
    value = holder[path[-1]]
    meant = _coerce_value(value, wanted)
    if meant is _UNCHANGED:
        return ""
    holder[path[-1]] = meant
    return f"{format_path(path)} {_format_value(value)} as {_format_value(meant)}"


def _coerce_value(value: Any, wanted: Sequence[str]) -> Any:
    if isinstance(value, str):
        for name, read in _READERS.items():
            if name in wanted and (meant := read(value)) is not _UNCHANGED:
                return meant
    if "array" in wanted and value is not None and not isinstance(value, list):
        return [value]
    return _UNCHANGED


def _integer(text: str) -> Any:
    return int(text) if _INTEGER.fullmatch(text) else _UNCHANGED


def _number(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _NUMBER.fullmatch(text):
        return _UNCHANGED
    number = float(text)
    return number if Decimal(text) == Decimal(repr(number)) else _UNCHANGED


def _boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text, _UNCHANGED)


def _json(kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return _UNCHANGED
        return found if isinstance(found, kind) else _UNCHANGED

    return read


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "object": _json(dict),
    "array": _json(list),
}


def _format_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
