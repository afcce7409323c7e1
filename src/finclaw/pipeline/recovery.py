"""Recovery after a start: what is taken up again or given up, and the isolation of messages that a crash left.

Every message that was in the pipeline when the process died may have caused the crash; only one that was alone there
is known to have. So a message that was in the pipeline in several crashes runs alone, behind a readers-writer lock:
many together (shared), or one alone (exclusive).

A message that waits for its lane does not hold the lock (`Entry.wait_outside`). The holders therefore wait for no other
message, and the lock and the lanes cannot deadlock.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeVar

from msgspec.structs import replace

from finclaw.delivery.outbox import OrderedSender
from finclaw.gateway import sender_of
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted, StopMark
from finclaw.kernel.scope import Outcome
from finclaw.kernel.store_port import ConversationStore, Inbox, retry_until_committed

if TYPE_CHECKING:
    from finclaw.pipeline.engine import LocalEngine

log = logging.getLogger(__name__)

T = TypeVar("T")
RECOVERED_AT_ONCE: Final = 2
"""So many are in their first stages at a time: so few share the blame with a message that kills the process there."""
RECOVERED_SECONDS: Final = 1.0
"""Seconds after which the next one is let in: a slow layer must not hold up all others."""


class CrashIsolation:
    """The lock. An exclusive message waits for all that entered before it, and all that come later wait for it."""

    def __init__(self) -> None:
        self._inside = 0
        self._exclusive: list[ExclusiveEntry] = []
        """Those that run or wait, in order. The first of them runs once nobody else is inside."""
        self.suspects = asyncio.Lock()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_open(self) -> bool:
        return not self._exclusive

    def entry_for(self, accepted: Accepted, max_attempts: int, is_stop: Callable[[Inbound], bool]) -> "Entry":
        """Return the hold on the lock that the pipeline needs for a message.

        Whatever ran when the process died is a suspect, and may be innocent. So those on their last try run one after
        the other, and one that died with others even then is tried alone.
        """
        limits = accepted.inbound.limits
        if limits is not None and limits.pool == "subagent":
            return UNRESTRICTED  # it belongs to the turn that waits for it
        if not self.is_open and is_stop(accepted.inbound):
            return UNRESTRICTED  # it stops what the others wait for
        tries = accepted.attempts
        if tries >= max_attempts:
            log.warning("message %s was in the pipeline in %d crashes: now it runs alone", accepted.id, tries)
            return ExclusiveEntry(self)
        if tries > 0 and tries + 1 >= max_attempts:
            return OneAtATimeEntry(self)
        return Entry(self)

    def give_up_exclusivity(self) -> None:
        """Turn all exclusive holds into shared ones, also of messages that still wait for theirs."""
        for entry in self._exclusive:
            entry.is_exclusive = False
        self._exclusive.clear()
        self._wake_all()

    async def enter(self) -> None:
        if self._exclusive:
            await self._until(lambda: self.is_open)
        self._inside += 1

    async def enter_alone(self, entry: "ExclusiveEntry") -> None:
        """Wait until nobody is inside. From this call on no other message enters."""
        self._exclusive.append(entry)
        try:
            await self._until(lambda: self._may_enter_alone(entry))
        except asyncio.CancelledError:
            self._remove(entry)
            raise
        self._inside += 1

    def _may_enter_alone(self, entry: "ExclusiveEntry") -> bool:
        return not entry.is_exclusive or (self._exclusive[0] is entry and not self._inside)

    def leave(self, entry: "Entry") -> None:
        self._inside -= 1
        self._remove(entry)

    def _remove(self, entry: "Entry") -> None:
        self._exclusive = [each for each in self._exclusive if each is not entry]
        self._wake_all()

    async def _until(self, may_go: Callable[[], bool]) -> None:
        while not may_go():
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def _wake_all(self) -> None:
        """Wake all waiters at once, in their order; a cancelled one cannot keep the others waiting."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


class Entry:
    """One message's hold on the lock, a shared one. A class and not a generator, because every message passes here."""

    __slots__ = ("_isolation", "is_inside")

    def __init__(self, isolation: CrashIsolation) -> None:
        self._isolation = isolation
        self.is_inside = False

    async def enter(self) -> None:
        await self._isolation.enter()
        self.is_inside = True

    def leave(self) -> None:
        """Idempotent."""
        if self.is_inside:
            self.is_inside = False
            self._isolation.leave(self)

    async def wait_outside(self, waiting: Awaitable[T]) -> T:
        """Leave the lock to wait for others. After an exception it is not taken again: the message only ends."""
        was_inside = self.is_inside
        self.leave()
        result = await waiting
        if was_inside:
            await self.enter()
        return result

    async def __aenter__(self) -> "Entry":
        await self.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()


class ExclusiveEntry(Entry):
    """A hold that excludes all others, until exclusivity is given up."""

    __slots__ = ("is_exclusive",)

    def __init__(self, isolation: CrashIsolation) -> None:
        super().__init__(isolation)
        self.is_exclusive = True

    async def enter(self) -> None:
        if not self.is_exclusive:
            return await super().enter()
        await self._isolation.enter_alone(self)
        self.is_inside = True


class OneAtATimeEntry(Entry):
    """A shared hold that also holds the mutex of suspected messages."""

    __slots__ = ()

    async def enter(self) -> None:
        await self._isolation.suspects.acquire()
        try:
            await super().enter()
        except asyncio.CancelledError:
            self._isolation.suspects.release()
            raise

    def leave(self) -> None:
        if self.is_inside:
            super().leave()
            self._isolation.suspects.release()


class UnrestrictedEntry(Entry):
    """The entry of a message that passes the lock, because the holder waits for it."""

    __slots__ = ()

    async def enter(self) -> None:
        """Return at once."""


