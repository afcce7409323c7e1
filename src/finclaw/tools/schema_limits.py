"""Limits on a tool's JSON Schema: its size with all references followed, its depth, its patterns.

The regular expressions of jsonschema-rs take linear time, but it holds Python's global lock, so one long check would
stop every conversation. What a check of arguments costs is estimated from these sizes in `arguments.py`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from finclaw.errors import ExtensionError

_MOST_RULES: Final = 5_000  # with references replaced by their targets: forty short lines can unfold to a billion rules
_MOST_DEPTH: Final = 200
_MOST_PATTERNS: Final = 50
_MOST_UNEVALUATED: Final = 2  # each inside another checks everything beside it a second time
MOST_BITS: Final = 256  # arithmetic with longer integers takes milliseconds for each
_SLOW_PATTERN: Final = 250  # of counted repetition: up to 5 µs a character
_READING: Final = {"format": 10, "contentEncoding": 10, "contentMediaType": 10, "minLength": 1, "maxLength": 1}
"""Cost per character of keywords that read a whole text, in tenths of a rule."""
_DIALECT: Final = re.compile(r"https?://json-schema\.org/(?:draft/20(?:19-09|20-12)|draft-0[67])/schema#?")
_MOVING: Final = ("$schema", "$dynamicRef", "$recursiveRef", "$id")
"""Keywords that change what `#/…` refers to."""


def must_be_bounded(schema: Mapping[str, Any]) -> None:
    """Refuse a schema from an untrusted server that may be expensive. Raises ExtensionError."""
    if not _DIALECT.fullmatch(str(schema.get("$schema", "http://json-schema.org/draft-07/schema#"))):
        raise ExtensionError("its schema is written in a dialect that is not known here")
    size = SchemaSize({key: value for key, value in schema.items() if key not in ("$schema", "$id")}, schema)
    if size.problem:
        raise ExtensionError(f"its schema {size.problem}")


class SchemaSize:
    """The rules and patterns of a schema with every reference replaced by its target."""

    def __init__(self, schema: Any, root: Mapping[str, Any]) -> None:
        self.rules = 0
        self.patterns = 0
        self.reading = 0  # the cost for each character, in tenths of a rule
        self.problem = ""  # the first limit that is exceeded
        self._unevaluated = 0
        self._root = root
        self._visit(schema, (), 0)

    def _visit(self, node: Any, inside: tuple[str, ...], depth: int) -> None:
        """`inside` are the references that were followed to get here."""
        self.rules += 1
        if self.rules > _MOST_RULES:
            return self._refuse(f"unfolds to more than {_MOST_RULES:,} parts")
        if depth > _MOST_DEPTH:
            return self._refuse(f"is nested more than {_MOST_DEPTH} levels deep")
        if isinstance(node, list):
            for each in cast("list[Any]", node):
                self._visit(each, inside, depth + 1)
        elif isinstance(node, dict):
            for key, value in cast("dict[str, Any]", node).items():
                self._visit_keyword(key, value, inside, depth + 1)
        elif isinstance(node, int) and node.bit_length() > MOST_BITS:
            self._refuse("has a whole number of more than 77 digits")
        return None

    def _visit_keyword(self, key: str, value: Any, inside: tuple[str, ...], depth: int) -> None:
        self.reading += _READING.get(key, 0)
        self._unevaluated += key in ("unevaluatedProperties", "unevaluatedItems")
        if self._unevaluated > _MOST_UNEVALUATED:
            self._refuse(f"uses unevaluatedProperties and unevaluatedItems more than {_MOST_UNEVALUATED} times")
        if key in _MOVING and isinstance(value, str):
            self._refuse(f"uses {key} inside, which is not taken from strangers")
        if key == "pattern" and isinstance(value, str):
            self._count_patterns([value])
        elif key == "patternProperties" and isinstance(value, dict):
            self._count_patterns(cast("dict[str, Any]", value))
        if key == "$ref" and isinstance(value, str):
            self._follow(value, inside, depth)
        else:
            self._visit(value, inside, depth)

    def _count_patterns(self, patterns: Collection[str]) -> None:
        self.patterns += len(patterns)
        self.reading += sum(_SLOW_PATTERN if "{" in each else min(len(each), _SLOW_PATTERN) for each in patterns)
        if self.patterns > _MOST_PATTERNS:
            self._refuse(f"has more than {_MOST_PATTERNS} patterns")

    def _follow(self, reference: str, inside: tuple[str, ...], depth: int) -> None:
        if reference in inside:
            return self._refuse("contains itself, so its arguments would never end")
        if not reference.startswith("#/"):
            return self._refuse("refers to something that is not in it, or to all of itself")
        node: Any = self._root
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or name not in node:
                return self._refuse("refers to something that is not in it")
            node = cast("dict[str, Any]", node)[name]
        return self._visit(node, (*inside, reference), depth)

    def _refuse(self, problem: str) -> None:
        self.problem = self.problem or problem
