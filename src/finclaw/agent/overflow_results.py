"""Overflow of tool results that were too long to show: the rest is kept, durably, for whoever asks to read on."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from msgspec import Struct, convert, to_builtins

KEEPER: Final = "read-result"
MOST: Final = 8
"""For each session; the oldest make room. Nobody reads on in what was said an hour ago."""

Recall = Callable[[str, str], Awaitable[Any]]
Remember = Callable[[str, str, Any], Awaitable[None]]


class OverflowResult(Struct, frozen=True):
    """The rest of one long result."""

    tool: str
    call_id: str
    text: str
    origin: str = ""
    """Which strangers' words it holds: they are theirs on every later page too."""


class OverflowResults:
    """The store of overflow results. `recall` and `remember` are the store's, as extensions have them."""

    def __init__(self, recall: Recall, remember: Remember) -> None:
        self._recall = recall
        self._remember = remember

    async def keep(self, session: str, aside: OverflowResult) -> None:
        others = [each for each in await self.of(session) if each.call_id != aside.call_id]
        await self._remember(KEEPER, session, to_builtins([aside, *others][:MOST]))

    async def of(self, session: str) -> list[OverflowResult]:
        """The newest first."""
        kept = cast("list[Any] | None", await self._recall(KEEPER, session))
        return convert(kept or [], list[OverflowResult])
