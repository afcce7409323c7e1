"""Tools that leak the canaries, each in its own way."""

import json
from collections.abc import Callable
from typing import Final

from tests.attack.canary import ALL, CANARIES, SECRETS
from tests.attack.desk import Nothing

from finclaw.errors import ToolError, ToolUnavailable
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool


def gives() -> str:
    return ALL


def says() -> str:
    raise ToolError(f"the server said: {ALL}", suggestion=f"use {ALL}")


def is_down() -> str:
    raise ToolUnavailable(f"no answer from https://user:{SECRETS[0]}@host/?key={SECRETS[0]} {ALL}")


def breaks() -> str:
    try:
        raise ValueError(ALL)
    except ValueError as error:
        raise RuntimeError(f"while using {ALL}") from error


def traces() -> str:
    frame = f'  File "/x.py", line 1, in f\n    use({ALL!r})'
    raise ToolError(f"Traceback (most recent call last):\n{frame}\nKeyError: {ALL}")


def nests() -> str:
    return json.dumps({"data": [{"note": ALL, "deep": {"key": CANARIES["token"]}}]}, ensure_ascii=False)


def is_long() -> str:
    return f"{ALL}\n" * 2_000


def is_a_page() -> str:
    return f"<html><!-- {ALL} --><p title='{ALL}'>{'</b><b>'.join(ALL)}</p></html>"


THROUGH_TOOLS: Final[dict[str, Callable[[], str]]] = {
    "result": gives,
    "error": says,
    "unavailable": is_down,
    "exception": breaks,
    "traceback": traces,
    "json": nests,
    "long": is_long,
    "page": is_a_page,
}


def leaking(how: str, *, transactional: bool = False) -> Tool:
    @tool("leak__all", "Leaks.", group="web", transactional=transactional)
    async def leak(args: Nothing, scope: ToolScope) -> ToolOutput:
        return ToolOutput(THROUGH_TOOLS[how]())

    return leak
