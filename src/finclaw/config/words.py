"""Descriptions of types and values for the author of a settings file, and guesses at what they meant."""

import difflib
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
    origin, args = get_origin(kind), get_args(kind)
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
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{printable(value)}"'
    if isinstance(value, int | float):
        return str(value)
    return _NAMES.get(type(value), f"{type(value).__name__} {printable(str(value))}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to a complaint, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _limits(metas: Iterable[Meta]) -> str:
    words = ""
    for meta in metas:
        if meta.ge is not None:
            words += f" from {meta.ge} to {meta.le}" if meta.le is not None else f", {meta.ge} or more"
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
    return shown + "…" if len(safe) > limit else shown
