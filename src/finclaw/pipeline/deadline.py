"""A deadline for one message in the pipeline. Its clock stands still while the message waits in the lane."""

import asyncio
from types import TracebackType


class Deadline:
    """A timeout as `asyncio.timeout`, with a clock that can be stopped.

    One timer looks at it, and is set again only when it looked too early, so that stopping and going on costs nothing.

    It runs from now on, not from when it is entered. One deadline may lie `within` a longer one, which stands still
    with it.
    """

    def __init__(self, seconds: float, within: "Deadline | None" = None) -> None:
        self._within = within
        self._loop = asyncio.get_running_loop() if within is None else within._loop
        self.time = self._loop.time
        self._ends = self.time() + seconds
        """A time of the event loop's, put off by every pause."""
        self._pauses = 0
        self._paused_at = 0.0
        self._task: asyncio.Task[object] | None = None
        self._cancelled_before = 0
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False

    async def __aenter__(self) -> "Deadline":
        self._task = asyncio.current_task(self._loop)
        if self._task is None:
            raise RuntimeError("a deadline needs a task to stop")
        self._cancelled_before = self._task.cancelling()
        self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.expired or task is None:
            return
        wanted_by_others = task.uncancel() > self._cancelled_before
        if isinstance(error, asyncio.CancelledError) and not wanted_by_others:
            raise TimeoutError from error

    def pause(self) -> "Pause":
        """Time stands still in this block. After the deadline there is none to stop, and no harm in it."""
        return Pause(self)

    def stop(self, now: float) -> None:
        if self._within is not None:
            self._within.stop(now)
        if not self._pauses:
            self._paused_at = now
        self._pauses += 1

    def go_on(self, now: float) -> None:
        if self._within is not None:
            self._within.go_on(now)
        self._pauses -= 1
        if self._pauses:
            return
        self._ends += now - self._paused_at
        if self._timer is None:  # it looked while the clock stood still
            self._look()

    def _look(self) -> None:
        self._timer = None
        if self._task is None or self._pauses or self.expired:
            return
        if self.time() < self._ends:
            self._timer = self._loop.call_at(self._ends, self._look)
        else:
            self.expired = True
            self._task.cancel()


class Pause:
    """A context manager in which the clock of a deadline stands still."""

    __slots__ = ("_deadline",)

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __enter__(self) -> None:
        self._deadline.stop(self._deadline.time())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadline.go_on(self._deadline.time())
