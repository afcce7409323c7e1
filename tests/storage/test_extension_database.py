"""An extension's own database: all or nothing, whoever is cancelled, and errors in words that say what to do."""

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import apsw
import pytest

from finclaw.errors import ConfigError, ExtensionError, SessionError, StoreCorrupt, StoreFailed
from finclaw.kernel.extension import Transaction
from finclaw.storage.sqlite.extension import ExtensionDatabase

NOTES = ("CREATE TABLE note (text TEXT NOT NULL UNIQUE)",)
Open = Callable[..., ExtensionDatabase]


@pytest.fixture(params=[True, False], ids=["threaded", "here"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Open]:
    made: list[ExtensionDatabase] = []

    def opened(migrations: Sequence[str] = NOTES) -> ExtensionDatabase:
        made.append(ExtensionDatabase(tmp_path / "extensions", "mine", migrations, threaded=request.param))
        return made[-1]

    yield opened
    for each in made:
        asyncio.run(each.close())


async def texts(db: ExtensionDatabase) -> list[str]:
    return [text for (text,) in await db.execute("SELECT text FROM note ORDER BY text")]


async def test_it_is_opened_with_the_first_use_and_safe_from_then_on(opened: Open, tmp_path: Path) -> None:
    db = opened()
    assert not (tmp_path / "extensions").exists()
    assert await db.execute("INSERT INTO note VALUES (?), (?)", "a", "b") == []
    assert await texts(db) == ["a", "b"]
    path = tmp_path / "extensions" / "mine.db"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert await db.execute("PRAGMA journal_mode") == [("wal",)]
    assert await db.execute("PRAGMA synchronous") == [(2,)]
    await db.close()
    await db.close()
    with pytest.raises(StoreFailed, match="the database of extension 'mine' is closed"):
        await db.execute("SELECT 1")
    assert await texts(opened()) == ["a", "b"]


async def test_closing_what_was_never_used_makes_nothing(opened: Open, tmp_path: Path) -> None:
    await opened().close()
    assert not (tmp_path / "extensions").exists()


# ── all or nothing ──────────────────────────────────────────────────────────────────────────────────────────


async def test_what_the_work_raises_undoes_all_of_it(opened: Open) -> None:
    db = opened()

    def work(rows: Transaction) -> None:
        rows.execute("INSERT INTO note VALUES ('a')")
        assert rows.execute("SELECT count(*) FROM note") == [(1,)]
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await db.transaction(work)
    assert await texts(db) == []
    assert await db.transaction(lambda rows: rows.execute("INSERT INTO note VALUES (?) RETURNING text", ["b"])) == [
        ("b",)
    ]


@pytest.mark.parametrize(
    "sql", ["COMMIT", "END", "ROLLBACK", "BEGIN", "ATTACH ':memory:' AS other", "SELECT 1; COMMIT"]
)
async def test_the_transaction_is_not_the_works_to_end(opened: Open, sql: str) -> None:
    db = opened()
    await db.execute("SELECT 1")

    def work(rows: Transaction) -> None:
        rows.execute("INSERT INTO note VALUES ('half')")
        rows.execute(sql)

    for _ in range(2):  # the second finds whatever the first left prepared
        with pytest.raises(SessionError, match="extension 'mine'"):
            await db.transaction(work)
    assert await texts(db) == []


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELEC 1", ()),
        ("SELECT * FROM nothing", ()),
        ("INSERT INTO note VALUES (NULL)", ()),
        ("INSERT INTO note VALUES (?)", ()),
        ("INSERT INTO note VALUES (?)", ("a", "b")),
        ("INSERT INTO note VALUES ('x'), ('x')", ()),
    ],
)
async def test_sql_that_does_not_fit_is_its_authors_matter(opened: Open, sql: str, values: tuple[str, ...]) -> None:
    db = opened()
    with pytest.raises(SessionError, match="the database of extension 'mine': ") as caught:
        await db.execute(sql, *values)
    assert not isinstance(caught.value, StoreFailed)
    assert await texts(db) == []


