"""May this tool run? First form: what moves money needs a person, and where nobody can be asked the answer is no."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from finclaw.kernel.port import Tool, ToolScope

Verdict = Literal["allow", "deny", "require-approval"]

Consent = Callable[[Tool, Mapping[str, Any], ToolScope], Awaitable[bool]]
"""Asks an authenticated person about exactly these arguments. True means they said yes."""


def judge(tool: Tool) -> Verdict:
    return "require-approval" if tool.transactional else "allow"


async def nobody(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    """The consent of a gateway without approvers: no."""
    return False
