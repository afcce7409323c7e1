"""A program's own way to ask a person at once, for those who build a gateway into something else."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from finclaw.kernel.port import Tool, ToolScope

Consent = Callable[[Tool, Mapping[str, Any], ToolScope], Awaitable[bool]]
"""Asks an authenticated person about exactly these arguments. True means they said yes."""


async def nobody(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    """The consent of a gateway without approvers: no."""
    return False
