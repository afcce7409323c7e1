"""Tools of a fault matrix, and layers that answer for anybody."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.walks.tools import Desk

from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Tool, ToolScope


async def anybody(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    return True


@dataclass
class Tools:
    desk: Desk
    name: str = "tools"

    def register(self, api: ExtensionApi) -> None:
        api.tools.register(self.desk.tool("look"))
        api.tools.register(self.desk.tool("order", transactional=True))
