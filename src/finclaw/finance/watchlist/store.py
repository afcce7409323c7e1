"""The stored watchlists, one for each person, in the extension's own database. A person has theirs in all chats."""

from collections.abc import Callable, Sequence
from typing import Final

from finclaw.errors import ToolError
from finclaw.kernel.extension import Database, Transaction
from finclaw.kernel.person import Person
from finclaw.kernel.port import Clock

MIGRATIONS: Final = (
    """
    CREATE TABLE watched (
        person TEXT NOT NULL,
        symbol TEXT NOT NULL,
        place INTEGER NOT NULL,
        added_at TEXT NOT NULL,
        PRIMARY KEY (person, symbol)
    )
    """,
)
MOST_WATCHED: Final = 50
"""Of one person: as many as are quoted at once without using up a source's budget for others."""


_MOST_KNOWN: Final = 10_000
"""Persons whose lists are kept in memory."""


class TooManyWatched(ToolError):
    """The list is full. Nothing was added."""


class Watchlists:
    """Symbols by person, in the order in which they were added."""

    def __init__(self, database: Database, clock: Clock, exists: Callable[[], bool] = lambda: True) -> None:
        """`exists` says whether anybody has ever watched anything: before that no database is opened to look. It is
        called once, for nobody but this object writes the lists of a running gateway."""
        self._database = database
        self._clock = clock
        self._exists = exists
        self._is_empty: bool | None = None
        self._known: dict[str, tuple[str, ...]] = {}

    def peek_symbols(self, person: Person) -> tuple[str, ...] | None:
        """The list without waiting, where it is in memory; None where it has to be read."""
        if self._is_empty is None:
            self._is_empty = not self._exists()
        return () if self._is_empty else self._known.get(person.id)

    async def symbols(self, person: Person) -> tuple[str, ...]:
        if person.id in self._known:
            return self._known[person.id]

        def read(rows: Transaction) -> tuple[str, ...]:
            _adopt(rows, person)
            return _list(rows, person.id)

        found = await self._database.transaction(read)
        while len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[person.id] = found
        return found

    async def add(self, person: Person, symbols: Sequence[str]) -> tuple[str, ...]:
        """Those that were not there yet. Raises TooManyWatched, and then adds none."""
        at = self._clock.now().isoformat()

        def write(rows: Transaction) -> tuple[str, ...]:
            _adopt(rows, person)
            known = _list(rows, person.id)
            new = tuple(each for each in dict.fromkeys(symbols) if each not in known)
            if len(known) + len(new) > MOST_WATCHED:
                raise TooManyWatched(
                    f"A watchlist holds {MOST_WATCHED} instruments, and {len(known)} are on this one. Ask the user "
                    "which to remove."
                )
            ((last,),) = rows.execute("SELECT coalesce(max(place), 0) FROM watched WHERE person = ?", (person.id,))
            for place, symbol in enumerate(new, start=int(last) + 1):
                rows.execute(
                    "INSERT INTO watched (person, symbol, place, added_at) VALUES (?, ?, ?, ?)",
                    (person.id, symbol, place, at),
                )
            return new

        return await self._change(person.id, write)

    async def remove(self, person: Person, symbols: Sequence[str] | None) -> tuple[str, ...]:
        """Those that were there; None removes all."""

        def write(rows: Transaction) -> tuple[str, ...]:
            _adopt(rows, person)
            known = _list(rows, person.id)
            gone = known if symbols is None else tuple(each for each in known if each in symbols)
            for each in gone:
                rows.execute("DELETE FROM watched WHERE person = ? AND symbol = ?", (person.id, each))
            return gone

        return await self._change(person.id, write)

    async def forget(self, name: str) -> None:
        await self._database.execute("DELETE FROM watched WHERE person = ?", name)
        self._known.pop(name, None)

    async def _change(self, name: str, write: Callable[[Transaction], tuple[str, ...]]) -> tuple[str, ...]:
        self._is_empty = False
        try:
            return await self._database.transaction(write)
        finally:
            self._known.pop(name, None)


def _list(rows: Transaction, person: str) -> tuple[str, ...]:
    found = rows.execute("SELECT symbol FROM watched WHERE person = ? ORDER BY place", (person,))
    return tuple(str(symbol) for (symbol,) in found)


def _adopt(rows: Transaction, person: Person) -> None:
    """Take over the lists of identities that were persons of their own before they became theirs."""
    for name in person.former:
        rows.execute(
            "INSERT INTO watched (person, symbol, place, added_at) SELECT ?, symbol, place, added_at FROM watched "
            "WHERE person = ? ON CONFLICT (person, symbol) DO NOTHING",
            (person.id, name),
        )
        rows.execute("DELETE FROM watched WHERE person = ?", (name,))
