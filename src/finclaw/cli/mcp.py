"""`finclaw mcp`: look at what MCP servers have shown, let it in, or serve our own tools to another assistant."""

import asyncio
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec

from finclaw.builtin_extensions import registered
from finclaw.builtins.mcp.pins import Pin, Pins
from finclaw.cli.chat.clean import json_line
from finclaw.cli.figures import table
from finclaw.cli.options import settings_from
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.tools.guard.clean import clean

T = TypeVar("T")


def run(args: Namespace) -> int:
    match args.action:
        case "pins":
            return _pins(args)
        case "approve":
            return _approve(args)
        case _:
            from finclaw.cli import mcp_serve  # noqa: PLC0415  it loads the SDK, which the others need not

            return mcp_serve.run(args)


def _pins(args: Namespace) -> int:
    pins = _with_pins(settings_from(args), lambda each: each.every())
    if args.json:
        print(json_line({"pins": [_for_programs(pin) for pin in pins]}))
    elif not pins:
        print("No MCP server has shown a tool yet; start a gateway with some in the settings of the extension mcp.")
    else:
        rows = [(pin.server, _plain(pin.tool), pin.state, pin.offered[:12], pin.offered_at) for pin in pins]
        print("\n".join(table([("SERVER", "TOOL", "STATE", "DIGEST", "SINCE"), *rows])))
        for pin in pins:
            print("\n".join(_difference(pin)))
    return 0


def _approve(args: Namespace) -> int:
    before = _with_pins(settings_from(args), lambda each: each.approve(args.server, args.tool, args.digest))
    print("\n".join(_difference(before)) or f"It was let in already: {_plain(before.tool)} {before.offered[:12]}.")
    if not before.holds:
        print("It is let in now. A gateway that runs offers it within a few seconds.")
    elif before.state == "unread":
        print("It is no stranger's text any more. A gateway that runs knows within a few seconds.")
    return 0


def _with_pins(settings: Settings, ask: Callable[[Pins], Awaitable[T]]) -> T:
    """The file is the extension's own, so this works beside a gateway that runs."""
    mine = next((each for each in registered(settings).loaded if each.name == "mcp"), None)
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
    yield f"{pin.server} {_plain(pin.tool)}, {pin.offered[:12]}:"
    if pin.pinned_text is not None and not pin.holds:
        yield f"  was: {_plain(pin.pinned_text)}"
    yield f"  now: {_plain(pin.offered_text)}"


def _plain(text: str) -> str:
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