async def test_a_cancelled_caller_leaves_only_when_its_work_is_decided(tmp_path: Path) -> None:
    db = ExtensionDatabase(tmp_path, "mine", NOTES)
    began, go_on = threading.Event(), threading.Event()

    def work(rows: Transaction) -> None:
        rows.execute("INSERT INTO note VALUES ('a')")
        began.set()
        go_on.wait(10)

    caller = asyncio.create_task(db.transaction(work))
    waiting = asyncio.create_task(db.execute("INSERT INTO note VALUES ('b')"))
    await asyncio.get_running_loop().run_in_executor(None, began.wait, 10)
    caller.cancel()
    waiting.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    go_on.set()
    await asyncio.wait([caller, waiting])
    assert caller.cancelled()
    assert await texts(db) in (["a"], ["a", "b"])  # each whole; nothing is left open
    await db.close()


async def test_many_callers_take_turns(opened: Open) -> None:
    db = opened()

    def count(rows: Transaction) -> int:
        ((seen,),) = rows.execute("SELECT count(*) FROM note")
        rows.execute("INSERT INTO note VALUES (?)", [str(seen)])
        return int(seen)

    assert sorted(await asyncio.gather(*(db.transaction(count) for _ in range(30)))) == list(range(30))


# ── migrations ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_migration_is_applied_once_in_order(opened: Open) -> None:
    first = opened()
    await first.execute("INSERT INTO note VALUES ('a')")
    await first.close()
    both = (*NOTES, "ALTER TABLE note ADD COLUMN at INTEGER; UPDATE note SET at = 7; CREATE INDEX by_at ON note (at)")
    for _ in range(2):
        db = opened(both)
        assert await db.execute("SELECT text, at FROM note") == [("a", 7)]
        await db.close()
    with pytest.raises(ConfigError, match=r"newer version of extension 'mine' \(schema 2, this one knows 1\); install"):
        await opened().execute("SELECT 1")


async def test_a_migration_that_fails_leaves_nothing_of_itself(opened: Open) -> None:
    broken = (*NOTES, "INSERT INTO note VALUES ('half'); SELECT * FROM nowhere")
    db = opened(broken)
    for _ in range(2):
        with pytest.raises(
            ExtensionError, match="migration 2 of the database of extension 'mine' failed: no such table"
        ):
            await db.execute("SELECT 1")
    await db.close()
    assert await texts(opened()) == []


async def test_a_migration_may_not_commit_half_of_itself(opened: Open) -> None:
    db = opened((*NOTES, "INSERT INTO note VALUES ('half'); COMMIT; SELECT * FROM nowhere"))
    with pytest.raises(ExtensionError, match="migration 2"):
        await db.execute("SELECT 1")
    await db.close()
    assert await texts(opened()) == []


# ── a bad disk ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_damaged_file_is_told_in_words(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "extensions").mkdir()
    (tmp_path / "extensions" / "mine.db").write_bytes(b"this is no database at all" * 100)
    with pytest.raises(StoreCorrupt, match="is damaged"):
        await opened().execute("SELECT 1")


async def test_a_place_that_cannot_be_written_is_told_in_words(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "extensions").write_text("a file in the way")
    with pytest.raises(StoreFailed, match="cannot write"):
        await opened().execute("SELECT 1")


async def test_a_full_disk_undoes_the_work_and_the_next_goes_through(opened: Open, tmp_path: Path) -> None:
    db = opened()
    await db.execute("INSERT INTO note VALUES ('before')")
    await db.execute("PRAGMA max_page_count = 4")
    with pytest.raises(StoreFailed, match="is full; free some space"):
        await db.execute("INSERT INTO note VALUES (?)", "x" * 100_000)
    assert await texts(db) == ["before"]
    await db.execute("PRAGMA max_page_count = 1000000")
    await db.execute("INSERT INTO note VALUES ('after')")
    assert await texts(db) == ["after", "before"]


async def test_somebody_elses_lock_is_waited_for(opened: Open, tmp_path: Path) -> None:
    db = opened()
    await db.execute("INSERT INTO note VALUES ('a')")
    other = apsw.Connection(str(tmp_path / "extensions" / "mine.db"))
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.2, lambda: other.execute("COMMIT")).start()
    await db.execute("INSERT INTO note VALUES ('b')")
    assert await texts(db) == ["a", "b"]
    other.close()
