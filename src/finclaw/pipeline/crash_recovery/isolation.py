"""A readers-writer lock for messages in the pipeline: many together (shared), or one by itself (exclusive).

Every message that was in the pipeline when the process died may have caused it. Only one that was there by itself is
known to have: so a message that was there in several crashes is tried by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType

from finclaw.kernel.record import Accepted


class CrashIsolation:
    """The lock. An exclusive message waits for all that entered before it, and all that come later wait for it."""

    def __init__(self) -> None:
        self._inside = 0
        self._exclusive: list[Accepted] = []
        self._one_by_one = asyncio.Lock()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_open(self) -> bool:
        """Whether no message holds the lock, or waits for it, exclusively."""
        return not self._exclusive

    def shared(self, accepted: Accepted) -> "SharedEntry":
        return SharedEntry(self, accepted)

    async def enter(self, accepted: Accepted) -> None:
        if self._exclusive:
            await self._until(lambda: self._may_enter(accepted))
        self._inside += 1

    def leave(self) -> None:
        self._inside -= 1
        self._wake_all()

    def _may_enter(self, accepted: Accepted) -> bool:
        """Earlier messages of the exclusive one's own session may enter: its turn comes only after theirs."""
        exclusive = self._exclusive[0] if self._exclusive else None
        return exclusive is None or (accepted.session == exclusive.session and accepted.ticket < exclusive.ticket)

    @asynccontextmanager
    async def exclusive(self, accepted: Accepted) -> AsyncGenerator[None]:
        """Exclusive messages run one after the other. From this call on no other message enters."""
        self._exclusive.append(accepted)
        try:
            async with self._one_by_one:
                await self._until(lambda: not self._inside)
                yield
        finally:
            self._exclusive.remove(accepted)
            self._wake_all()

    async def _until(self, may_go: Callable[[], bool]) -> None:
        while not may_go():
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def _wake_all(self) -> None:
        """Wake all waiters at once, in their order; a cancelled one cannot keep the others waiting."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


class SharedEntry:
    """A context manager around one shared entry. A class and not a generator, because every message passes here."""

    __slots__ = ("_accepted", "_isolation")

    def __init__(self, isolation: CrashIsolation, accepted: Accepted) -> None:
        self._isolation = isolation
        self._accepted = accepted

    async def __aenter__(self) -> None:
        await self._isolation.enter(self._accepted)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._isolation.leave()
