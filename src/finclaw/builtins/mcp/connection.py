"""A connection to one MCP server: opened, listed, called, and opened again after longer and longer pauses when lost.

Whatever a server does, it does to this connection only.
"""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from secrets import token_hex
from typing import Any, Final, Literal, cast

import mcp_types as types
from mcp.client.client import Client
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError

from finclaw.builtins.mcp.offers import CallTool
from finclaw.builtins.mcp.pins import Definition
from finclaw.builtins.mcp.settings import McpSettings, environment, request_headers
from finclaw.builtins.mcp.transport import ConnectionEnd, ServerLost, TransportStreams, program, watch, web_server
from finclaw.errors import FinclawError, ToolError, ToolTimeout, ToolUnavailable
from finclaw.kernel.port import Clock
from finclaw.redaction import hide_and_cut
from finclaw.redaction.clean import clean
from finclaw.redaction.redact import redact_for_display

START: Final = 30.0  # seconds for a server to start and to agree on a protocol
_LISTING: Final = 10.0
_MOST_TOOLS: Final = 200
_MOST_PAGES: Final = 50
"""Pages of one listing; a server that always has another page would never end it."""
_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 60.0
_STEADY: Final = 60.0  # seconds after which a server that is lost counts as one that had worked
_BETWEEN_LISTINGS: Final = 1.0
_LISTINGS_IN_A_ROW: Final = 5
"""Listings at that pace; a server whose tools never stop changing is listed less and less often from then on."""
_LONGEST_BETWEEN: Final = 30.0
_QUIET: Final = 60.0  # seconds without a change after which the pace is reset
_ANYWAY: Final = 300.0
"""Seconds after which a server is asked for its tools though nothing has happened."""
_LONGEST_RESULT: Final = 100_000
"""Characters of a result; the result guard shows a model fewer of them, and keeps no more."""
_LONGEST_COMPLAINT: Final = 2_000
_MOST_PARTS: Final = 200
_UNKNOWN: Final = "it is unknown whether it did anything"
_NO_REASON: Final = "no reason was given"

Listed = Callable[[Sequence[Definition], CallTool], Awaitable[None]]


