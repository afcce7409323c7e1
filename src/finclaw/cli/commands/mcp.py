"""`finclaw mcp`: list and approve the tools of MCP servers, or serve our own tools to another assistant."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec

from finclaw.builtin_extensions import load_registrar
from finclaw.builtins.mcp.pins import Pin, Pins
from finclaw.cli import mcp_server
from finclaw.cli.arguments import add_actions, add_json_option
from finclaw.cli.formatting import json_line, table
from finclaw.cli.options import settings_from
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.tools.guard.clean import clean

T = TypeVar("T")


def arguments(parser: ArgumentParser) -> None:
    add_actions(
        parser,
        (
            ("pins", "list the tools that MCP servers have offered, and which of them are approved", add_json_option),
            ("approve", "approve what a server offers as a tool now", _approve_arguments),
            ("serve", "offer our tools to another assistant, over standard input and output", _serve_arguments),
        ),
    )


def _approve_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("server", metavar="SERVER", help="its name in the settings")
    parser.add_argument("tool", metavar="TOOL", help="the tool's name on that server")
    parser.add_argument("--digest", metavar="DIGEST", help="only if it is still this one, as `finclaw mcp pins` shows")


def _serve_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="offer this tool too; may be given several times"
    )
    parser.add_argument("--demo", dest="market", action="store_const", const="demo", help="use the demo market")


def run(args: Namespace) -> int:
    match args.action:
        case "pins":
            return _pins(args)
        case "approve":
            return _approve(args)
        case _:
            return mcp_server.run(args)


def _pins(args: Namespace) -> int:
    pins = _with_pins(settings_from(args), lambda each: each.every())
    if args.json:
        print(json_line({"pins": [_for_programs(pin) for pin in pins]}))
    elif not pins:
        print("No MCP server has offered a tool yet; start a gateway with some in the settings of the extension mcp.")
    else:
        rows = [(pin.server, _clean_line(pin.tool), pin.state, pin.offered[:12], pin.offered_at) for pin in pins]
        print("\n".join(table([("SERVER", "TOOL", "STATE", "DIGEST", "SINCE"), *rows])))
        for pin in pins:
            print("\n".join(_difference(pin)))
    return 0


def _approve(args: Namespace) -> int:
    before = _with_pins(settings_from(args), lambda each: each.approve(args.server, args.tool, args.digest))
    print(
        "\n".join(_difference(before)) or f"It was approved already: {_clean_line(before.tool)} {before.offered[:12]}."
    )
    if not before.holds:
        print("It is approved now. A gateway that runs offers it within a few seconds.")
    elif before.state == "unread":
        print("It counts as trusted text now. A gateway that runs knows within a few seconds.")
    return 0


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
        "pinned_definition": None if pin.pinned_text is None else msgspec.json.decode(pin.pinned_text),
        "offered_definition": msgspec.json.decode(pin.offered_text),
    }
