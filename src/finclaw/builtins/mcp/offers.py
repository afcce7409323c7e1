"""Tools of one MCP server in the registry: those whose definition is the approved one."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from shlex import quote
from typing import Any, Final

from finclaw.builtins.mcp.definition import Definition, ReadTool, ambiguous, local_name, read_tool
from finclaw.builtins.mcp.pins import Pin, Pins
from finclaw.builtins.mcp.settings import McpSettings
from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.extension import ToolsApi
from finclaw.kernel.port import Clock, Isolation, Quote, ToolOutput, ToolScope
from finclaw.taint.origin import format_origin

_HOUSE_LIMIT = 2.0
"""Seconds that the agent waits longer for a call than this client does, so that the model reads our error."""
_MOST_TOLD = 20
"""Lines in the log about tools of one listing that are left out."""
_MOST_SECONDS: Final = 3.0
"""Of processor time a minute for reading the definitions of one server."""
_LATER: Final = "its server has used up the time for reading definitions, 3 s a minute; it is read a little later"

CallTool = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Run the tool of this name on its server. Raises ToolError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTool:
    """A tool that runs on a server of somebody else.

    What the server says about its own harmlessness counts for nothing: its group is that of strangers.
    """

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
        """Never: they are the server's."""
        return False

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput:
        return ToolOutput(await self.call(self.remote_name, dict(args)))


class Offers:
    """Registered tools of a server.

    `left_out` says of a tool why it is not offered, by the name that it has on its server.

    `unread` are those that are offered though nobody has read their descriptions, by the names that they have here.
    """

    def __init__(
        self, server: str, settings: McpSettings, pins: Pins, tools: ToolsApi, clock: Clock, logger: logging.Logger
    ) -> None:
        self.server = server
        self.left_out: dict[str, str] = {}
        self.unread: frozenset[str] = frozenset()
        self._settings = settings
        self._pins = pins
        self._tools = tools
        self._clock = clock
        self._logger = logger
        self._seen: Sequence[Definition] = ()
        self._read: Sequence[ReadTool] | None = None
        """What was seen last, once it has been read."""
        self._offered: dict[str, RemoteTool] = {}
        self._minute_began = clock.monotonic()
        self._seconds_read = 0.0
        self._settling = asyncio.Lock()

    @property
    def offered(self) -> Sequence[str]:
        return sorted(self._offered)

    async def update(self, definitions: Sequence[Definition], call: CallTool) -> None:
        async with self._settling:
            self._seen = definitions
            self._read = None
        await self.settle(call)

    async def settle(self, call: CallTool) -> None:
        """Bring the registry in line with what the server showed last and what has been approved by now."""
        async with self._settling:
            left_out: dict[str, str] = {}
            tools = await self._approved_tools(left_out, call)
            for name in [name for name, tool in self._offered.items() if _differs(tool, tools.get(name))]:
                self._tools.unregister(name)
                del self._offered[name]
            for name in sorted(tools.keys() - self._offered.keys()):
                try:
                    self._tools.register(tools[name])
                    self._offered[name] = tools[name]
                except ExtensionError as error:  # somebody has that name, and keeps it
                    left_out[tools[name].remote_name] = str(error)
            self._tell(left_out)

    async def _approved_tools(self, left_out: dict[str, str], call: CallTool) -> dict[str, RemoteTool]:
        usable = await self._usable_tools(left_out)
        pins = await self._pins.see(self.server, usable, self._clock.now(), trust_new=self._settings.pin == "first")
        fitting: dict[str, RemoteTool] = {}
        self.unread = frozenset(name for name, pin in pins.items() if not pin.is_read)
        for each in usable:
            assert each.spec is not None, "what has no spec is not usable"
            pin = pins.get(each.spec.name)
            if pin is None or not pin.holds:
                left_out[each.definition.name] = _why_not(self.server, each.definition.name, pin)
                continue
            fitting[each.spec.name] = RemoteTool(
                spec=each.spec,
                remote_name=each.definition.name,
                digest=pin.offered,
                upstream=f"mcp:{self.server}",
                timeout=self._settings.timeout + _HOUSE_LIMIT,
                call=call,
            )
        return fitting

    async def _usable_tools(self, left_out: dict[str, str]) -> Sequence[ReadTool]:
        usable: list[ReadTool] = []
        for each in await self._read_once(left_out):
            if each.spec is None:
                left_out[each.definition.name] = each.problem
            else:
                usable.append(each)
        return usable

    async def _read_once(self, left_out: dict[str, str]) -> Sequence[ReadTool]:
        """The definitions that were seen last, read. Looking for approvals each second reads none of them again."""
        wanted = [each for each in self._seen if self._is_wanted(each)]
        twice = ambiguous(self.server, wanted)
        for each in wanted:
            if (name := local_name(self.server, each.name)) in twice:
                left_out[each.name] = f"several tools of this server would be called {name} here"
        if self._read is None:
            once = [each for each in wanted if local_name(self.server, each.name) not in twice]
            self._read = [ReadTool(each, problem=_LATER) for each in once]
        self._read = [await self._read_in_time(each) for each in self._read]
        return self._read

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

    def _is_wanted(self, definition: Definition) -> bool:
        name = local_name(self.server, definition.name)
        return any(fnmatchcase(name, pattern) for pattern in self._settings.tools)

    def _tell(self, left_out: dict[str, str]) -> None:
        news = [(tool, why) for tool, why in left_out.items() if why not in (self.left_out.get(tool), _LATER)]
        for tool, why in news[:_MOST_TOLD]:
            self._logger.warning("tool %r of MCP server %s is not offered: %s", format_origin(tool), self.server, why)
        if len(news) > _MOST_TOLD:
            more = len(news) - _MOST_TOLD
            self._logger.warning("%d more tools of MCP server %s are not offered; /mcp says why", more, self.server)
        self.left_out = left_out


def _read_timed(server: str, definition: Definition) -> tuple[ReadTool, float]:
    began = time.thread_time()
    tool = read_tool(server, definition)
    return tool, time.thread_time() - began


def _differs(tool: RemoteTool, wanted: RemoteTool | None) -> bool:
    return wanted is None or (wanted.digest, wanted.remote_name) != (tool.digest, tool.remote_name)


def _why_not(server: str, tool: str, pin: Pin | None) -> str:
    if pin is None:
        return "this server has shown more tools than are remembered"
    what = "it was never approved" if pin.pinned is None else "its definition is not the one that was let in"
    # A server may call its tool `x; rm -rf ~`, and this line is made to be copied.
    return (
        f"{what}; look at it with `finclaw mcp pins`, then: finclaw mcp approve {server} {quote(format_origin(tool))}"
    )
