"""A tool that runs on somebody else's server, as the house sees it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Isolation, Quote, ToolOutput, ToolScope

Call = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Run the tool of this name on its server. Raises ToolError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """What the server says about its own harmlessness counts for nothing: its group is that of strangers."""

    spec: ToolSpec
    remote_name: str
    digest: str
    upstream: str
    timeout: float
    call: Call
    group: str = "custom"
    transactional: bool = False
    parallel_safe: bool = False
    approval: bool = False
    sensitive: bool = False
    changes: bool = False
    isolation: Isolation = "loop"
    quote: Quote | None = None

    @property
    def own_results(self) -> bool:
        """Never: they are the server's."""
        return False

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
        return ToolOutput(await self.call(self.remote_name, dict(args)))
