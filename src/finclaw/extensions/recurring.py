"""Recurring tasks of extensions while the gateway runs. The app starts and stops them."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from finclaw.cancellation import asked_to_stop
from finclaw.extensions.registration import Recurring
from finclaw.kernel.port import Clock

log = logging.getLogger(__name__)
STOP_GRACE: Final = 2.0  # seconds a cancelled task gets to clean up; then it is left behind


class RecurringTasks:
    def __init__(self, recurring: Sequence[Recurring], clock: Clock) -> None:
        self._recurring = tuple(recurring)
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._repeat(each), name="recurring") for each in self._recurring]

    async def stop(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=STOP_GRACE)
            if stuck:
                log.error("%d recurring tasks ignore that the gateway stops and are left behind", len(stuck))

    async def _repeat(self, recurring: Recurring) -> None:
        while not self._stopping:  # one that has swallowed its cancellation ends here all the same
            await self._clock.sleep(recurring.seconds)
            try:
                await recurring.run()
            except Exception:  # an extension is a stranger; its next try may do better
                recurring.logger.exception("a recurring task failed; it is tried again in %g s", recurring.seconds)
            except asyncio.CancelledError:
                if asked_to_stop():
                    raise
                recurring.logger.exception("a recurring task was cancelled from inside")
