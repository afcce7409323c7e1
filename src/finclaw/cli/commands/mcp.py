"""`finclaw mcp`: list and approve the tools of MCP servers, or serve our own tools to another assistant."""

import asyncio
import importlib.util
import logging
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from finclaw import __version__
from finclaw.builtins.mcp.pins import Pin, Pins
from finclaw.cli.arguments import add_json_option, settings_from, start_actions
from finclaw.cli.formatting import print_result, table
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.diagnostics.log import start_logging
from finclaw.errors import ConfigError, ExtensionError, ToolDenied, ToolError
from finclaw.extensions.registrar import Registrar
from finclaw.ids import new_id
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import Tool, ToolScope
from finclaw.policy.policy import Policy
from finclaw.policy.rule import Rule
from finclaw.policy.verdict import PolicyContext, facts_of
from finclaw.redaction.clean import clean
from finclaw.redaction.redact import redact_for_display
from finclaw.text import did_you_mean
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.result_guard import guard_off_loop
from finclaw.tools.settings import GuardChoice
from finclaw.tools.time_limit import run_with_limit
from finclaw.web.principal import OWNER

if TYPE_CHECKING:
    import mcp_types as types

T = TypeVar("T")


def arguments(parser: ArgumentParser) -> None:
    add_action = start_actions(parser)
    about = "list the tools that MCP servers have offered, and which of them are approved"
    add_json_option(add_action("pins", about, _pins))
    action = add_action("approve", "approve what a server offers as a tool now", _approve)
    action.add_argument("server", metavar="SERVER", help="its name in the settings")
    action.add_argument("tool", metavar="TOOL", help="the tool's name on that server")
    action.add_argument("--digest", metavar="DIGEST", help="only if it is still this one, as `finclaw mcp pins` shows")
    action = add_action("serve", "offer our tools to another assistant, over standard input and output", serve)
    about = "offer this tool too; may be given several times"
    action.add_argument("--allow", action="append", default=[], metavar="NAME", help=about)
    action.add_argument("--demo", dest="market", action="store_const", const="demo", help="use the demo market")


def run(args: Namespace) -> None:
    args.act(args)


def _pins(args: Namespace) -> None:
    pins = _with_pins(settings_from(args), lambda each: each.every())
    lines = ["No MCP server has offered a tool yet; start a gateway with some in the settings of the extension mcp."]
    if pins:
        rows = [(pin.server, _clean_line(pin.tool), pin.state, pin.offered[:12], pin.offered_at) for pin in pins]
        lines = table([("SERVER", "TOOL", "STATE", "DIGEST", "SINCE"), *rows])
        lines += (line for pin in pins for line in _difference(pin))
    print_result(args, {"pins": [_for_programs(pin) for pin in pins]}, lines)


def _approve(args: Namespace) -> None:
    before = _with_pins(settings_from(args), lambda each: each.approve(args.server, args.tool, args.digest))
    already = f"It was approved already: {_clean_line(before.tool)} {before.offered[:12]}."
    print("\n".join(_difference(before)) or already)
    if not before.holds:
        print("It is approved now. A gateway that runs offers it within a few seconds.")
    elif before.state == "unread":
        print("It counts as trusted text now. A gateway that runs knows within a few seconds.")


def _with_pins(settings: Settings, ask: Callable[[Pins], Awaitable[T]]) -> T:
    """The file is the extension's own, so this works beside a gateway that runs."""
    mine = next((each for each in load_registrar(settings).loaded if each.name == "mcp"), None)
    if mine is None or mine.database is None:
        raise ConfigError("the extension mcp is not in use; list it under agent.extensions, with its servers")
    database = mine.database

    async def work() -> T:
        try:
            return await ask(Pins(database))
        finally:
            await database.close()

    return asyncio.run(work())


def _difference(pin: Pin) -> Iterator[str]:
    if pin.state == "pinned":
        return
    yield f"{pin.server} {_clean_line(pin.tool)}, {pin.offered[:12]}:"
    if pin.pinned_text is not None and not pin.holds:
        yield f"  was: {_clean_line(pin.pinned_text)}"
    yield f"  now: {_clean_line(pin.offered_text)}"


def _clean_line(text: str) -> str:
    """On one line, and without anything that a terminal would obey. JSON has escaped what nobody sees."""
    return " ".join(clean(text).split())


def _for_programs(pin: Pin) -> dict[str, Any]:
    return {
        "server": pin.server,
        "tool": pin.tool,
        "state": pin.state,
        "pinned": pin.pinned,
        "offered": pin.offered,
        "since": pin.offered_at,
        "pinned_definition": msgspec.json.decode(pin.pinned_text or "null"),
        "offered_definition": msgspec.json.decode(pin.offered_text),
    }


# ── finclaw mcp serve: our tools for another assistant, over standard input and output ──────────────────────────


log = logging.getLogger(__name__)
CHANNEL: Final = "mcp"  # under this name rules may speak of these calls
_LOOK_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "finance": frozenset(
        {"market__quote", "market__history", "market__compare", "market__hours", "market__calendar", "fx__convert"}
    ),
    "calculator": frozenset({"calc__evaluate"}),
    "now": frozenset({"time__now"}),
}
"""By the extension they come from: another's tool of the same name is not the one that is known to be harmless."""
_MOST_AT_ONCE: Final = 8
_SHOWN: Final = 50_000  # characters of a result: whoever calls has no `read_result`


