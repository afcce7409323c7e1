"""Conversion of what a tool returned to a ToolOutput: text and facts."""

from collections.abc import Iterable
from typing import cast

from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput
from finclaw.tools.guard.result import as_text


def as_output(value: object) -> ToolOutput:
    """Text as it is, anything else as JSON. Facts come only with a ToolOutput: a number alone has no provenance."""
    if not isinstance(value, ToolOutput):
        return ToolOutput(as_text(value))
    content, given = cast("object", value.content), cast("object", value.facts)  # a stranger's code need not be typed
    listed = cast("Iterable[object]", given) if isinstance(given, tuple | list) else ()
    facts = tuple(each for each in listed if isinstance(each, Fact))
    if isinstance(content, str) and facts == given and isinstance(cast("object", value.origin), str):
        return value
    return ToolOutput(as_text(content), facts, str(value.origin))
