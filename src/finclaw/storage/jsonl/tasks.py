"""File tasks that run to their end, also when their caller is cancelled, and that can be paused for a copy."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from finclaw.cancellation import wait_shielded
from finclaw.errors import StoreFailed

T = TypeVar("T")


class FileTasks:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._resumed = asyncio.Event()
        self._resumed.set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The caller leaves when it is done. Raises StoreFailed after `close`."""
        try:
            await self._resumed.wait()
            if self._closed:
                raise StoreFailed("the store is closed")
        except BaseException:
            work.close()
            raise
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await wait_shielded(task)

    @asynccontextmanager
    async def pause(self) -> AsyncGenerator[Callable[[], None]]:
        """Nothing runs inside. What it gives ends the pause before the end of the block, from any thread."""
        loop = asyncio.get_running_loop()
        while not self._resumed.is_set():
            await self._resumed.wait()
        self._resumed.clear()
        try:
            await self._done()
            yield lambda: loop.call_soon_threadsafe(self._resumed.set) and None
        finally:
            self._resumed.set()

    async def close(self) -> None:
        self._closed = True
        await self._done()

    async def _done(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