def serve(args: Namespace) -> None:
    settings = settings_from(args, {"market": args.market})
    if importlib.util.find_spec("mcp") is None:
        install = f"{sys.executable} -m pip install 'mcp>=2.3'"
        raise ConfigError(f"`finclaw mcp serve` needs the package `mcp`; run: {install}")
    # To standard error: the other one is the wire.
    start_logging(settings.log.level, "plain", redact_for_display)
    with redirect_stdout(sys.stderr):  # an extension that greets the world when it is loaded
        registrar = load_registrar(settings)
    asyncio.run(_run_server(registrar, ToolServer(settings, registrar, args.allow)))


async def _run_server(registrar: Registrar, tool_server: "ToolServer") -> None:
    from mcp.server.lowlevel import Server  # noqa: PLC0415  optional, and start-up: most of a second
    from mcp.server.stdio import stdio_server  # noqa: PLC0415  optional

    try:
        server = Server(
            "finclaw", version=__version__, on_list_tools=tool_server.list_tools, on_call_tool=tool_server.call_tool
        )
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    finally:
        await registrar.close()


class ToolServer:
    """A server of the tools that are offered: it lists them and runs their calls. Only tools that look and change
    nothing, unless the operator names more; what moves money never, for nobody is here to approve it. Each call is
    checked, judged, limited and guarded as a turn's would be, in that order."""

    def __init__(self, settings: Settings, registrar: Registrar, allowed: Sequence[str]) -> None:
        """Raises ConfigError for a tool that is not there, or that only a person may let run."""
        self._tools = {tool.spec.name: (tool, source) for tool, source in _choose_tools(registrar, allowed)}
        lifted = [Rule(name, "allow", "tool", reason="allowed when this was started") for name in allowed]
        self._policy = Policy([*settings.tools.rules, *lifted])
        self._agent = settings.agent.name
        self._arguments = ArgumentCheck()
        self._guards = GuardChoice(settings.tools.guard, settings.tools.guards)
        self._breakers = registrar.tools.breakers
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

    async def list_tools(self, ctx: object, params: object) -> "types.ListToolsResult":
        import mcp_types as types  # noqa: PLC0415  optional, as above

        tools: list[types.Tool] = []
        for name in sorted(self._tools):
            spec = self._tools[name][0].spec
            tools.append(types.Tool(name=name, description=spec.description, input_schema=deepcopy(spec.input_schema)))
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, ctx: object, params: "types.CallToolRequestParams") -> "types.CallToolResult":
        import mcp_types as types  # noqa: PLC0415  optional, as above

        async with self._places:
            text, is_error = await self._call(params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    async def _call(self, name: str, args: Mapping[str, Any]) -> tuple[str, bool]:
        is_error = True
        try:
            content = await self._run(name, args)
            is_error = False
        except (ToolError, ExtensionError) as error:  # the latter: it needs a gateway, and none is here
            content = str(error)
        except Exception as error:  # a tool is a stranger: its bug is a result, not the end of the server
            log.exception("tool %s failed", name)
            content = f"{name} failed: {type(error).__name__}"
        guard = self._guards.of(name)
        guard = replace(guard, shown=_SHOWN, stored=max(_SHOWN, guard.stored))
        return (await guard_off_loop(content, guard, is_error=is_error)).content, is_error

    async def _run(self, name: str, args: Mapping[str, Any]) -> str:
        if name not in self._tools:
            raise ToolError(f"there is no tool {name[:100]!r} here; the tools are: {', '.join(sorted(self._tools))}")
        tool, source = self._tools[name]
        checked = await self._arguments.check_off_loop(tool.spec, args)
        user = f"web:{OWNER.name}"
        facts = facts_of(tool, source)
        call = PolicyContext(
            tool=facts, user=user, roles=OWNER.roles, channel=CHANNEL, agent=self._agent, args=checked.args
        )
        if (judgement := self._policy.judge(call)).verdict != "allow":
            raise ToolDenied(f"{name} was not run: {judgement.reason}; nobody can approve it here")
        scope = ToolScope(
            session=f"{CHANNEL}:local",
            turn_id=new_id(),
            call_id=new_id(),
            sender=Sender(user, roles=OWNER.roles),
            channel=CHANNEL,
            offered=tuple(sorted(self._tools)),
        )
        with self._breakers.call(tool.upstream, partial(log.warning, "a circuit that was %s is %s now")):
            output = await run_with_limit(tool, checked.args, scope)
        if checked.note:
            return f"{output.content}\n\n{checked.note}"
        return output.content


def _choose_tools(registrar: Registrar, allowed: Sequence[str]) -> list[tuple[Tool, str]]:
    every = {tool.spec.name: (tool, each.name) for each in registrar.loaded for tool in each.tools}
    for name in allowed:
        if name not in every:
            raise ConfigError(f"--allow {name}: there is no such tool{did_you_mean(name, list(every))}")
        if every[name][0].transactional:
            raise ConfigError(f"--allow {name}: it moves money, and nobody can approve that here; ask it in a chat")
    chosen = (pair for name, pair in every.items() if name in allowed or name in _LOOK_ONLY.get(pair[1], ()))
    return [(tool, source) for tool, source in chosen if not tool.transactional]
