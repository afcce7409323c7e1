"""The real clock. Nothing else in the house asks the system for the time."""

import asyncio
import time
from datetime import UTC, datetime
from functools import partial


class SystemClock:
    """Asked two dozen times in a turn, so the system's own functions answer."""

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
