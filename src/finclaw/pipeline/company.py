"""Who is on the road together: anybody with anybody, or one message alone.

Whatever was on the road when the process died is a suspect. Only one that was there alone can be found guilty.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType

from finclaw.kernel.record import Accepted


class Company:
    """Whoever wants to be alone waits for all who came before, and is waited for by all who come after."""

    def __init__(self) -> None:
        self._there = 0
        self._loners: list[Accepted] = []
        self._one_by_one = asyncio.Lock()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_open(self) -> bool:
        """Nobody wants to be alone."""
        return not self._loners

    def beside_others(self, accepted: Accepted) -> "BesideOthers":
        return BesideOthers(self, accepted)

    async def enter(self, accepted: Accepted) -> None:
        if self._loners:
            await self._until(lambda: self._may_enter(accepted))
        self._there += 1

    def leave(self) -> None:
        self._there -= 1
        self._tell()

    def _may_enter(self, accepted: Accepted) -> bool:
        """Who stands before the loner in its own session must pass: the loner's turn comes only then."""
        loner = self._loners[0] if self._loners else None
        return loner is None or (accepted.session == loner.session and accepted.ticket < loner.ticket)

    @asynccontextmanager
    async def alone(self, accepted: Accepted) -> AsyncGenerator[None]:
        """One after the other. From the first step on nobody else comes in."""
        self._loners.append(accepted)
        try:
            async with self._one_by_one:
                await self._until(lambda: not self._there)
                yield
        finally:
            self._loners.remove(accepted)
            self._tell()

    async def _until(self, may_go: Callable[[], bool]) -> None:
        while not may_go():
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def _tell(self) -> None:
        """At once and to all, in the order in which they came; nobody who is cancelled can keep it from the others."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


class BesideOthers:
    """A class and not a generator: every message passes here."""

    __slots__ = ("_accepted", "_company")

    def __init__(self, company: Company, accepted: Accepted) -> None:
        self._company = company
        self._accepted = accepted

    async def __aenter__(self) -> None:
        await self._company.enter(self._accepted)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._company.leave()
