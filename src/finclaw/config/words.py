"""Descriptions of types and values for the author of a settings file, and guesses at what they meant."""

import types
from collections.abc import Iterable, Mapping
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
        return describe_type(args[0]) + _limits(each for each in args[1:] if isinstance(each, Meta))
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


def _limits(metas: Iterable[Meta]) -> str:
    words = ""
    for meta in metas:
        if meta.ge is not None and meta.le is not None:
            words += f" from {meta.ge} to {meta.le}"
        elif meta.ge is not None:
            words += f", {meta.ge} or more"
        elif meta.gt is not None:
            words += f", more than {meta.gt}"
        elif meta.le is not None:
            words += f", {meta.le} or less"
        elif meta.min_length is not None:
            words += f" of {meta.min_length} to {meta.max_length} characters"
    return words


def printable(text: str, limit: int = 60) -> str:
    """A person's text on one line, whatever is in it. A key in the wrong place is not repeated, nor half of it."""
    from finclaw.redaction.redact import redact_for_display  # noqa: PLC0415  start-up: the parser of commands needs none

    safe = redact_for_display(text)
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in safe[:limit])
    if len(safe) > limit:
        shown += "…"
    return shown
