"""Concurrency limits: how many turns of a kind run at once.

A turn enters its pool after its lane and gives its seat back when it ends.
"""

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from finclaw.errors import ConfigError, SessionError
from finclaw.kernel.envelope import PoolName

DEFAULT_SIZES: Final[Mapping[PoolName, int]] = MappingProxyType({"main": 256, "cron": 8, "subagent": 8})
SHARE: Final = 0.75
"""The part of a pool's seats that one person may have, if that is less than all of them."""
SeatWait = Literal["", "seat", "share"]
"""Why a turn waits: no seat is free, or its person has their share of them. Empty: it does not."""


class Seat:
    """One turn's right to run: `with await pools.enter(...)`. Released twice, or too late, it does nothing."""

    __slots__ = ("_pool", "person")

    def __init__(self, pool: "_Pool", person: str) -> None:
        self._pool = pool
        self.person = person

    def release(self) -> None:
        self._pool.leave(self)

    def __enter__(self) -> "Seat":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class _Pool:
    """A freed seat goes straight to somebody who waits: to the person with the fewest, and of equals to whoever has
    waited longest. Nobody takes the last quarter of the seats alone, so that others need not wait for one's turns.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._share = math.ceil(size * SHARE)
        self._taken: dict[Seat, str] = {}
        self._waiting: OrderedDict[asyncio.Future[Seat], tuple[str, str]] = OrderedDict()
        self._by_person: Counter[str] = Counter()

    @property
    def sessions(self) -> tuple[str, ...]:
        return tuple(self._taken.values())

    @property
    def has_room(self) -> bool:
        return len(self._taken) < self._size

    @property
    def waiting(self) -> int:
        return sum(1 for promise in self._waiting if not promise.done())

    def find_wait(self, person: str) -> SeatWait:
        if not self._may_take(person):
            return "share"
        return "" if self.has_room else "seat"

    def find_place(self, session: str) -> tuple[SeatWait, int] | None:
        waiting = [who for promise, who in self._waiting.items() if not promise.done()]
        for place, (waiting_session, person) in enumerate(waiting):
            if waiting_session == session:
                return self.find_wait(person) or "seat", place
        return None

    async def enter(self, session: str, person: str) -> Seat:
        if not self.find_wait(person):
            return self._take(session, person)
        promise: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        self._waiting[promise] = session, person
        try:
            return await promise
        except asyncio.CancelledError:
            self._give_up(promise)
            raise

    def leave(self, seat: Seat) -> None:
        """Of a seat that was given back already, or is of an older generation, there is nothing to give back."""
        if self._taken.pop(seat, None) is not None:
            self._by_person[seat.person] -= 1
            if not self._by_person[seat.person]:
                del self._by_person[seat.person]
        self._fill()

    def reset(self) -> None:
        """Forget who sits: those turns may go on, but no longer count."""
        self._taken = {}
        self._by_person.clear()
        self._fill()

    def close(self) -> None:
        while self._waiting:
            promise, _ = self._waiting.popitem(last=False)
            if not promise.done():
                promise.set_exception(_closed_error())

    def _may_take(self, person: str) -> bool:
        return not person or self._by_person[person] < self._share

    def _take(self, session: str, person: str) -> Seat:
        seat = Seat(self, person)
        self._taken[seat] = session
        self._by_person[person] += 1
        return seat

    def _fill(self) -> None:
        while self._waiting and len(self._taken) < self._size:
            promise = min(self._waiting, key=lambda waiting: self._by_person[self._waiting[waiting][1]])
            session, person = self._waiting[promise]
            if not promise.done() and not self._may_take(person):
                return
            del self._waiting[promise]
            if not promise.done():  # else it was cancelled, and its task has not woken up yet
                promise.set_result(self._take(session, person))

    def _give_up(self, promise: "asyncio.Future[Seat]") -> None:
        """Whoever is cancelled between getting a seat and waking up has a seat to pass on."""
        self._waiting.pop(promise, None)
        if promise.done() and not promise.cancelled() and promise.exception() is None:
            promise.result().release()


class Pools:
    """The pools of one gateway. Waiting in one is cancelled like anything else, for example by `asyncio.timeout`."""

    def __init__(self, sizes: Mapping[PoolName, int] = DEFAULT_SIZES) -> None:
        """Pools that `sizes` does not name have their default size."""
        self._closed = False
        self._pools = {name: _Pool(_check_size(name, size)) for name, size in {**DEFAULT_SIZES, **sizes}.items()}

    async def enter(self, pool: PoolName, session: str, person: str = "") -> Seat:
        """Wait for a seat. Raises SessionError once the pools are closed. `person` empty: nobody's share counts."""
        if self._closed:
            raise _closed_error()
        return await self._pools[pool].enter(session, person)

    def find_wait(self, pool: PoolName, person: str = "") -> SeatWait:
        return self._pools[pool].find_wait(person)

    def find_place(self, pool: PoolName, session: str) -> tuple[SeatWait, int] | None:
        """Why a session's turn waits for a seat, and how many came before it; None: none of its turns does."""
        return self._pools[pool].find_place(session)

    def has_room(self, pool: PoolName) -> bool:
        return not self._closed and self._pools[pool].has_room

    def running(self, pool: PoolName) -> int:
        return len(self._pools[pool].sessions)

    def sessions(self, pool: PoolName) -> tuple[str, ...]:
        """Whose turns run, those who came first first."""
        return self._pools[pool].sessions

    def waiting(self, pool: PoolName) -> int:
        return self._pools[pool].waiting

    def reset_generation(self, pool: PoolName) -> None:
        """All seats are free at once and go to those who wait; the old ones do nothing when they are released."""
        self._pools[pool].reset()

    def close(self) -> None:
        """Whoever waits is told, nobody enters any more, and those who run may finish."""
        self._closed = True
        for pool in self._pools.values():
            pool.close()


def _closed_error() -> SessionError:
    return SessionError("the gateway is stopping and begins no more turns; try again once it has started")


def _check_size(name: str, size: int) -> int:
    if name not in DEFAULT_SIZES:
        raise ConfigError(f"there is no pool {name!r}; the pools are: {', '.join(DEFAULT_SIZES)}")
    if size < 1:
        raise ConfigError(f"pool {name!r} has size {size}, so nothing could ever run in it; give it at least 1")
    return size
