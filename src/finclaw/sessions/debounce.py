"""Debouncing: quick messages of one person are taken for one, once they have paused."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from finclaw.cancellation import until_done
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted

LONGEST_WAIT: Final = timedelta(seconds=5)
"""After its first message a burst is over, however fast somebody types."""
LARGEST_BURST: Final = 20
MOST_BURSTS: Final = 2_048
"""Bursts at a time; beyond that, messages do not wait."""
ARRIVAL_S: Final = 5.0
"""Seconds that the first of a burst waits for the others to come to their lane."""

BurstKey = tuple[str, str, str | None]


class Burst:
    """Quick messages of one person in one place."""

    def __init__(self, first: Accepted) -> None:
        self.latest = first.accepted_at + LONGEST_WAIT
        self.due = first.accepted_at
        self.members: list[str] = []
        self.missing: set[str] = set()
        """Those that have neither come to their lane nor ended."""
        loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.complete: asyncio.Future[None] = loop.create_future()

    def add(self, accepted: Accepted, due: datetime) -> None:
        self.members.append(accepted.id)
        self.missing.add(accepted.id)
        self.due = max(self.due, min(due, self.latest))

    def close(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def arrive(self, inbound_id: str) -> None:
        self.missing.discard(inbound_id)
        if not self.missing and self.closed.done() and not self.complete.done():
            self.complete.set_result(None)


class Debounce:
    """The pauses that messages make before the pipeline takes them up. After a crash they count from acceptance."""

    def __init__(
        self, clock: Clock, pause_ms: Callable[[Inbound], int], may_answer: Callable[[Accepted], bool] | None = None
    ) -> None:
        """`pause_ms`: how long to wait for another message; 0 for whatever never waits. `may_answer`: whether it may be
        the answer to a question that its sender was asked, which never waits either.
        """
        self._may_answer = may_answer
        self._clock = clock
        self._pause_ms = pause_ms
        self._open: dict[BurstKey, Burst] = {}
        self._bursts: dict[str, Burst] = {}
        """By the ids of their messages, until these have ended."""

    def is_wanted(self, inbound: Inbound) -> bool:
        return self._pause_ms(inbound) > 0

    async def wait(self, accepted: Accepted) -> None:
        """Returns when the message's burst is over. Whatever does not wait ends the burst before it, but for an edit,
        which may be of a message that pauses.
        """
        inbound = accepted.inbound
        if inbound.kind == "edit":
            return
        pause, key = self._pause_ms(inbound), (accepted.session, inbound.sender.id, inbound.thread)
        if pause and self._may_answer is not None and self._may_answer(accepted):
            pause = 0
        if not pause or len(self._open) >= MOST_BURSTS:
            self._end(key)
            return
        burst = self._open.get(key)
        if burst is None or len(burst.members) >= LARGEST_BURST:
            self._end(key)
            burst = self._open[key] = Burst(accepted)
        self._bursts[accepted.id] = burst
        burst.add(accepted, accepted.accepted_at + timedelta(milliseconds=pause))
        while not burst.closed.done():
            left = (burst.due - self._clock.now()).total_seconds()
            if left <= 0:
                self._end(key)
                return
            await until_done(burst.closed, left)

    def _end(self, key: BurstKey) -> None:
        burst = self._open.pop(key, None)
        if burst is not None:
            burst.close()

    def arrive(self, accepted: Accepted) -> None:
        """The message has come to its lane, or has ended."""
        if (burst := self._bursts.get(accepted.id)) is not None:
            burst.arrive(accepted.id)

    async def gather(self, accepted: Accepted) -> None:
        """Wait until all of the message's burst have come to their lane, where they can join its turn."""
        burst = self._bursts.get(accepted.id)
        if burst is not None and burst.missing:
            await until_done(burst.complete, ARRIVAL_S)

    def are_one(self, one: Accepted, other: Accepted) -> bool:
        """Whether two messages belong to the same burst."""
        burst = self._bursts.get(one.id)
        return burst is not None and self._bursts.get(other.id) is burst

    def leave(self, accepted: Accepted) -> None:
        self.arrive(accepted)
        self._bursts.pop(accepted.id, None)


def make_pause(pauses: Mapping[str, int], is_command: Callable[[str], bool]) -> Callable[[Inbound], int]:
    """The pause of a message: by its channel. Commands, stop words, files and whatever is no text never wait."""

    def pause_ms(inbound: Inbound) -> int:
        pause = pauses.get(inbound.channel, 0)
        if (
            not pause
            or inbound.kind != "message"
            or inbound.attachments
            or inbound.unasked
            or inbound.wishes is not None
        ):
            return 0
        return 0 if is_command(inbound.text) else pause

    return pause_ms
