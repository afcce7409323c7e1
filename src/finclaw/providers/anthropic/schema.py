"""JSON Schemas narrowed to the part that the API holds an answer to. The rest is left to the check of the answer."""

from collections.abc import Mapping
from typing import Any, Final, cast

Schema = dict[str, Any]

_AS_IT_IS: Final = frozenset(("title", "description", "enum", "const", "required"))
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)


class _Inexpressible(Exception):
    """The API has no way to say this."""


def narrow_schema(schema: Mapping[str, Any]) -> Schema | None:
    """The schema in that part of the language.

    None where the API would hold the answer to something else: a map of anything, a recursion, no type at all.
    """
    definitions = {f"#/$defs/{name}": each for name, each in schema.get("$defs", {}).items()}
    try:
        return _Narrowing(definitions).of(schema)
    except _Inexpressible:
        return None


class _Narrowing:
    """`within` are the references that led here: one that comes again would never end."""

    def __init__(self, definitions: Mapping[str, Any], within: frozenset[str] = frozenset()) -> None:
        self._definitions = definitions
        self._within = within

    def of(self, schema: object) -> Schema:
        if not isinstance(schema, Mapping):  # `true` lets everything pass
            raise _Inexpressible
        given = cast("Mapping[str, Any]", schema)
        if "$ref" in given:
            return self._resolve(given["$ref"])
        kept = {key: value for key, value in given.items() if key in _AS_IT_IS}
        for either in ("anyOf", "oneOf", "allOf"):
            if either in given:
                kept["allOf" if either == "allOf" else "anyOf"] = [self.of(part) for part in given[either]]
        kept |= self._narrow_type(given)
        if not kept.keys() & {"type", "enum", "const", "anyOf", "allOf"}:
            raise _Inexpressible
        return kept

    def _resolve(self, reference: str) -> Schema:
        if reference in self._within:
            raise _Inexpressible
        return _Narrowing(self._definitions, self._within | {reference}).of(self._definitions.get(reference))

    def _narrow_type(self, given: Mapping[str, Any]) -> Schema:
        match given.get("type"):
            case "object":
                return self._object(given)
            case "array":
                return {"type": "array", "items": self.of(given.get("items"))}
            case "string" if given.get("format") in _FORMATS:
                return {"type": "string", "format": given["format"]}
            case str() as plain:
                return {"type": plain}
            case None:
                return {}
            case several:
                return {"anyOf": [self._narrow_type({**given, "type": each}) for each in several]}

    def _object(self, given: Mapping[str, Any]) -> Schema:
        if not given.get("properties"):  # it could only be an empty one then
            raise _Inexpressible
        properties = {name: self.of(part) for name, part in given["properties"].items()}
        return {"type": "object", "properties": properties, "additionalProperties": False}
