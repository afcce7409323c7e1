"""Threads for tools that block. One that never comes back is left behind, counted, and replaced, up to a limit.

Not the pool of the standard library: that one waits for its threads when the process ends, and a tool that hangs
would keep the gateway from stopping.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from typing import Any, ClassVar, Final, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct

from finclaw.errors import ToolUnavailable
from finclaw.tools.time_limit import as_exception, in_this_process, look_away

log = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE: Final = 16
MOST_LOST: Final = 32  # threads that may hang: each holds memory for ever
STOP_PATIENCE: Final = 0.4  # seconds; a stopped turn waits longer for its tools


class ToolThreads:
    """The threads of one event loop: so many at once, not counting those that were left behind."""

    _of_loops: ClassVar["WeakKeyDictionary[asyncio.AbstractEventLoop, ToolThreads]"] = WeakKeyDictionary()

    def __init__(self, at_once: int = AT_ONCE, most_lost: int = MOST_LOST) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._most_lost = most_lost
        self._executor = _ThreadPerCall()
        self.lost = 0

    @classmethod
    def here(cls) -> "ToolThreads":
        loop = asyncio.get_running_loop()
        if loop not in cls._of_loops:
            cls._of_loops[loop] = cls()
        return cls._of_loops[loop]

    async def run(self, what: str, work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
        """When cancelled, `stop` may end the work; else it is left behind. Raises ToolUnavailable for too many."""
        if self.lost >= self._most_lost:
            raise ToolUnavailable(
                f"{what} was not run: {self.lost} tools hang and were left behind. Only a restart ends them",
                code="too_many_lost",
            )
        await self._places.acquire()
        try:
            thread = self._begin(work)
        except RuntimeError:  # the system has no thread to give
            self._places.release()
            raise
        try:
            ended = await asyncio.shield(thread)
        except asyncio.CancelledError:
            await self._end(what, thread, stop)
            raise
        self._places.release()
        if isinstance(ended, _Failed):
            raise ended.error
        return ended

    def _begin(self, work: Callable[[], T]) -> "asyncio.Future[T | _Failed]":
        contained = partial(copy_context().run, partial(_run_contained, work))
        thread = asyncio.get_running_loop().run_in_executor(self._executor, contained)
        thread.add_done_callback(look_away)
        return thread

    async def _end(self, what: str, thread: "asyncio.Future[Any]", stop: Callable[[], None] | None) -> None:
        try:
            if stop is not None:
                stop()
                await asyncio.wait([thread], timeout=STOP_PATIENCE)
        finally:
            self._places.release()  # also of a thread that hangs: those who wait did nothing wrong
            if not thread.done():
                self.lost += 1
                log.error("%s blocks its thread and was left behind; %d such threads hang now", what, self.lost)
                thread.add_done_callback(self._found)

    def _found(self, _: object) -> None:
        self.lost -= 1


class _ThreadPerCall(Executor):
    """Daemons, so that the process can end without them. Starting one costs less than any tool that blocks."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            future.set_result(fn(*args, **kwargs))

        threading.Thread(target=run, name="finclaw-tool", daemon=True).start()
        return future


class _Failed(Struct, frozen=True):
    error: Exception


def _run_contained(work: Callable[[], T]) -> T | _Failed:
    with in_this_process():
        try:
            return work()
        except BaseException as error:  # noqa: BLE001  the caller raises it, on the loop
            return _Failed(as_exception(error))
