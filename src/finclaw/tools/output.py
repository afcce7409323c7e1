"""Conversion of what a tool returned to a ToolOutput: text, facts and files."""

from collections.abc import Iterable
from typing import TypeVar, cast

from finclaw.kernel.envelope import ActionButton, NewFile
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput
from finclaw.tools.result_guard import as_text

T = TypeVar("T")


def as_output(value: object) -> ToolOutput:
    """Text as it is, anything else as JSON. Facts come only with a ToolOutput: a number alone has no provenance."""
    if not isinstance(value, ToolOutput):
        return ToolOutput(as_text(value))
    content = cast("object", value.content)  # a stranger's code need not be typed
    facts, files, actions = (
        _listed(value.facts, Fact),
        _listed(value.files, NewFile),
        _listed(value.actions, ActionButton),
    )
    has_types = isinstance(content, str) and isinstance(cast("object", value.origin), str)
    if has_types and (facts, files, actions) == (value.facts, value.files, value.actions):
        return value
    return ToolOutput(as_text(content), facts, str(value.origin), files, actions)


def _listed(given: object, kind: type[T]) -> tuple[T, ...]:
    listed = cast("Iterable[object]", given) if isinstance(given, tuple | list) else ()
    return tuple(each for each in listed if isinstance(each, kind))
