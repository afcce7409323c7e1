"""Calls of tools whose arguments and results hold canaries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from tests.attack.canary import ALL

from finclaw.kernel.port import Tool, ToolScope
from finclaw.tools.define import tool

SERVER: Final = Path(__file__).parent / "leaking_server.py"
GIVEN: Final = {"text": ALL, "deep": [{"note": ALL}]}


class Words(Struct):
    text: str = ""
    deep: list[dict[str, str]] = []


def acting(body: Callable[[Words, ToolScope], Any] | None = None, **options: Any) -> Callable[[], Tool]:
    def made() -> Tool:
        @tool("act__now", "Acts.", group="finance", **options)
        async def act(args: Words, scope: ToolScope) -> str:
            return "done" if body is None else await body(args, scope)

        return act

    return made
