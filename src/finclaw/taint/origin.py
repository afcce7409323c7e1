"""The origin of a tool's result: whose words it holds. What strangers wrote may ask for things, and must not get them.

A turn that has read such words runs nothing that moves money or speaks for the person unless that person approves,
and sees what was read.
"""

from collections.abc import Mapping
from typing import Any, Final

from finclaw.kernel.port import Tool
from finclaw.redaction.redact import redact_for_display

OUR_OWN: Final = frozenset({"finance", "agent", "tools"})
"""Groups whose results are figures and words of the gateway itself. One of their tools that passes on somebody else's
says so in its output; files, processes and pages are always somebody else's.
"""
NEVER_OUR_OWN: Final = frozenset({"web", "system", "data"})
"""Groups in which no tool may say that its results are the operator's own."""
_WHERE: Final = ("url", "uri", "path", "query")
_LONGEST: Final = 200


def origin_of(tool: Tool, args: Mapping[str, Any]) -> str:
    """What to call it on an approval's card: the tool and where it looked. Empty: these are no stranger's words."""
    if tool.group in OUR_OWN or (tool.own_results and tool.group not in NEVER_OUR_OWN):
        return ""
    where = next((str(args[key]) for key in _WHERE if key in args), "")
    return format_origin(f"{tool.spec.name} {where}" if where else tool.spec.name)


def format_origin(origin: str) -> str:
    """As one short line that nothing hides in: a tool may have worded it. An address may well hold a key."""
    safe = redact_for_display(origin[: 10 * _LONGEST])
    return "".join(character if character.isprintable() else "?" for character in safe)[:_LONGEST]
