"""The first stages of what another process left. They are on record: who kills us there is found out, too.

What comes to us needs none of this: at an idle session it has a head start, and what we leave sets out next time.
"""

import asyncio
from typing import Final

from finclaw.delivery.commit_retry import retry_until_committed
from finclaw.kernel.port import Clock
from finclaw.kernel.store_port import ConversationStore

AT_ONCE: Final = 2
"""So many are suspects with whoever kills us, and no more, however many wait for their turns."""
SECONDS: Final = 1.0
"""Who needs longer lets the next one in: a layer that takes its time must not hold up everybody."""


class FirstSteps:
    """Shared by all messages."""

    def __init__(self, store: ConversationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._room = asyncio.Semaphore(AT_ONCE)
        self._in_room: dict[str, asyncio.TimerHandle] = {}
        self._out: set[str] = set()

    async def begin(self, inbound_id: str) -> None:
        """From here on it counts as a try."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        self._in_room[inbound_id] = loop.call_later(SECONDS, self._make_room, inbound_id)
        self._out.add(inbound_id)
        await retry_until_committed(lambda: self._store.set_out(inbound_id), self._clock, "that a message sets out")

    async def end(self, inbound_id: str) -> None:
        """It has come through, and its claim will count. Until then it may wait long, and is no suspect."""
        if self.is_out(inbound_id):
            await retry_until_committed(lambda: self._store.release(inbound_id), self._clock, "that a message waits")
            self.leave(inbound_id)

    def is_out(self, inbound_id: str) -> bool:
        return inbound_id in self._out

    def leave(self, inbound_id: str) -> None:
        """Idempotent."""
        self._out.discard(inbound_id)
        self._make_room(inbound_id)

    def _make_room(self, inbound_id: str) -> None:
        timer = self._in_room.pop(inbound_id, None)
        if timer is not None:
            timer.cancel()
            self._room.release()