UNRESTRICTED: Final = UnrestrictedEntry(CrashIsolation())


class RecoveryThrottle:
    """A throttle for recovered messages in their first stages, and the record of each attempt.

    A message that kills the process before its turn is claimed would be retried for ever: so each attempt is on record
    before its first stage. New messages need none of this: one of an idle session is claimed when it is accepted, and
    one that this process leaves behind is recovered, and recorded, by the next.
    """

    def __init__(self, store: ConversationStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._slots = asyncio.Semaphore(RECOVERED_AT_ONCE)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._attempted: set[str] = set()

    async def mark_attempt(self, inbound_id: str) -> None:
        """Record an attempt, and wait until there is room for it."""
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        self._timers[inbound_id] = loop.call_later(RECOVERED_SECONDS, self._free_slot, inbound_id)
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


Fate = Literal["poison", "expired", "stopped"]
NO_MORE: Final = 2
"""Times the tries of the settings. Two that die together each time, such as a turn and its helper, must end too."""
NO_FOLD: Final = 3
"""Likewise. Who kills us even while it is given up has a turn that nobody can look at; it ends without that."""


class GiveUp(Protocol):
    """A function that ends a message which is not tried again."""

    async def __call__(self, accepted: Accepted, which: Fate, reason: str, *, fold: bool) -> Outcome: ...


class Recovery:
    """The recovery of one start. `max_attempts` and `expire_after_s` are settings of the pipeline."""

    def __init__(
        self,
        store: Inbox,
        sender: OrderedSender,
        clock: Clock,
        is_stop: Callable[[Inbound], bool],
        *,
        max_attempts: int,
        expire_after_s: float,
    ) -> None:
        """`is_stop` knows a message that stops those before it: they do not run again, however far it had come."""
        self._is_stop = is_stop
        self._max_attempts = max_attempts
        self._expire_after = timedelta(seconds=expire_after_s)
        self._store = store
        self._sender = sender
        self._clock = clock

    async def run(self, give_up: GiveUp, engine: "LocalEngine") -> None:
        """Units first, so that no new answer overtakes an old one; then messages, session by session, in order.

        The lanes know all of them before anything moves: a stale answer's question, asked again, comes after them.
        """
        unfinished = _with_stops(await self._store.unfinished(), self._is_stop)
        suspects = [accepted for accepted in unfinished if accepted.begun]
        if suspects:
            await self._store.nothing_runs()
        for accepted in unfinished:
            engine.expect(accepted)
        await self._sender.recover()
        if unfinished:
            log.info("taking up %d messages from before", len(unfinished))
        sessions: dict[str, list[Accepted]] = {}
        for accepted in unfinished:
            sessions.setdefault(accepted.session, []).append(accepted)
        async with asyncio.TaskGroup() as group:  # those to be given up side by side, so that their commits are shared
            for messages in sessions.values():
                fates: list[Fate | None] = [self._decide_fate(accepted, suspects) for accepted in messages]
                if any(fates):
                    group.create_task(self._resume(messages, fates, give_up, engine))
                else:
                    for accepted in messages:
                        engine.submit(accepted)

    def _decide_fate(self, accepted: Accepted, suspects: Sequence[Accepted]) -> Fate | None:
        """None: it is taken up again. What had joined a turn shares that one's fate, or is put back by it."""
        if accepted.stop is not None:
            return "stopped"
        if accepted.joined_to is not None:
            return None
        if accepted.attempts >= self._max_attempts and self._caused_crashes(accepted, suspects):
            return "poison"
        if accepted.inbound.from_extension is not None:  # what an extension said is said, however late
            return None
        if self._clock.now() - accepted.accepted_at > self._expire_after:
            return "expired"
        return None

    def _caused_crashes(self, accepted: Accepted, suspects: Sequence[Accepted]) -> bool:
        """It was alone in the pipeline when the process died; or it saw so many deaths that it must end anyway."""
        alone = {each.joined_to or each.id for each in suspects} == {accepted.id}  # all of one turn
        return alone or accepted.attempts >= NO_MORE * self._max_attempts

    async def _resume(
        self, messages: Sequence[Accepted], fates: Sequence[Fate | None], give_up: GiveUp, engine: "LocalEngine"
    ) -> None:
        for accepted, fate in zip(messages, fates, strict=True):
            if fate is None:
                engine.submit(accepted)
                continue
            has_turn = accepted.inbound.from_extension is None and accepted.joined_to is None
            fold = has_turn and 0 < accepted.attempts < NO_FOLD * self._max_attempts
            await give_up(accepted, fate, _explain(accepted, fate), fold=fold)


def _explain(accepted: Accepted, fate: Fate) -> str:
    if accepted.stop is not None:
        return accepted.stop.reason
    if fate == "poison":
        return f"the process died {accepted.attempts} times in this message"
    return "too old to be answered after a restart"


def _with_stops(unfinished: Sequence[Accepted], is_stop: Callable[[Inbound], bool]) -> list[Accepted]:
    """With the marks that a stop would have set, had the process not died before."""
    stops = [accepted for accepted in unfinished if is_stop(accepted.inbound)]
    found: list[Accepted] = []
    for message in unfinished:
        stop = next((stop for stop in stops if _stops(stop, message)), None)
        marked = message
        if stop is not None and message.stop is None:
            marked = replace(message, stop=StopMark(f"stopped by message {stop.id}", told=True))
        found.append(marked)
    return found


def _stops(stop: Accepted, earlier: Accepted) -> bool:
    """A person stops what they have asked before; nothing that the gateway says of its own accord."""
    same = (stop.session, sender_of(stop.inbound)) == (earlier.session, sender_of(earlier.inbound))
    return same and earlier.ticket < stop.ticket and earlier.inbound.from_extension is None
