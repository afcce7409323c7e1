"""Stopping a message from outside: the part of its road that may be cut short, and the error that comes out of it."""

import asyncio
from types import TracebackType

from finclaw.errors import TurnStopped


class Stoppable:
    """Inside the block `stop` cancels whatever is awaited, and TurnStopped comes out instead of the cancellation.

    Like a timeout whose time somebody else decides. It may be entered again after it was left.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._reason: str | None = None

    def stop(self, reason: str) -> bool:
        """False where there is nothing to stop: not begun, stopped already, or past the point of no return."""
        if self._task is None or self._reason is not None:
            return False
        self._reason = reason
        # Not at once: whoever asks may be an observer in that very task, and nothing there awaits at this moment.
        asyncio.get_running_loop().call_soon(self._cancel)
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        if self._reason is not None:  # asked between two blocks
            self._task = None
            raise TurnStopped(self._reason)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._reason is None or task is None:
            return
        left = task.uncancel() if task.cancelling() > self._cancelling else self._cancelling
        if kind is asyncio.CancelledError and left > self._cancelling:  # somebody else wants this task to end too
            return
        # Also when all went well: a layer may have swallowed the cancellation, or it came in the last moment.
        if kind is None or issubclass(kind, Exception | asyncio.CancelledError):
            raise TurnStopped(self._reason) from error
