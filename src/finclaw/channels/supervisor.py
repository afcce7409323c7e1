"""A supervisor of channels: one that breaks is started again with backoff; the others do not notice."""

import logging
from typing import Final

from finclaw.kernel.port import Accept, Channel, Clock

log = logging.getLogger(__name__)

WAIT_FIRST: Final = 1.0
WAIT_LONGEST: Final = 60.0
HEALTHY_AFTER: Final = 60.0
"""A channel that has run this long has recovered, and its next failure is a first one."""


async def keep_receiving(channel: Channel, accept: Accept, clock: Clock) -> None:
    wait = WAIT_FIRST
    while True:
        started = clock.monotonic()
        try:
            await channel.receive(accept)
            log.warning("channel %s stopped receiving; starting it again in %g s", channel.name, wait)
        except Exception:  # a channel's task is where a stranger's failure is contained
            log.exception("channel %s failed; starting it again in %g s", channel.name, wait)
        if clock.monotonic() - started > HEALTHY_AFTER:
            wait = WAIT_FIRST
        await clock.sleep(wait)
        wait = min(wait * 2, WAIT_LONGEST)
