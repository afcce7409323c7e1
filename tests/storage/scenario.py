"""A little life of the store for tests on a bad disk: sessions that talk at once, and what each was promised.

The same every time: the rows, the ids and the order of commits do not depend on chance or on the clock.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
from msgspec.structs import replace
from tests.ports.nouns import answer, begin, ending, nobody, nothing, tool_answer, tool_step, written

from finclaw.kernel.message import TurnEvent
from finclaw.kernel.record import Accepted, Claim
from finclaw.storage.sqlite.codec import events_of, units_of
from finclaw.storage.sqlite.database import Synchronous, close_quietly, open_database
from finclaw.storage.sqlite.store import SqliteStore, open_store
from finclaw.testing import FakeClock

T = TypeVar("T")
State = dict[str, tuple[tuple[Any, ...], ...]]
"""Every row of every table: two of them are equal only if the databases say the same."""

TABLES: Final = ("session", "inbound", "outcome", "turn", "event", "message", "unit", "unit_body")
CHECKPOINT_PAGES: Final = 24
"""So small that the scenario meets checkpoints and a log that starts anew."""


def state_of(db: apsw.Connection) -> State:
    return {table: tuple(map(_short, db.execute(f"SELECT * FROM {table}"))) for table in TABLES}


def _short(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Long texts as digests: they are only compared."""
    return tuple(hash(each) if isinstance(each, str) and len(each) > 80 else each for each in row)


def open_fixed(
    path: Path,
    vfs: str | None,
    synchronous: Synchronous = "FULL",
    committed: Callable[[apsw.Connection], None] | None = None,
) -> apsw.Connection:
    """A database with the same name every time, so that the ids in it are the same too; it tells of every commit.

    Checkpoints come after commits, as SQLite makes them by itself, only more often; that one fails is nobody's loss.
    By itself SQLite would swallow the error but leave the exception of the file layer, as if the commit had failed.
    """

    def after_commit(db: apsw.Connection, _: str, pages: int) -> int:
        if committed is not None:
            committed(db)
        if pages >= CHECKPOINT_PAGES:
            with suppress(apsw.Error):
                db.wal_checkpoint()
        return apsw.SQLITE_OK

    db = open_database(path, vfs=vfs, synchronous=synchronous)
    try:
        db.execute("UPDATE meta SET value = 'feed' WHERE key = 'name'")
    except apsw.Error:
        close_quietly(db)
        raise
    db.set_wal_hook(after_commit)
    return db


def open_again(path: Path, db: apsw.Connection) -> SqliteStore:
    return open_store(path, FakeClock(), threaded=False, database=db)


@dataclass(frozen=True, slots=True)
class Promise:
    """What the store said it has: the row that proves it, and what is in it."""

    what: str
    holds: Callable[[State], bool]


def _row(state: State, table: str, /, **wanted: Any) -> bool:
    columns = _COLUMNS[table]
    places = {columns.index(name): value for name, value in wanted.items()}
    return any(all(row[at] == value for at, value in places.items()) for row in state[table])


_COLUMNS: Final = {
    "inbound": ("id", "name", "digest", "session", "ticket", "body", "accepted_at", "state", "attempts", "kind"),
    "turn": ("id", "session", "epoch", "status"),
    "event": ("id", "body"),
    "unit": ("id", "state"),
    "outcome": ("id", "body"),
}


def _number(public: str) -> int:
    return int(public.split("-")[2])


@dataclass
class Life:
    """Runs the scenario on a store. `kept` is called after each await, with what the store has just promised."""

    store: SqliteStore
    kept: Callable[[Promise], None]
    attempt: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
    promises: list[Promise] = field(default_factory=list[Promise])

    async def run(self) -> None:
        await asyncio.gather(*(self._session(number) for number in range(3)))

    async def _session(self, number: int) -> None:
        for turn in range(2):
            for _ in range(number * 2):
                await asyncio.sleep(0)  # sessions do not move in step, so groups are of every size
            await self._turn(f"s{number}", f"{number}.{turn}")

    async def _turn(self, session: str, id: str) -> None:
        # long enough to reach over more than one page
        inbound = written("w" * 1500, id=id, conversation=session)
        accepted: Accepted = await self.attempt(lambda: self.store.accept(inbound, session, nobody))
        assert not accepted.duplicate, "an accept that was refused had happened all the same"
        row = _number(accepted.id)
        self._promise("accept", lambda state: _row(state, "inbound", id=row, ticket=accepted.ticket))
        claim: Claim = await self.attempt(lambda: begin(self.store, accepted))
        self._promise("claim", lambda state: _row(state, "turn", id=row) and _has(state, row, 0))
        await self._log(claim, 1, tool_step(id))
        self._promise("tool started", lambda state: _has(state, row, 2))
        await self._log(claim, 3, tool_answer(id))
        self._promise("tool result", lambda state: _has(state, row, 3))
        await self._finish(accepted, claim)

    async def _log(self, claim: Claim, seq: int, events: list[TurnEvent]) -> None:
        await self.attempt(lambda: self.store.record(claim, seq, events, nothing))

    async def _finish(self, accepted: Accepted, claim: Claim) -> None:
        row = _number(accepted.id)
        finish = ending(self.store, accepted, claim, "one", "two")
        assert await self.attempt(lambda: self.store.finish(finish, nothing))
        self._promise("finish", lambda state: _row(state, "inbound", id=row, state="ended") and _folded(state, row))
        first, second = finish.units
        first = replace(first, state="sent", platform_id="p")
        await self.attempt(lambda: self.store.settle(first, replace(second, state="sending")))
        self._promise("receipt", lambda state: _row(state, "unit", id=units_of(row)[0], state="sent"))
        await self.attempt(lambda: self.store.settle(replace(second, state="sent", platform_id="q"), lazy=True))
        self._promise("delivered", lambda state: _row(state, "unit", id=units_of(row)[0] + 1, state="sent"))

    def _promise(self, what: str, holds: Callable[[State], bool]) -> None:
        promise = Promise(what, holds)
        self.promises.append(promise)
        self.kept(promise)


def _has(state: State, turn: int, seq: int) -> bool:
    """The event is in the log, or already folded with all that belongs to it."""
    return _row(state, "event", id=events_of(turn)[0] + seq) or _folded(state, turn)


def _folded(state: State, turn: int) -> bool:
    (first, last), units = events_of(turn), units_of(turn)
    logged = any(first <= row[0] <= last for row in state["event"])
    done = _row(state, "turn", id=turn, status="completed") and _row(state, "outcome", id=turn) and not logged
    return done and sum(units[0] <= row[0] <= units[1] for row in state["unit_body"]) == 2


async def at_once(commit: Callable[[], Awaitable[T]]) -> T:
    """The way to try on a good disk."""
    return await commit()


async def goes_on(path: Path, db: apsw.Connection) -> None:
    """After whatever happened: what is there is taken up, a repeat is recognised, a new message is answered."""
    store = open_again(path, db)
    for left in await store.unfinished():
        assert (await store.accept(left.inbound, left.session, nobody)).duplicate
        await answer(store, left)
    for unit in await store.pending():
        await store.settle(replace(unit, state="sent", platform_id="later"))
    await answer(store, await store.accept(written(id="after"), "s0", nobody))
    assert await store.unfinished() == []
    await store.close()
