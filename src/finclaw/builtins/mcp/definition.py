"""Tool definitions of MCP servers: what is pinned of them, and what a model gets to see."""

import hashlib
import json
import re
from typing import Any, Final, cast

from msgspec import Struct

from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.redaction import hide_and_cut, hide_known_secrets
from finclaw.redaction.clean import clean
from finclaw.tools.arguments import must_be_schema
from finclaw.tools.schema_limits import must_be_bounded

_LARGEST: Final = 32_000
"""Characters of a whole definition."""
_LONGEST: Final = 1_000
"""Characters of a description."""
_LONGEST_NAME: Final = 200
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_SHOWN_TO_MODELS: Final = ("description", "title")


class Definition(Struct, frozen=True):
    """A tool definition, exactly as the server gave it."""

    name: str
    description: str
    schema: dict[str, Any]

    def text(self) -> str:
        """The canonical JSON. Raises ExtensionError for what is too long or too deep."""
        if len(self.name) > _LONGEST_NAME:
            raise ExtensionError(f"its name has {len(self.name):,} characters, and {_LONGEST_NAME} are read at most")
        what = {"name": self.name, "description": self.description, "schema": self.schema}
        try:
            text = json.dumps(what, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            raise ExtensionError("its definition cannot be written as JSON") from error
        if len(text) > _LARGEST:
            raise ExtensionError(f"its definition has {len(text):,} characters, and {_LARGEST:,} are read at most")
        return text

    def digest(self) -> str:
        return self.digest_of(self.text())

    @staticmethod
    def digest_of(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()


class ReadTool(Struct, frozen=True):
    """A definition that was read: with the spec for the model, or with the reason why there is none."""

    definition: Definition
    digest: str = ""
    text: str = ""
    spec: ToolSpec | None = None
    problem: str = ""


def read_tool(server: str, definition: Definition) -> ReadTool:
    text = ""
    digest = ""
    try:
        text = definition.text()
        digest = definition.digest_of(text)
        return ReadTool(definition, digest, text, spec_of(server, definition))
    except ExtensionError as error:
        problem = str(error)
    except RecursionError:
        problem = "its schema is nested too deep"
    return ReadTool(definition, digest, text, problem=problem)


def local_name(server: str, tool: str) -> str:
    return f"{server}__{_UNFIT.sub('_', tool[:64])}"[:64]


def spec_of(server: str, definition: Definition) -> ToolSpec:
    """What a model sees. Raises ExtensionError for a definition that hides something or that nobody can use."""
    schema = cast("dict[str, Any]", _visible(definition.schema))
    if _is_hiding(schema):
        raise ExtensionError("its schema has invisible characters in a name or a value")
    about = hide_known_secrets(clean(definition.description)).strip()
    if len(about) > _LONGEST:
        about = f"{about[:_LONGEST]}…"
    spec = ToolSpec(
        local_name(server, definition.name),
        f"[A tool of the MCP server {server}, described by that server and not by us] {about}".rstrip(),
        schema,
    )
    must_be_bounded(schema)
    must_be_schema(spec)
    return spec


def _visible(schema: Any) -> Any:
    """The same schema with its words cleaned. What a value means is not touched."""
    if isinstance(schema, list):
        return [_visible(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    return {key: _keyword(key, value) for key, value in cast("dict[str, Any]", schema).items()}


def _keyword(key: str, value: Any) -> Any:
    if key in _SHOWN_TO_MODELS and isinstance(value, str):
        return hide_and_cut(clean(value), _LONGEST)
    if key == "properties" and isinstance(value, dict):  # names of the server's own, whatever they are
        return {name: _schema_object(_visible(each)) for name, each in cast("dict[str, Any]", value).items()}
    return _visible(value)


def _schema_object(schema: Any) -> Any:
    """Write the schemas `true` and `false` as objects, which is what most readers of a schema expect."""
    if schema is True:
        return {}
    if schema is False:
        return {"not": {}}
    return schema


def _is_hiding(node: Any) -> bool:
    if isinstance(node, str):
        return clean(node) != node
    if isinstance(node, list):
        return any(map(_is_hiding, cast("list[Any]", node)))
    if isinstance(node, dict):
        return any(clean(key) != key or _is_hiding(value) for key, value in cast("dict[str, Any]", node).items())
    return False
