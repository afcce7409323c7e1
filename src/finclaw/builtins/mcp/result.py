"""Results of MCP calls, as text between marks that it cannot have known."""

import json
from collections.abc import Iterator
from secrets import token_hex
from typing import Final

import mcp_types as types

from finclaw.errors import ToolError
from finclaw.redaction import hide_and_cut
from finclaw.redaction.clean import clean
from finclaw.redaction.redact import redact_for_display

_LONGEST: Final = 100_000
"""Characters of a result; the guard shows a model fewer of them, and keeps no more."""
_LONGEST_COMPLAINT: Final = 2_000
_MOST_PARTS: Final = 200


def result_text(server: str, result: types.CallToolResult) -> str:
    """Raises ToolError for a result that says that it is an error."""
    text = "\n".join(_parts(result))
    if result.is_error:
        # Secrets before the cut: the guard behind us would not know half of one.
        said = (
            " ".join(clean(redact_for_display(hide_and_cut(text, 5 * _LONGEST_COMPLAINT))[:_LONGEST_COMPLAINT]).split())
            or "no reason was given"
        )
        raise ToolError(f"the MCP server {server} says that it failed, in its own words: «{said}»")
    number = token_hex(8)
    cut = "\n[The result goes on; only its beginning is shown.]" if len(text) > _LONGEST else ""
    if not text.strip():
        text = "(an empty result)"
    shown = hide_and_cut(text, _LONGEST) if cut else text
    return f"[{number}: what the MCP server {server} wrote]\n{shown}\n[{number}: end]{cut}"


def _parts(result: types.CallToolResult) -> Iterator[str]:
    for part in result.content[:_MOST_PARTS]:
        yield _part(part)
    if len(result.content) > _MOST_PARTS:
        yield f"[{len(result.content) - _MOST_PARTS:,} more parts are not shown]"
    if not result.content and result.structured_content is not None:
        yield json.dumps(result.structured_content, ensure_ascii=False)


def _part(part: types.ContentBlock) -> str:
    match part:
        case types.TextContent():
            return part.text
        case types.ImageContent() | types.AudioContent():
            return f"[{part.type}, {hide_and_cut(part.mime_type, 100)}, not shown]"
        case types.ResourceLink():
            return f"[a resource that was not read: {hide_and_cut(str(part.uri), 500)}]"
        case types.EmbeddedResource():
            inner = part.resource
            if isinstance(inner, types.TextResourceContents):
                return inner.text
            return f"[a resource that is no text: {hide_and_cut(str(inner.uri), 500)}]"
