"""Bounds on tool schemas of MCP servers: one that would keep our checker busy for hours is refused before its use."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from finclaw.errors import ExtensionError
from finclaw.tools.check_cost import LONGEST_INTEGER, patterns_of
from finclaw.tools.pattern_cost import count_states, may_retry

_MOST_PARTS: Final = 5_000
"""Of a schema with all that it refers to in its place: forty short lines can unfold to a billion parts."""
_MOST_PATTERNS: Final = 5
"""Patterns that a matcher may have to try again and again; each costs tens of milliseconds at worst."""
_MOST_STATES: Final = 20_000
"""Of all patterns together: compiling them takes 10 ms."""
_MOST_REGULAR_EXPRESSIONS: Final = 50
"""Patterns of any kind."""
_MOST_UNEVALUATED: Final = 2
"""Keywords that check everything beside them a second time: each one inside another doubles the work."""
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_DEEPEST: Final = 200
"""Levels of a schema with all that it refers to in its place."""
_DIALECT: Final = re.compile(r"https?://json-schema\.org/(?:draft/20(?:19-09|20-12)|draft-0[67])/schema#?")
_MOVING: Final = ("$dynamicRef", "$recursiveRef", "$id")
"""Keywords with which `#/…` would mean something else than the place in this very schema."""


def must_be_bounded(schema: Mapping[str, Any]) -> None:
    """Raises ExtensionError."""
    if not _DIALECT.fullmatch(str(schema.get("$schema", "http://json-schema.org/draft-07/schema#"))):
        raise ExtensionError("its schema is written in a dialect that is not known here")
    _Unfolding(schema).visit({key: value for key, value in schema.items() if key not in ("$schema", "$id")}, ())


class _Unfolding:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._parts = _MOST_PARTS
        self._patterns = _MOST_PATTERNS
        self._regular_expressions = _MOST_REGULAR_EXPRESSIONS
        self._states = _MOST_STATES
        self._unevaluated = _MOST_UNEVALUATED
        self._depth = 0

    def visit(self, node: Any, inside: tuple[str, ...]) -> None:
        """`inside` are the references that were followed on the way here."""
        self._parts -= 1
        if self._parts < 0:
            raise ExtensionError(f"its schema unfolds to more than {_MOST_PARTS:,} parts")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ExtensionError(f"its schema is nested more than {_DEEPEST} levels deep")
        if isinstance(node, list):
            for each in cast("list[Any]", node):
                self.visit(each, inside)
        elif isinstance(node, dict):
            for key, value in cast("dict[str, Any]", node).items():
                self._visit_keyword(key, value, inside)
        elif isinstance(node, int) and node.bit_length() > LONGEST_INTEGER:
            raise ExtensionError("its schema has a whole number of more than 77 digits")
        self._depth -= 1

    def _visit_keyword(self, key: str, value: Any, inside: tuple[str, ...]) -> None:
        if isinstance(value, str) and (key in _MOVING or key == "$schema"):
            raise ExtensionError(f"its schema uses {key} inside, which is not taken from strangers")
        if key in _UNEVALUATED:
            self._count_unevaluated()
        for pattern in patterns_of(key, value):
            self._count_pattern(pattern)
        if key == "$ref" and isinstance(value, str):
            if value in inside:
                raise ExtensionError("its schema contains itself, so its arguments would never end")
            self.visit(self._target(value), (*inside, value))
        else:
            self.visit(value, inside)

    def _count_pattern(self, pattern: str) -> None:
        self._patterns -= may_retry(pattern)
        if self._patterns < 0:
            raise ExtensionError(f"its schema has more than {_MOST_PATTERNS} patterns that look ahead or back")
        self._regular_expressions -= 1
        if self._regular_expressions < 0:
            raise ExtensionError(f"its schema has more than {_MOST_REGULAR_EXPRESSIONS} patterns")
        self._states -= count_states(pattern)
        if self._states < 0:
            raise ExtensionError("its schema has patterns that are too large, such as `(a{1000}){1000}`")

    def _count_unevaluated(self) -> None:
        self._unevaluated -= 1
        if self._unevaluated < 0:
            raise ExtensionError(f"its schema uses {' and '.join(_UNEVALUATED)} more than {_MOST_UNEVALUATED} times")

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#/"):
            raise ExtensionError("its schema refers to something that is not in it, or to all of itself")
        node: Any = self._root
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or name not in node:
                raise ExtensionError("its schema refers to something that is not in it")
            node = cast("dict[str, Any]", node)[name]
        return node
