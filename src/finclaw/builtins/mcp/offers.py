"""Tools of one MCP server in the registry: those whose definition is the approved one."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from shlex import quote
from typing import Any, Final

from finclaw.builtins.mcp.pins import Definition, Pin, Pins, ReadTool, local_name, read_tool
from finclaw.builtins.mcp.settings import McpSettings
from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.extension import ToolsApi
from finclaw.kernel.port import Clock, Isolation, Quote, ToolOutput, ToolScope
from finclaw.taint.origin import format_origin

_GRACE: Final = 2.0
"""Seconds that the agent waits longer for a call than this client does, so that the model reads our error."""
_MOST_LOGGED: Final = 20  # lines in the log about the tools of one listing that are left out
_MOST_SECONDS: Final = 3.0
"""Processor time in a minute for reading the definitions of one server."""
_LATER: Final = "its server has used up the time for reading definitions, 3 s a minute; it is read a little later"

CallTool = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Run the tool of this name on its server. Raises ToolError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """A tool that runs on another's server. What the server says about its harmlessness is ignored."""

    spec: ToolSpec
    remote_name: str
    digest: str
    upstream: str
    timeout: float
    call: CallTool
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
        """False, and no option: the results are always the server's."""
        return False

    def is_same(self, other: "RemoteTool") -> bool:
        return (self.digest, self.remote_name) == (other.digest, other.remote_name)

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
        return ToolOutput(await self.call(self.remote_name, dict(args)))


class Offers:
    def __init__(
        self, server: str, settings: McpSettings, pins: Pins, tools: ToolsApi, clock: Clock, logger: logging.Logger
    ) -> None:
        self.server = server
        self.left_out: dict[str, str] = {}
        """The reason why a tool is not offered, by its name on the server."""
        self.unread: frozenset[str] = frozenset()
        """Names here of tools that are offered though nobody has approved their descriptions."""
        self._settings = settings
        self._pins = pins
        self._tools = tools
        self._clock = clock
        self._logger = logger
        self._listed: Sequence[ReadTool] = ()
        """The tools of the last listing. Each definition is read once, not at every look for approvals."""
        self._ambiguous: Mapping[str, str] = {}
        self._offered: dict[str, RemoteTool] = {}
        self._minute_began = clock.monotonic()
        self._seconds_read = 0.0
        self._settling = asyncio.Lock()

    @property
    def offered(self) -> Sequence[str]:
        return sorted(self._offered)

    async def update(self, definitions: Sequence[Definition], call: CallTool) -> None:
        """Replace the listed tools. Several that would have one name here are all left out, whichever came first."""
        by_name: dict[str, list[Definition]] = {}
        for each in definitions:
            name = local_name(self.server, each.name)
            if any(fnmatchcase(name, pattern) for pattern in self._settings.tools):
                by_name.setdefault(name, []).append(each)
        async with self._settling:
            self._listed = [ReadTool(same[0], problem=_LATER) for same in by_name.values() if len(same) == 1]
            self._ambiguous = {
                each.name: f"several tools of this server would be called {name} here"
                for name, same in by_name.items()
                if len(same) > 1
                for each in same
            }
        await self.settle(call)

    async def settle(self, call: CallTool) -> None:
        """Bring the registry in line with what the server showed last and what has been approved by now."""
        async with self._settling:
            left_out = dict(self._ambiguous)
            self._listed = [await self._read_in_time(each) for each in self._listed]
            tools = await self._approved_tools(left_out, call)
            for name, tool in list(self._offered.items()):
                if name not in tools or not tool.is_same(tools[name]):
                    self._tools.unregister(name)
                    del self._offered[name]
            for name in sorted(tools.keys() - self._offered.keys()):
                try:
                    self._tools.register(tools[name])
                    self._offered[name] = tools[name]
                except ExtensionError as error:  # another extension has that name, and keeps it
                    left_out[tools[name].remote_name] = str(error)
            self._log(left_out)
            self.left_out = left_out

    async def _approved_tools(self, left_out: dict[str, str], call: CallTool) -> dict[str, RemoteTool]:
        usable = [each for each in self._listed if each.spec is not None]
        left_out.update((each.definition.name, each.problem) for each in self._listed if each.spec is None)
        pins = await self._pins.see(self.server, usable, self._clock.now(), trust_new=self._settings.pin == "first")
        self.unread = frozenset(name for name, pin in pins.items() if not pin.is_read)
        approved: dict[str, RemoteTool] = {}
        for each in usable:
            assert each.spec is not None, "what has no spec is not usable"
            name = each.definition.name
            pin = pins.get(each.spec.name)
            if pin is None or not pin.holds:
                left_out[name] = _describe_missing_approval(self.server, name, pin)
                continue
            approved[each.spec.name] = RemoteTool(
                spec=each.spec,
                remote_name=name,
                digest=pin.offered,
                upstream=f"mcp:{self.server}",
                timeout=self._settings.timeout + _GRACE,
                call=call,
            )
        return approved

    async def _read_in_time(self, tool: ReadTool) -> ReadTool:
        """Read a definition in a thread, so that the event loop runs between two of them."""
        now = self._clock.monotonic()
        if now - self._minute_began > 60:
            self._minute_began = now
            self._seconds_read = 0.0
        if tool.problem != _LATER or self._seconds_read > _MOST_SECONDS:
            return tool
        tool, seconds = await asyncio.to_thread(_read_timed, self.server, tool.definition)
        self._seconds_read += seconds
        return tool

    def _log(self, left_out: Mapping[str, str]) -> None:
        news = [(tool, why) for tool, why in left_out.items() if why not in (self.left_out.get(tool), _LATER)]
        for tool, why in news[:_MOST_LOGGED]:
            self._logger.warning("tool %r of MCP server %s is not offered: %s", format_origin(tool), self.server, why)
        if len(news) > _MOST_LOGGED:
            more = len(news) - _MOST_LOGGED
            self._logger.warning("%d more tools of MCP server %s are not offered; /mcp says why", more, self.server)


def _read_timed(server: str, definition: Definition) -> tuple[ReadTool, float]:
    began = time.thread_time()
    tool = read_tool(server, definition)
    return tool, time.thread_time() - began


def _describe_missing_approval(server: str, tool: str, pin: Pin | None) -> str:
    if pin is None:
        return "this server has shown more tools than are remembered"
    why = "it was never approved" if pin.pinned is None else "its definition is not the one that was let in"
    # A server may call its tool `x; rm -rf ~`, and this line is made to be copied.
    command = f"finclaw mcp approve {server} {quote(format_origin(tool))}"
    return f"{why}; look at it with `finclaw mcp pins`, then: {command}"
