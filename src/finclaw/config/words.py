"""Descriptions of types and values for the author of a settings file, and guesses at what they meant."""

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta

_NAMES: dict[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Decimal: "a number",
    str: "text",
    Path: "a path",
    list: "a list",
    tuple: "a list",
    Mapping: "a section of `key: value` lines",
    dict: "a section of `key: value` lines",
    type(None): "nothing",
}


def describe_type(kind: Any) -> str:
    """What a setting of this type takes: "a whole number from 0 to 65535"."""
    origin = get_origin(kind)
    args = get_args(kind)
    if origin is Annotated:
        return describe_type(args[0]) + "".join(_limits(each) for each in args[1:] if isinstance(each, Meta))
    if origin is Literal:
        return "one of " + ", ".join(str(each) for each in args)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(each) for each in args)
    if is_dataclass(kind):
        return describe_type(dict)
    return _NAMES.get(origin or kind, "something else")


def got(value: object) -> str:
    """A value as the person wrote it, with its kind where that is the point."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f'"{printable(value)}"'
        case int() | float():
            return str(value)
        case _:
            return _NAMES.get(type(value), f"{type(value).__name__} {printable(str(value))}")


def _limits(meta: Meta) -> str:
    if meta.ge is not None and meta.le is not None:
        return f" from {meta.ge} to {meta.le}"
    if meta.ge is not None:
        return f", {meta.ge} or more"
    if meta.gt is not None:
        return f", more than {meta.gt}"
    if meta.le is not None:
        return f", {meta.le} or less"
    return "" if meta.min_length is None else f" of {meta.min_length} to {meta.max_length} characters"


def printable(text: str, limit: int = 60) -> str:
    """A person's text on one line, whatever is in it. A key in the wrong place is not repeated, nor half of it."""
    from finclaw.redaction.redact import redact_for_display  # noqa: PLC0415  start-up: the parser of commands needs none

    safe = redact_for_display(text)
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in safe[:limit])
    return shown if len(safe) <= limit else f"{shown}…"