class McpConnection:
    def __init__(self, name: str, settings: McpSettings, clock: Clock, logger: logging.Logger, listed: Listed) -> None:
        self.name = name
        self.state: Literal["starting", "up", "down"] = "starting"
        self.reason = "it is still starting"
        self.settled = asyncio.Event()
        """Set once the first try has come to something, good or bad."""
        self._settings = settings
        self._server = settings.servers[name]
        self._clock = clock
        self._logger = logger
        self._listed = listed
        self._session: ClientSession | None = None
        self._ending = ConnectionEnd()

    async def run(self) -> None:
        pause = _PAUSE
        while True:
            began = self._clock.monotonic()
            try:
                await self._open_and_look_after()
            except Exception as error:  # a stranger's failure, in whatever form, ends its connection only
                task = asyncio.current_task()
                if task is not None and task.cancelling():  # it failed while it was being closed
                    raise asyncio.CancelledError from error
                # The SDK says only that the connection broke; whoever ended it knows why.
                self.reason = self._ending.reason or _describe_error(error)
            finally:
                self._session = None
                self.state = "down"
                self.settled.set()
            if self._clock.monotonic() - began > _STEADY:
                pause = _PAUSE
            self._logger.warning("MCP server %s is lost (%s); tried again in %g s", self.name, self.reason, pause)
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def call(self, tool: str, args: dict[str, Any]) -> str:
        """Raises ToolError. Not by `ClientSession.call_tool`, which runs the server's patterns over its words."""
        session = self._session
        ending = self._ending
        if session is None:
            raise ToolUnavailable(f"the MCP server {self.name} is not available now ({self.reason}); do without it")
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=args))
        try:
            async with asyncio.timeout(self._settings.timeout):
                result = await session.send_request(request, types.CallToolResult)
        except TimeoutError as error:
            ending.stirred.set()
            limit = f"{self._settings.timeout:g} s"
            raise ToolTimeout(f"the MCP server {self.name} gave no answer within {limit}; {_UNKNOWN}") from error
        except MCPError as error:
            ending.stirred.set()
            if ending.reason:
                raise ToolUnavailable(f"the MCP server {self.name} was lost ({ending.reason}); {_UNKNOWN}") from error
            raise ToolError(f"the MCP server {self.name} refused: {_short(error.message)}") from error
        except Exception as error:  # a stranger's answer may break its parser in any way
            raise ToolError(f"the MCP server {self.name} gave an answer that is no result; do without it") from error
        return result_text(self.name, result)

    # ── one opening ─────────────────────────────────────────────────────────────────────────────────────────

    async def _open_and_look_after(self) -> None:
        self._ending = ending = ConnectionEnd()
        client = Client(
            watch(self._transport(ending), ending),
            cache=None,
            message_handler=self._on_message,
            client_info=types.Implementation(name="finclaw", version="1"),  # our release is not told to servers
        )
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(START):
                    await stack.enter_async_context(client)
            except TimeoutError as error:
                raise ServerLost(f"it was not ready within {START:g} s") from error
            await self._look_after(client.session, ending)

    async def _look_after(self, session: ClientSession, ending: ConnectionEnd) -> None:
        """List the tools, and again when they have changed, a call has failed or the connection has ended."""
        in_a_row = 0
        while not ending.reason:
            ending.stirred.clear()
            try:
                await self._list(session, ending)
            except ServerLost as lost:
                ending.end(str(lost))  # so that running calls fail with the reason
                break
            self._session = session
            self.state = "up"
            self.reason = ""
            self.settled.set()
            listed_at = self._clock.monotonic()
            await self._something_stirs(ending)
            if self._clock.monotonic() - listed_at > _QUIET:
                in_a_row = 0
            else:
                in_a_row += 1
            if not ending.reason:
                pause = _BETWEEN_LISTINGS * 2.0 ** max(0, min(in_a_row - _LISTINGS_IN_A_ROW, 10))
                await self._clock.sleep(min(pause, _LONGEST_BETWEEN))
        raise ServerLost(ending.reason)

    async def _something_stirs(self, ending: ConnectionEnd) -> None:
        """Wait for a change, or for a while: a server may be gone without a sign."""
        nap = asyncio.create_task(self._clock.sleep(_ANYWAY))
        nap.add_done_callback(lambda _: ending.stirred.set())
        try:
            await ending.stirred.wait()
        finally:
            nap.cancel()

    async def _list(self, session: ClientSession, ending: ConnectionEnd) -> None:
        found: list[types.Tool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(_LISTING):
                for _ in range(_MOST_PAGES):
                    page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                    found += page.tools
                    cursor = page.next_cursor
                    if not cursor or len(found) > _MOST_TOOLS:
                        break
                else:
                    raise ServerLost(f"its list of tools has more than {_MOST_PAGES} pages")
        except TimeoutError as error:
            raise ServerLost(f"it did not list its tools within {_LISTING:g} s") from error
        except MCPError as error:
            raise ServerLost(ending.reason or f"it does not list its tools: {_short(error.message)}") from error
        if len(found) > _MOST_TOOLS:
            self._logger.warning("MCP server %s lists more than %d tools; the rest is left out", self.name, _MOST_TOOLS)
        definitions = [Definition(each.name, each.description or "", each.input_schema) for each in found[:_MOST_TOOLS]]
        await self._listed(definitions, self.call)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._ending.stirred.set()

    def _transport(self, ending: ConnectionEnd) -> AbstractAsyncContextManager[TransportStreams]:
        largest = self._settings.largest
        if self._server.url:
            return web_server(self._server, request_headers(self._server), largest)
        child = logging.getLogger(f"{self._logger.name}.{self.name}")
        return program(self._server.command, environment(self._server, os.environ), largest, ending, child)


def _describe_error(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):  # as task groups raise them; the first is as good as any
        return _describe_error(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    match error:
        case FinclawError():
            return str(error)
        case MCPError():
            return _short(error.message)
        case FileNotFoundError():
            return f"there is no program {error.filename}; install it, or give its whole path"
        case _:
            return f"{type(error).__name__}: {_short(str(error))}"


def _short(text: str) -> str:
    """A server's text on one line. Secrets are removed before the cut: half of one would not be recognised."""
    return " ".join(redact_for_display(hide_and_cut(clean(text), 2_000)).split())[:300] or _NO_REASON


# ── results ─────────────────────────────────────────────────────────────────────────────────────────────────


def result_text(server: str, result: types.CallToolResult) -> str:
    """The text between marks that the server cannot have known. Raises ToolError for a result that is an error."""
    text = "\n".join(_parts(result))
    if result.is_error:
        # Secrets before the cut, as in `_short`.
        visible = redact_for_display(hide_and_cut(text, 5 * _LONGEST_COMPLAINT))[:_LONGEST_COMPLAINT]
        complaint = " ".join(clean(visible).split()) or _NO_REASON
        raise ToolError(f"the MCP server {server} says that it failed, in its own words: «{complaint}»")
    number = token_hex(8)
    ending = f"[{number}: end]"
    if len(text) > _LONGEST_RESULT:
        text = hide_and_cut(text, _LONGEST_RESULT)
        ending += "\n[The result goes on; only its beginning is shown.]"
    if not text.strip():
        text = "(an empty result)"
    return f"[{number}: what the MCP server {server} wrote]\n{text}\n{ending}"


def _parts(result: types.CallToolResult) -> Iterator[str]:
    for part in result.content[:_MOST_PARTS]:
        yield _part(part)
    if len(result.content) > _MOST_PARTS:
        yield f"[{len(result.content) - _MOST_PARTS:,} more parts are not shown]"
    if not result.content and result.structured_content is not None:
        yield json.dumps(result.structured_content, ensure_ascii=False)


def _part(part: types.ContentBlock) -> str:
    match part:
        case types.TextContent():
            return part.text
        case types.ImageContent() | types.AudioContent():
            return f"[{part.type}, {hide_and_cut(part.mime_type, 100)}, not shown]"
        case types.ResourceLink():
            return f"[a resource that was not read: {hide_and_cut(str(part.uri), 500)}]"
        case types.EmbeddedResource():
            inner = part.resource
            if isinstance(inner, types.TextResourceContents):
                return inner.text
            return f"[a resource that is no text: {hide_and_cut(str(inner.uri), 500)}]"
