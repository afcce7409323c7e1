"""The time a message may take on the road. Its clock stands still while the message waits in the lane."""

import asyncio
from types import TracebackType


class Deadline:
    """As `asyncio.timeout`, with a clock that can be stopped: one timer looks at it, and is set again only when it
    looked too early, so that stopping and going on costs nothing.

    It runs from now on, not from when it is entered. One deadline may lie `within` a longer one, which stands still
    with it.
    """

    def __init__(self, seconds: float, within: "Deadline | None" = None) -> None:
        self._left = seconds
        self._within = within
        self._loop = asyncio.get_running_loop()
        self._ends: float | None = self._loop.time() + seconds
        """A time of the event loop's; None while the clock stands still."""
        self._pauses = 0
        self._task: asyncio.Task[object] | None = None
        self._cancelled_before = 0
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False

    async def __aenter__(self) -> "Deadline":
        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("a deadline needs a task to stop")
        self._cancelled_before = self._task.cancelling()
        self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task, self._ends = self._task, None, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.expired or task is None:
            return
        wanted_by_others = task.uncancel() > self._cancelled_before
        if isinstance(error, asyncio.CancelledError) and not wanted_by_others:
            raise TimeoutError from error

    def paused(self) -> "Pause":
        """Inside the deadline: time stands still in this block. Before or after it there is none to stop."""
        return Pause(self)

    def stop(self) -> list["Deadline"]:
        """Gives those that stand still now and have to go on."""
        stopped = [] if self._within is None else self._within.stop()
        if self._task is None:
            return stopped
        self._pauses += 1
        if self._ends is not None:
            self._left = self._ends - self._loop.time()
            self._ends = None
        return [*stopped, self]

    def go_on(self) -> None:
        self._pauses -= 1
        if self._pauses or self._task is None or self.expired:
            return
        self._ends = self._loop.time() + self._left
        if self._timer is None:  # it looked while the clock stood still
            self._look()

    def _look(self) -> None:
        self._timer = None
        if self._ends is None or self._task is None:
            return
        if self._loop.time() < self._ends:
            self._timer = self._loop.call_at(self._ends, self._look)
        else:
            self.expired = True
            self._ends = None
            self._task.cancel()


class Pause:
    __slots__ = ("_deadline", "_stopped")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._stopped: list[Deadline] = []

    def __enter__(self) -> None:
        self._stopped = self._deadline.stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for deadline in self._stopped:
            deadline.go_on()
