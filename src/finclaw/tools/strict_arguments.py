"""Strict argument check for calls that a person is asked about: the tool takes every argument, exactly as it is shown.

JSON Schema lets undeclared properties pass and takes any whole number for a float. Both would be shown on an approval's
card and then be ignored or rounded by the tool, so the card would say what will not happen.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from finclaw.errors import InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.text import shorten
from finclaw.tools.arguments import Path, format_path

Schema = Mapping[str, Any]

_MOST_COMPLAINTS: Final = 20
_MOST_STEPS: Final = 20_000  # pairs of a value and a schema; more is too much for a card
_LONGEST_NAME: Final = 60
_EXACT: Final = 2**sys.float_info.mant_dig  # not every larger whole number is a float
_OPEN: Final = ("additionalProperties", "unevaluatedProperties")
_ALTERNATIVES: Final = ("allOf", "anyOf", "oneOf")
_CONDITIONS: Final = ("if", "then", "else")


def check_strict_arguments(spec: ToolSpec, args: Mapping[str, Any]) -> None:
    """Raises InvalidArguments for what the schema does not declare, unless it allows that, or a float cannot hold."""
    walk = _Walk(spec.input_schema)
    complaints = list(islice(walk.complaints(dict(args), [spec.input_schema], ()), _MOST_COMPLAINTS))
    if complaints:
        listed = "\n".join(f"- {each}" for each in complaints)
        raise InvalidArguments(f"Invalid input for {spec.name}:\n{listed}\nCorrect it and call the tool again.")


class _Walk:
    """One walk over the arguments beside their schema. Patterns are not matched: a stranger may have written them."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._steps = 0

    def complaints(self, value: Any, schemas: Sequence[Schema], path: Path) -> Iterator[str]:
        parts = list(self._parts(schemas))
        if isinstance(value, dict):
            yield from self._in_object(cast("dict[str, Any]", value), parts, path)
        elif isinstance(value, list):
            yield from self._in_array(cast("list[Any]", value), parts, path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield from _inexact(value, parts, path)

    def _in_object(self, value: dict[str, Any], parts: Sequence[Schema], path: Path) -> Iterator[str]:
        declared = {key for part in parts for key in _mapping(part, "properties")}
        says = any("properties" in part or any(key in part for key in _OPEN) for part in parts)
        free = any(part.get(key, False) is not False for part in parts for key in _OPEN) or (bool(path) and not says)
        free = free or any("patternProperties" in part for part in parts)
        for key, each in value.items():
            here = (*path, key)
            if key in declared or free:
                yield from self.complaints(each, list(_below(parts, key)), here)
            else:
                takes = ", ".join(sorted(declared)[:_MOST_COMPLAINTS]) or "none"
                yield f"{_short(here)}: there is no such argument; there are: {takes}"

    def _in_array(self, value: list[Any], parts: Sequence[Schema], path: Path) -> Iterator[str]:
        for place, each in enumerate(value):
            below = list(_at(parts, place))
            if not below and any("prefixItems" in part for part in parts):
                yield f"{_short((*path, place))}: there is no place for it in this list"
            else:
                yield from self.complaints(each, below, (*path, place))

    def _parts(self, schemas: Sequence[Schema]) -> Iterator[Schema]:
        seen: set[int] = set()
        left = list(schemas)
        while left:
            schema = left.pop()
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise InvalidArguments("the arguments are too large to be shown to a person; ask for less at a time")
            if id(schema) in seen:
                continue
            seen.add(id(schema))
            yield schema
            left += [each for key in _ALTERNATIVES for each in _schemas(schema.get(key))]
            left += [each for key in _CONDITIONS for each in _schemas([schema.get(key)])]
            left += _schemas(list(_mapping(schema, "dependentSchemas").values()))
            if "$ref" in schema:
                left += _schemas([self._resolve_reference(schema["$ref"])])

    def _resolve_reference(self, reference: object) -> object:
        found: object = self._root
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            inner = _schemas([found])
            found = inner[0].get(key) if inner else None
        return found


def _below(parts: Sequence[Schema], key: str) -> Iterator[Schema]:
    for part in parts:
        named = _mapping(part, "properties")
        if key in named:
            yield from _schemas([named[key]])
        else:
            yield from _schemas([*_mapping(part, "patternProperties").values(), *(part.get(each) for each in _OPEN)])


def _at(parts: Sequence[Schema], place: int) -> Iterator[Schema]:
    for part in parts:
        first = part.get("prefixItems", ())
        items = part.get("items")
        places = cast("Sequence[object]", items if isinstance(items, list) else first)
        if place < len(places):
            yield from _schemas([places[place]]) or ({},)
        elif items is True or isinstance(items, Mapping):
            yield from _schemas([cast("object", items)]) or ({},)


def _inexact(value: float, parts: Sequence[Schema], path: Path) -> Iterator[str]:
    types = {each for part in parts for each in _types(part)}
    if isinstance(value, float):
        if "integer" in types and "number" not in types:
            yield f"{_short(path)}: write a whole number, without a fraction"
    elif "number" in types and "integer" not in types and abs(value) > _EXACT and not _is_float(value):
        yield f"{_short(path)}: this whole number has more digits than a float can hold exactly; write fewer"


def _is_float(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _types(schema: Schema) -> Sequence[str]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else cast("Sequence[str]", kind)


def _mapping(schema: Schema, key: str) -> Schema:
    found = schema.get(key)
    if not isinstance(found, Mapping):
        return {}
    return cast("Schema", found)


def _schemas(candidates: object) -> list[Schema]:
    """Those of them that say something: `true` and `false` are schemas without a word."""
    if not isinstance(candidates, list):
        return []
    return [cast("Schema", each) for each in cast("list[object]", candidates) if isinstance(each, Mapping)]


def _short(path: Path) -> str:
    return shorten(format_path(path), _LONGEST_NAME)
