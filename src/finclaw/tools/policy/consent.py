"""The first form of policy, until the nine stages are asked: what moves money needs a person."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from finclaw.kernel.port import Tool, ToolScope
from finclaw.tools.policy.verdict import Verdict

Consent = Callable[[Tool, Mapping[str, Any], ToolScope], Awaitable[bool]]
"""Asks an authenticated person about exactly these arguments. True means they said yes."""


def judge(tool: Tool) -> Verdict:
    return "require-approval" if tool.transactional else "allow"


async def nobody(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    """The consent of a gateway without approvers: no."""
    return False
