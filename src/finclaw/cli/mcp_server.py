"""`finclaw mcp serve`: our tools for another assistant, over standard input and output.

Only tools that look and change nothing, unless the operator names more; what moves money never, for nobody is here to
approve it. Each call is checked, judged, limited and guarded as a turn's would be, in that order.
"""

import asyncio
import importlib.util
import logging
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from finclaw import __version__
from finclaw.builtin_extensions import load_registrar
from finclaw.cli.options import settings_from
from finclaw.config.schema import Settings
from finclaw.config.words import did_you_mean
from finclaw.diagnostics.log import start_logging
from finclaw.errors import ConfigError, ExtensionError, ToolDenied, ToolError
from finclaw.extensions.registrar import Registrar
from finclaw.kernel.envelope import Sender, new_id
from finclaw.kernel.port import Tool, ToolScope
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.guard import GuardOptions, guard_off_loop
from finclaw.tools.guard.options import GuardChoice
from finclaw.tools.guard.redact import redact_for_display
from finclaw.tools.limit import run_with_limit
from finclaw.tools.policy.facts import facts_of
from finclaw.tools.policy.policy import Policy
from finclaw.tools.policy.rule import Rule
from finclaw.tools.policy.verdict import PolicyContext
from finclaw.web.principal import OWNER

if TYPE_CHECKING:
    import mcp_types as types

log = logging.getLogger(__name__)

CHANNEL: Final = "mcp"
"""Under this name rules may speak of these calls."""
_LOOK_ONLY: Final[Mapping[str, frozenset[str]]] = {
    "finance": frozenset(
        {"market__quote", "market__history", "market__compare", "market__hours", "market__calendar", "fx__convert"}
    ),
    "calculator": frozenset({"calc__evaluate"}),
    "now": frozenset({"time__now"}),
}
"""By the extension they come from: another's tool of the same name is not the one that is known to be harmless."""
_MOST_AT_ONCE: Final = 8
_SHOWN: Final = 50_000
"""Characters of a result: whoever calls has no `read_result`."""


def run(args: Namespace) -> int:
    settings = settings_from(args, {"market": args.market})
    if importlib.util.find_spec("mcp") is None:
        install = f"{sys.executable} -m pip install 'mcp>=2.3'"
        raise ConfigError(f"`finclaw mcp serve` needs the package `mcp`; run: {install}")
    # To standard error: the other one is the wire.
    start_logging(settings.log.level, "plain", redact_for_display)
    with redirect_stdout(sys.stderr):  # an extension that greets the world when it is loaded
        registrar = load_registrar(settings)
    asyncio.run(_serve(registrar, ToolServer(settings, registrar, args.allow)))
    return 0


async def _serve(registrar: Registrar, tool_server: "ToolServer") -> None:
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
    """A server of the tools that are offered: it lists them and runs their calls."""

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

        specs = [self._tools[name][0].spec for name in sorted(self._tools)]
        tools = [
            types.Tool(name=spec.name, description=spec.description, input_schema=deepcopy(spec.input_schema))
            for spec in specs
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, ctx: object, params: "types.CallToolRequestParams") -> "types.CallToolResult":
        import mcp_types as types  # noqa: PLC0415  optional, as above

        async with self._places:
            text, is_error = await self._call(params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)

    async def _call(self, name: str, args: Mapping[str, Any]) -> tuple[str, bool]:
        try:
            content, is_error = await self._run(name, args), False
        except (ToolError, ExtensionError) as error:  # the latter: it needs a gateway, and none is here
            content, is_error = str(error), True
        except Exception as error:  # a tool is a stranger: its bug is a result, not the end of the server
            log.exception("tool %s failed", name)
            content, is_error = f"{name} failed: {type(error).__name__}", True
        return (await guard_off_loop(content, self._guard_of(name), is_error=is_error)).content, is_error

    def _guard_of(self, name: str) -> GuardOptions:
        options = self._guards.of(name)
        return replace(options, shown=_SHOWN, stored=max(_SHOWN, options.stored))

    async def _run(self, name: str, args: Mapping[str, Any]) -> str:
        if name not in self._tools:
            raise ToolError(f"there is no tool {name[:100]!r} here; the tools are: {', '.join(sorted(self._tools))}")
        tool, source = self._tools[name]
        checked = await self._arguments.check_off_loop(tool.spec, args)
        self._permit(tool, source, checked.args)
        scope = ToolScope(
            session=f"{CHANNEL}:local",
            turn_id=new_id(),
            call_id=new_id(),
            sender=Sender(f"web:{OWNER.name}", roles=OWNER.roles),
            channel=CHANNEL,
            offered=tuple(sorted(self._tools)),
        )
        with self._breakers.call(tool.upstream, _note_circuit):
            output = await run_with_limit(tool, checked.args, scope)
        return f"{output.content}\n\n{checked.note}" if checked.note else output.content

    def _permit(self, tool: Tool, source: str, args: Mapping[str, Any]) -> None:
        judgement = self._policy.judge(
            PolicyContext(
                tool=facts_of(tool, source),
                user=f"web:{OWNER.name}",
                roles=OWNER.roles,
                channel=CHANNEL,
                agent=self._agent,
                args=args,
            )
        )
        if judgement.verdict != "allow":
            raise ToolDenied(f"{tool.spec.name} was not run: {judgement.reason}; nobody can approve it here")


def _note_circuit(before: str, after: str) -> None:
    log.warning("a circuit that was %s is %s now", before, after)


def _choose_tools(registrar: Registrar, allowed: Sequence[str]) -> list[tuple[Tool, str]]:
    every = {tool.spec.name: (tool, each.name) for each in registrar.loaded for tool in each.tools}
    for name in allowed:
        if name not in every:
            raise ConfigError(f"--allow {name}: there is no such tool{did_you_mean(name, list(every))}")
        if every[name][0].transactional:
            raise ConfigError(f"--allow {name}: it moves money, and nobody can approve that here; ask it in a chat")
    return [
        (tool, source)
        for name, (tool, source) in every.items()
        if not tool.transactional and (name in allowed or name in _LOOK_ONLY.get(source, ()))
    ]
