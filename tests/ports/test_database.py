"""The database of an extension keeps its contract, and the SQL of our own is SQLite's and PostgreSQL's alike."""

import asyncio
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
import sqlglot
from sqlglot import ErrorLevel, ParseError, exp
from tests.ports.database_contract import PUT, SHARES, DatabaseContract, Open
from tests.ports.own_statements import (
    RecordingDatabase,
    calls_in_source,
    use_choices,
    use_market_data,
    use_notes,
    use_pins,
    use_watchlists,
)

from finclaw.builtins.mcp import pins
from finclaw.builtins.memory import notes
from finclaw.finance import live_market, watchlist
from finclaw.finance.instruments import choices
from finclaw.storage.sqlite.extension import ExtensionDatabase

RELEASED = {"memory": 3, "mcp": 2}
"""Migrations that are on people's disks and stay as they are, whatever their SQL."""
OF_ONE_ALONE = (exp.Command, exp.Pragma, exp.Match, exp.Glob, exp.Anonymous, exp.AutoIncrementColumnConstraint)
"""What only one of the two has, or what the parser does not know: commands, full-text search, functions of its own."""


@pytest.fixture
def opened(tmp_path: Path) -> Generator[Open]:
    made: list[ExtensionDatabase] = []

    def opened(migrations: Sequence[str]) -> ExtensionDatabase:
        made.append(ExtensionDatabase(tmp_path, "mine", migrations, threaded=False))
        return made[-1]

    yield opened
    for each in made:
        asyncio.run(each.close())


class TestSqlite(DatabaseContract):
    pass


def problems(sql: str) -> list[str]:
    found: list[str] = []
    for dialect in ("sqlite", "postgres"):
        try:
            trees = sqlglot.parse(sql, read=dialect, error_level=ErrorLevel.RAISE)
        except ParseError as error:
            found.append(f"{dialect}: {error}")
            continue
        for tree in filter(None, trees):
            found += [f"{dialect}: {node.sql(dialect)}" for node in tree.find_all(*OF_ONE_ALONE)]
            found += ["OR REPLACE" for node in tree.find_all(exp.Insert) if node.args.get("alternative")]
            found += ["rowid" for node in tree.find_all(exp.Column) if node.name.lower() == "rowid"]
    return found


async def test_every_statement_of_our_extensions_is_sqlites_and_postgresqls(tmp_path: Path) -> None:
    memory = RecordingDatabase(ExtensionDatabase(tmp_path, "memory", notes.MIGRATIONS, threaded=False))
    await use_notes(notes.NoteStore(memory))
    mcp = RecordingDatabase(ExtensionDatabase(tmp_path, "mcp", pins.MIGRATIONS, threaded=False))
    await use_pins(mcp)
    names = RecordingDatabase(ExtensionDatabase(tmp_path, "instruments", choices.MIGRATIONS, threaded=False))
    await use_choices(names)
    market = RecordingDatabase(ExtensionDatabase(tmp_path, "finance", live_market.MIGRATIONS, threaded=False))
    await use_market_data(market)
    watched = RecordingDatabase(ExtensionDatabase(tmp_path, "watchlist", watchlist.MIGRATIONS, threaded=False))
    await use_watchlists(watched)
    recorded = (memory, mcp, names, market, watched)
    seen = {line for each in recorded for line in each.lines}
    unseen = [place for place, lines in calls_in_source().items() if not {(place[0], line) for line in lines} & seen]
    assert unseen == [], "a statement that `own_statements.py` does not send: let it, so that it is read here"
    assert {sql: found for each in recorded for sql in each.statements if (found := problems(sql))} == {}


@pytest.mark.parametrize(
    "migration",
    [
        *notes.MIGRATIONS[RELEASED["memory"] :],
        *pins.MIGRATIONS[RELEASED["mcp"] :],
        *choices.MIGRATIONS,
        *live_market.MIGRATIONS,
        *SHARES,
        PUT,
    ],
)
def test_every_new_migration_is_too(migration: str) -> None:
    assert problems(migration) == []


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT OR REPLACE INTO pins (server) VALUES (?)",
        "SELECT text FROM notes WHERE notes MATCH ? ORDER BY bm25(notes)",
        "PRAGMA secure_delete = ON",
        "SELECT 1 FROM notes WHERE ?1 IS NULL OR text = ?1",
        "DELETE FROM notes WHERE rowid = ?",
        "CREATE VIRTUAL TABLE word_index USING fts5(words)",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT)",
        "SELECT julianday(saved_at) FROM notes",
        "SELECT text FROM notes WHERE text GLOB ?",
    ],
)
def test_sql_that_only_sqlite_has_is_told_apart(sql: str) -> None:
    assert problems(sql)
