"""Telling our own cancellation from one that leaked out of a stranger's code."""

import asyncio


def asked_to_stop() -> bool:
    """Whether somebody cancelled this task. A CancelledError without it is just another failure of who raised it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
