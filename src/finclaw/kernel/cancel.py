"""Telling our own cancellation from one that leaked out of a stranger's code; leaving only when a thing is decided."""

import asyncio
from typing import TypeVar

T = TypeVar("T")


def asked_to_stop() -> bool:
    """Whether somebody cancelled this task. A CancelledError without it is just another failure of who raised it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Decision(asyncio.Future[T]):
    """What will be decided in any case. A cancelled caller that waits for it leaves too, but only then."""

    def cancel(self, msg: object = None) -> bool:
        """Not at all: so the task that waits is woken by the decision, and hears then that it was cancelled."""
        return False


async def to_its_end(work: "asyncio.Future[T]") -> T:
    """Wait for what goes on in any case. A cancelled caller leaves too, but only when it is decided."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not work.done():
            await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # seen; the cancellation is what the caller hears
        raise
