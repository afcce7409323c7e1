"""All tools of the house by name."""

import re

from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Tool

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every model API takes. By custom a tool is called `resource__tool`."""


class ToolRegistry:
    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def register(self, tool: Tool) -> None:
        name = tool.spec.name
        if not _NAME.fullmatch(name):
            raise ExtensionError(f"tool name {name!r}: use 1 to 64 letters, digits, '_' or '-', as in 'market__quote'")
        if name in self._tools:
            raise ExtensionError(f"tool {name!r} is already registered; choose another name or unregister it first")
        self._tools[name] = tool

    def unregister(self, name: str) -> bool:
        """False if there was none."""
        return self._tools.pop(name, None) is not None

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def list(self) -> tuple[Tool, ...]:
        """In the order in which they were registered."""
        return tuple(self._tools.values())

    def list_by_group(self, group: str) -> tuple[Tool, ...]:
        return tuple(tool for tool in self._tools.values() if tool.group == group)

    def specs(self) -> tuple[ToolSpec, ...]:
        """As models see them, in an order that no start-up changes: a provider's cache keys on these bytes."""
        return tuple(sorted((tool.spec for tool in self._tools.values()), key=lambda spec: spec.name))
