"""A tool of one's own, for registries."""

from collections.abc import Mapping
from typing import Any

from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Tool, ToolOutput, ToolScope


class Own(Tool):
    """Made by hand, with what differs from most."""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec("own__one", "Own.", {})

    @property
    def group(self) -> str:
        return "custom"

    @property
    def transactional(self) -> bool:
        return False

    @property
    def parallel_safe(self) -> bool:
        return True

    @property
    def timeout(self) -> float:
        return 1.0

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
        return ToolOutput("")
