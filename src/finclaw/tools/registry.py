"""The registry of all tools by name, with their sources; and the circuit breakers of what they depend on."""

import re
from datetime import datetime
from typing import Final

from msgspec import Struct

from finclaw.clock import SystemClock
from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Clock, Tool
from finclaw.tools.breaker import Breakers

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every model API takes. By custom a tool is called `resource__tool`."""
_FIELDS: Final = (
    "group",
    "transactional",
    "parallel_safe",
    "timeout",
    "approval",
    "sensitive",
    "upstream",
    "isolation",
    "quote",
    "changes",
    "own_results",
)


class ToolEntry(Struct, frozen=True):
    """A registered tool. `source` is the extension that brought it, or `builtin`, `mcp`, `skill`."""

    tool: Tool
    source: str
    registered_at: datetime


class ToolRegistry:
    """A mutable set of tools with unique names."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._entries: dict[str, ToolEntry] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        """All tools, while nobody comes or goes."""
        self.breakers: Final = Breakers(self._clock)

    def register(self, tool: Tool, source: str = "builtin") -> None:
        name = tool.spec.name
        if not _NAME.fullmatch(name):
            raise ExtensionError(f"tool name {name!r}: use 1 to 64 letters, digits, '_' or '-', as in 'market__quote'")
        if (former := self._entries.get(name)) is not None:
            raise ExtensionError(
                f"tool {name!r} is already registered by {former.source!r}, and now by {source!r}; "
                "choose another name or unregister it first"
            )
        if missing := [field for field in _FIELDS if not hasattr(tool, field)]:
            raise ExtensionError(
                f"tool {name!r} does not say its {', '.join(missing)}; make it with @tool, or inherit from finclaw.Tool"
            )
        self._entries[name] = ToolEntry(tool, source, self._clock.now())
        self._specs = None

    def unregister(self, name: str) -> bool:
        """False if there was none. What was held against its upstream goes with the last tool that needs it."""
        gone = self._entries.pop(name, None)
        self._specs = None
        if gone is not None and not any(each.tool.upstream == gone.tool.upstream for each in self._entries.values()):
            self.breakers.forget(gone.tool.upstream)
        return gone is not None

    def get(self, name: str) -> Tool | None:
        entry = self._entries.get(name)
        return None if entry is None else entry.tool

    def has(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> ToolEntry | None:
        return self._entries.get(name)

    def list(self) -> tuple[Tool, ...]:
        """In the order in which they were registered."""
        return tuple(entry.tool for entry in self._entries.values())

    def list_by_group(self, group: str) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.list() if tool.group == group)

    def specs(self) -> tuple[ToolSpec, ...]:
        """As models see them, in an order that no start-up changes: a provider's cache keys on these bytes."""
        if self._specs is None:
            self._specs = tuple(sorted([tool.spec for tool in self.list()], key=lambda spec: spec.name))
        return self._specs
