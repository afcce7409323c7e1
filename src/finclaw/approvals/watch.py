"""A timer for approvals: it sleeps until the next reminder or expiry is due, and without end while nothing is open."""

import asyncio
import logging
from datetime import datetime
from typing import Final

from finclaw.approvals.approvals import Approvals
from finclaw.errors import SessionError
from finclaw.kernel.port import Clock

log = logging.getLogger(__name__)

_LONGEST_NAP: Final = 60.0
"""Seconds. A clock that was set, or a machine that slept, is noticed by then."""
_AFTER_TROUBLE: Final = 5.0


class ApprovalWatch:
    """A background task that the app starts and stops."""

    def __init__(self, approvals: Approvals, clock: Clock) -> None:
        self._approvals = approvals
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="approvals")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        while True:
            self._approvals.asked.clear()
            try:
                due = await self._approvals.sweep()
            except SessionError as error:  # the disk may do better in a moment; nothing was told
                log.error("approvals could not be looked at: %s", error)
                await self._clock.sleep(_AFTER_TROUBLE)
            else:
                await self._until(due)

    async def _until(self, due: datetime | None) -> None:
        """Until then, or until somebody asks for another approval, which may be due before it."""
        if due is None:
            await self._approvals.asked.wait()
            return
        seconds = (due - self._clock.now()).total_seconds()
        nap = asyncio.create_task(self._clock.sleep(min(max(0.0, seconds), _LONGEST_NAP)))
        asked = asyncio.create_task(self._approvals.asked.wait())
        try:
            await asyncio.wait([nap, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()
            asked.cancel()
            await asyncio.wait([nap, asked])
