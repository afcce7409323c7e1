"""The system clock. Nothing else asks the system for the time."""

import asyncio
import time
from datetime import UTC, date, datetime
from functools import partial


class SystemClock:
    """Asked two dozen times in a turn, so the system's own functions answer."""

    now = staticmethod(partial(datetime.now, UTC))
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def local_day(moment: datetime) -> date:
    """The date in the zone of this machine: that of `TZ`, else the system's."""
    return date.fromtimestamp(moment.timestamp())  # noqa: DTZ012  a tenth of the time of `astimezone` (`cpu_plain`)
