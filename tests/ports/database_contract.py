"""The contract of an extension's database, for every implementation; a subclass says how one is opened."""

from collections.abc import Callable, Sequence

import pytest

from finclaw.errors import SessionError
from finclaw.kernel.extension import Database, Transaction

Open = Callable[[Sequence[str]], Database]

SHARES: Sequence[str] = (
    """
    CREATE TABLE shares (person TEXT NOT NULL, symbol TEXT NOT NULL, number INTEGER NOT NULL, price TEXT,
        PRIMARY KEY (person, symbol));
    CREATE INDEX shares_by_symbol ON shares (symbol);
    """,
    "ALTER TABLE shares ADD COLUMN note TEXT NOT NULL DEFAULT ''",
)
PUT = (
    "INSERT INTO shares (person, symbol, number, price) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (person, symbol) DO UPDATE SET number = excluded.number, price = excluded.price"
)


class DatabaseContract:
    async def test_values_come_back_as_they_were(self, opened: Open) -> None:
        db = opened(SHARES)
        assert await db.execute(PUT, "ada", "005930", 2**31 - 1, None) == []
        assert await db.execute(PUT, "bob", "'; DROP TABLE shares; -- ? % 삼성 🙂", -1, "71,000.5") == []
        rows = await db.execute("SELECT person, symbol, number, price, note FROM shares ORDER BY person")
        assert rows == [
            ("ada", "005930", 2**31 - 1, None, ""),
            ("bob", "'; DROP TABLE shares; -- ? % 삼성 🙂", -1, "71,000.5", ""),
        ]

    async def test_a_row_that_is_there_is_renewed(self, opened: Open) -> None:
        db = opened(SHARES)
        for number in (1, 2, 3):
            await db.execute(PUT, "ada", "005930", number, "1")
        assert await db.execute("SELECT number FROM shares") == [(3,)]
        changed = await db.execute(
            "UPDATE shares SET number = number + ? WHERE symbol = ? RETURNING number", 7, "005930"
        )
        assert changed == [(10,)]
        assert await db.execute("DELETE FROM shares WHERE person = ? RETURNING symbol", "ada") == [("005930",)]
        assert await db.execute("SELECT count(*) FROM shares") == [(0,)]

    async def test_pages_groups_and_lists_of_values(self, opened: Open) -> None:
        db = opened(SHARES)
        for number, person in enumerate(("ada", "bob", "cyd", "dan")):
            await db.execute(PUT, person, "AAPL" if number % 2 else "MSFT", number, None)
        page = await db.execute("SELECT person FROM shares ORDER BY number DESC LIMIT ? OFFSET ?", 2, 1)
        assert page == [("cyd",), ("bob",)]
        grouped = await db.execute("SELECT symbol, sum(number), count(*) FROM shares GROUP BY symbol ORDER BY symbol")
        assert [(symbol, int(total), count) for symbol, total, count in grouped] == [("AAPL", 4, 2), ("MSFT", 2, 2)]
        found = await db.execute(
            "SELECT person FROM shares WHERE person IN (?, ?, ?) ORDER BY person", "dan", "x", "ada"
        )
        assert found == [("ada",), ("dan",)]

    async def test_what_the_work_raises_undoes_all_of_it(self, opened: Open) -> None:
        db = opened(SHARES)

        def work(rows: Transaction) -> None:
            rows.execute(PUT, ("ada", "AAPL", 1, None))
            assert rows.execute("SELECT count(*) FROM shares") == [(1,)]
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await db.transaction(work)
        assert await db.execute("SELECT * FROM shares") == []
        assert await db.transaction(lambda rows: len(rows.execute("SELECT 1 AS one"))) == 1

    @pytest.mark.parametrize(
        ("sql", "values"),
        [
            ("SELEC 1", ()),
            ("SELECT * FROM nothing", ()),
            ("INSERT INTO shares (person) VALUES (?)", ("ada",)),
            ("INSERT INTO shares (person, symbol, number) VALUES ('a', 'b', 1), ('a', 'b', 1)", ()),
            ("SELECT * FROM shares WHERE person = ?", ()),
        ],
    )
    async def test_sql_that_does_not_fit_is_its_authors_matter(
        self, opened: Open, sql: str, values: tuple[str, ...]
    ) -> None:
        db = opened(SHARES)
        await db.execute(PUT, "ada", "AAPL", 1, None)
        with pytest.raises(SessionError):
            await db.execute(sql, *values)
        assert await db.execute("SELECT person FROM shares") == [("ada",)]

    async def test_each_migration_is_applied_once_and_rows_stay(self, opened: Open) -> None:
        first = opened(SHARES[:1])
        await first.execute(PUT, "ada", "AAPL", 1, None)
        again = opened(SHARES)
        assert await again.execute("SELECT person, note FROM shares") == [("ada", "")]
        assert await opened(SHARES).execute("SELECT person, note FROM shares") == [("ada", "")]
