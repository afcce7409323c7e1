"""A throttle for recovered messages in their first stages, and the record of each attempt.

A message that kills the process before its turn is claimed would be retried for ever: so each attempt is on record
before its first stage. New messages need none of this: one of an idle session is claimed when it is accepted, and one
that this process leaves behind is recovered, and recorded, by the next.
"""

import asyncio
from typing import Final

from finclaw.delivery.commit_retry import retry_until_committed
from finclaw.kernel.port import Clock
from finclaw.kernel.store_port import ConversationStore

AT_ONCE: Final = 2
"""So many are in their first stages at a time: so few share the blame with a message that kills the process there."""
SECONDS: Final = 1.0
"""Seconds after which the next one is let in: a slow layer must not hold up all others."""


class RecoveryThrottle:
    """One throttle for all messages of a gateway."""

    def __init__(self, store: ConversationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._attempted: set[str] = set()

    async def mark_attempt(self, inbound_id: str) -> None:
        """Record an attempt, and wait until there is room for it."""
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        self._timers[inbound_id] = loop.call_later(SECONDS, self._free_slot, inbound_id)
        self._attempted.add(inbound_id)
        await retry_until_committed(lambda: self._store.mark_attempt(inbound_id), self._clock, "a recovery attempt")

    async def clear_attempt(self, inbound_id: str) -> None:
        """Take the attempt back: the first stages are done, and the claim will count. Until then it may wait long."""
        if self.has_attempt(inbound_id):
            await retry_until_committed(lambda: self._store.release(inbound_id), self._clock, "an attempt's end")
            self.leave(inbound_id)

    def has_attempt(self, inbound_id: str) -> bool:
        return inbound_id in self._attempted

    def leave(self, inbound_id: str) -> None:
        """Idempotent."""
        self._attempted.discard(inbound_id)
        self._free_slot(inbound_id)

    def _free_slot(self, inbound_id: str) -> None:
        timer = self._timers.pop(inbound_id, None)
        if timer is not None:
            timer.cancel()
            self._slots.release()
