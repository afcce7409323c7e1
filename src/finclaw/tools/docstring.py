"""A parser of docstrings for the model: the first paragraph, and a Google-style `Args:` block."""

import inspect
import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

_HEADING: Final = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_ARGUMENT: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:\s*+(?P<text>.*)")


class ToolDocstring(Struct, frozen=True):
    """A docstring's description of a tool and of its arguments."""

    description: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(function: Callable[..., object]) -> ToolDocstring:
    lines = (inspect.getdoc(function) or "").splitlines()
    heading = next((place for place, line in enumerate(lines) if _HEADING.fullmatch(line)), len(lines))
    paragraph: list[str] = []
    for line in lines[:heading]:
        if not line.strip():
            break
        paragraph.append(line.strip())
    return ToolDocstring(" ".join(paragraph), _arguments(lines[heading + 1 :]))


def _arguments(lines: list[str]) -> dict[str, str]:
    """Each entry begins at the indentation of the first; what stands deeper goes on with it. The block ends with it."""
    found: dict[str, str] = {}
    indent, name = 0, ""
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if depth == 0:
            break
        indent = indent or depth
        entry = _ARGUMENT.fullmatch(line.strip()) if depth <= indent else None
        if entry is not None:
            name = entry["name"]
            found[name] = entry["text"].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found
