"""`read_result`: reading on in a result that was too long to be shown whole."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, Protocol

from msgspec import Meta, Struct

from finclaw.errors import ToolError
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.taint.addresses import DELIMITER, LONGEST
from finclaw.tools.define import tool

NAME: Final = "read_result"
PART: Final = 8_000
"""Characters at a time: with the line above them they fit into what is shown of a result."""


class CutResult(Protocol):
    @property
    def tool(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def origin(self) -> str: ...


class ReadOn(Struct):
    tool: Annotated[
        str, Meta(max_length=64, description="The tool whose result was cut; left out: the last one that was.")
    ] = ""
    start: Annotated[int, Meta(ge=0, description="The character to begin at.")] = 0


class ReadResult:
    name = "read-result"

    def __init__(self, kept: Callable[[str], Awaitable[Sequence[CutResult]]]) -> None:
        """`kept` gives a session's cut results, the newest first."""
        self._kept = kept

    def register(self, api: ExtensionApi) -> None:
        @tool(NAME, "Read on in a tool's result that was cut because of its length.", group="tools")
        async def read_result(args: ReadOn, scope: ToolScope) -> ToolOutput:
            kept = [each for each in await self._kept(scope.session) if args.tool in ("", each.tool)]
            if not kept:
                raise ToolError("nothing was kept of that; call the tool itself again, and ask it for less")
            return ToolOutput(_part(kept[0], args.start), origin=kept[0].origin)

        api.tools.register(read_result)


def _part(kept: CutResult, start: int) -> str:
    start, end = _whole_words(kept.text, start)
    if start >= end:
        raise ToolError(f"that result ends at character {len(kept.text)}; begin before it")
    heading = f"{kept.tool}: characters {start} to {end} of {len(kept.text)}"
    if end < len(kept.text):
        heading += f"; read on with start={end}"
    return f"[{heading}]\n{kept.text[start:end]}"


def _whole_words(text: str, start: int) -> tuple[int, int]:
    """Where the part begins and ends. Neither end cuts a word: half of an address would be another address.

    A word longer than any address is cut, for what is not an address may have no end.
    """
    if 0 < start < len(text) and not DELIMITER.match(text, start - 1):
        following = DELIMITER.search(text, start, start + LONGEST)
        if following is not None:
            start = following.start()
        elif start + LONGEST >= len(text):
            start = len(text)
    end = min(start + PART, len(text))
    if end == len(text) or DELIMITER.match(text, end):
        return start, end
    delimiters = [found.start() for found in DELIMITER.finditer(text, max(start + 1, end - LONGEST), end)]
    return start, max(delimiters, default=end)
