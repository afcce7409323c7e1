"""Retry of commits that must happen: a full disk is waited out, because what this process holds must not be lost."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from finclaw.errors import StoreFailed
from finclaw.kernel.port import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 30.0


async def retry_until_committed(commit: Callable[[], Awaitable[T]], clock: Clock, what: str) -> T:
    """Retry with backoff until the store takes it. Only the session that waits is held up; others go on."""
    wait = FIRST_WAIT
    while True:
        try:
            return await commit()
        except StoreFailed as error:
            log.error("cannot record %s, trying again in %g s: %s", what, wait, error)
            await clock.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
