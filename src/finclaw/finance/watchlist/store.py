"""The stored watchlists, one for each person, in the extension's own database. A person has theirs in all chats."""

from collections.abc import Sequence
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


class TooManyWatched(ToolError):
    """The list is full. Nothing was added."""


class Watchlists:
    """Symbols by person, in the order in which they were added."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def symbols(self, person: Person) -> tuple[str, ...]:
        def read(rows: Transaction) -> tuple[str, ...]:
            _adopt(rows, person)
            return _list(rows, person.id)

        return await self._database.transaction(read)

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

        return await self._database.transaction(write)

    async def remove(self, person: Person, symbols: Sequence[str] | None) -> tuple[str, ...]:
        """Those that were there; None removes all."""

        def write(rows: Transaction) -> tuple[str, ...]:
            _adopt(rows, person)
            known = _list(rows, person.id)
            gone = known if symbols is None else tuple(each for each in known if each in symbols)
            for each in gone:
                rows.execute("DELETE FROM watched WHERE person = ? AND symbol = ?", (person.id, each))
            return gone

        return await self._database.transaction(write)

    async def forget(self, name: str) -> None:
        await self._database.execute("DELETE FROM watched WHERE person = ?", name)


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
