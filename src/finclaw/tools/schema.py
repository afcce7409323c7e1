"""A struct as the schema of a tool's arguments."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from finclaw.errors import ExtensionError

_DEFS = "#/$defs/"
_VALUES = frozenset({"default", "enum", "const", "examples"})
"""Keywords that hold values, and no schemas."""
_NOTHING: tuple[str, list[Any]] = ("required", [])


def input_schema(arguments: type[Struct]) -> dict[str, Any]:
    """The struct as one self-contained object schema. Models and their APIs read `$ref` badly or not at all."""
    try:
        schema = msgspec.json.schema(arguments)
    except TypeError as error:
        why = str(error).splitlines()[-1]  # the lines before are for those who call msgspec themselves
        raise ExtensionError(
            f"{why}, for there is no JSON for it; use text, numbers, bool, Decimal, date, Enum, Literal, lists, "
            "dicts, Structs or dataclasses"
        ) from error
    return cast("dict[str, Any]", _shorten(_close(_inline(schema, schema.get("$defs", {}), ()))))


def _shorten(node: Any) -> Any:
    """The same schema without what every model call would pay for and no model needs.

    An argument that may be left out need not be null too: `with_defaults` takes one that is for one that is left out.
    """
    if isinstance(node, list):
        return [_shorten(each) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("dict[str, Any]", node)
    short = {key: each if key in _VALUES else _shorten(each) for key, each in schema.items() if (key, each) != _NOTHING}
    if "default" in short and short["default"] is None and isinstance(short.get("anyOf"), list):
        rest = [each for each in short.pop("anyOf") if each != {"type": "null"}]
        short.pop("default")
        return {**rest[0], **short} if len(rest) == 1 else {**short, "anyOf": rest}
    return short


def _close(node: Any) -> Any:
    """The same schema with nothing undeclared in any struct, which would ignore it in silence.

    Whoever approves a call would read such an argument on the card and take it for a part of the action.
    """
    if isinstance(node, list):
        return [_close(each) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("dict[str, Any]", node)
    closed = {key: each if key in _VALUES else _close_keyword(key, each) for key, each in schema.items()}
    if "properties" in closed:
        closed.setdefault("additionalProperties", False)
    if "prefixItems" in closed and "items" not in closed:
        closed.setdefault("maxItems", len(closed["prefixItems"]))
    return closed


def _close_keyword(key: str, value: Any) -> Any:
    if key != "properties":
        return _close(value)
    return {name: _close(each) for name, each in cast("dict[str, Any]", value).items()}


def _inline(node: Any, defs: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(each, defs, inside) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("dict[str, Any]", node)
    if "$ref" not in schema:
        return {key: _inline(value, defs, inside) for key, value in schema.items()}
    target = str(schema["$ref"]).removeprefix(_DEFS)
    if target in inside:
        raise ExtensionError(f"arguments {target!r} contain themselves; a tool's arguments must end somewhere")
    # Beside a reference stand its own words, which say more than the type's. A struct's title is only its class name.
    beside = {key: value for key, value in schema.items() if key not in ("$ref", "$defs")}
    named = {key: value for key, value in defs[target].items() if key != "title"}
    return _inline({**named, **beside}, defs, (*inside, target))
