"""The bad disk under plain SQLite: what FULL promises it keeps, what OFF does not promise it loses."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TypeVar

import apsw
import pytest
from tests.support.disk import Disk, DiskError, lay_out
from tests.support.platter import CutMode, Platter

T = TypeVar("T")

MODES: tuple[CutMode, ...] = ("drop", "prefix", "torn")


@pytest.fixture
def disk() -> Iterator[Disk]:
    with Disk() as disk:
        yield disk


def connect(path: Path, synchronous: str = "FULL", vfs: str | None = "finclaw-fault") -> apsw.Connection:
    db = apsw.Connection(str(path), vfs=vfs)
    # Read to the end: a switch to WAL that fails tells so only after its first row, and that says "wal".
    if db.execute("PRAGMA journal_mode=WAL").fetchall() != [("wal",)]:
        raise apsw.IOError("no WAL")
    db.execute(f"PRAGMA synchronous={synchronous}")
    return db


def insert(db: apsw.Connection, number: int) -> None:
    """One transaction of two rows and a total that must agree with them, over more than one page."""
    with db:
        db.execute("INSERT INTO entry VALUES (?, 1, zeroblob(1500)), (?, 2, zeroblob(1500))", (number, number))
        db.execute("UPDATE total SET entries = entries + 2")


def create(db: apsw.Connection) -> None:
    with db:
        db.execute("CREATE TABLE entry (number, part, filler)")
        db.execute("CREATE TABLE total (entries)")
        db.execute("INSERT INTO total VALUES (0)")


def work(db: apsw.Connection, disk: Disk) -> list[int]:
    """Commits, a checkpoint that starts the log anew, more commits. When each was acknowledged."""
    acked: list[int] = []
    create(db)
    for number in range(12):
        insert(db, number)
        acked.append(disk.position)
        if number == 7:
            db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    return acked


def entries(where: Path) -> list[int]:
    """What the ordinary file layer finds there, after asking SQLite whether it is whole."""
    path = where / "x.db"
    if not path.exists() or not path.stat().st_size:
        return []
    db = apsw.Connection(str(path))
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'total'").fetchall():
            return []
        parts = [int(row[0]) for row in db.execute("SELECT number FROM entry ORDER BY number, part")]
        assert parts == [number for number in sorted(set(parts)) for _ in (1, 2)]
        assert db.execute("SELECT entries FROM total").fetchall() == [(len(parts),)]
        return sorted(set(parts))
    finally:
        db.close()


def worst_loss(disk: Disk, acked: list[int], tmp: Path, mode: CutMode) -> int:
    """Cut the power after every single operation; the most acknowledged commits that were missing after one."""
    platter = Platter()
    worst = 0
    for instant, op in enumerate(disk.log, start=1):
        platter.apply(op)
        found = entries(lay_out(platter.cut(mode, Random(instant)), tmp / f"{mode}{instant}"))
        assert found == list(range(len(found))), "a later commit survived an earlier one"
        worst = max(worst, sum(at <= instant for at in acked) - len(found))
    return worst


@pytest.mark.parametrize("mode", MODES)
def test_full_keeps_every_commit_at_every_cut(disk: Disk, tmp_path: Path, mode: CutMode):
    db = connect(tmp_path / "x.db")
    acked = work(db, disk)
    db.close()
    assert len(disk.log) > 100
    assert worst_loss(disk, acked, tmp_path, mode) == 0


def test_off_loses_commits(disk: Disk, tmp_path: Path):
    db = connect(tmp_path / "x.db", "OFF")
    work(db, disk)
    cut = disk.power_cut(tmp_path / "cut", "drop", Random(0))
    assert len(entries(cut)) < 12
    db.close()


def test_normal_loses_commits_but_stays_whole(disk: Disk, tmp_path: Path):
    db = connect(tmp_path / "x.db", "NORMAL")
    acked = work(db, disk)
    db.close()
    assert worst_loss(disk, acked, tmp_path, "torn") > 0


def test_without_wal_full_loses_the_last_commit(disk: Disk, tmp_path: Path):
    """A deleted journal can come back and undo the commit: why a store must see that it really is in WAL mode."""
    db = apsw.Connection(str(tmp_path / "x.db"), vfs=disk.name)
    db.execute("PRAGMA synchronous=FULL")
    acked = work(db, disk)
    db.close()
    assert worst_loss(disk, acked, tmp_path, "drop") == 1


def test_a_cut_while_it_is_open_or_at_an_earlier_instant(disk: Disk, tmp_path: Path):
    db = connect(tmp_path / "x.db")
    acked = work(db, disk)
    assert len(entries(disk.power_cut(tmp_path / "now", "drop", Random(0)))) == 12
    assert len(entries(disk.power_cut(tmp_path / "then", "drop", Random(0), at=acked[4]))) == 5
    with pytest.raises(ValueError, match="not empty"):
        disk.power_cut(tmp_path / "now", "drop", Random(0))
    db.close()


class Scenario:
    """What a store does in its life. `done` counts the commits that were acknowledged."""

    def __init__(self, where: Path, disk: Disk) -> None:
        self.where = where
        self.disk = disk
        self.done = 0

    def run(self) -> None:
        db = connect(self.where / "x.db", vfs=self.disk.name)
        try:
            create(db)
            for number in range(6):
                insert(db, number)
                self.done += 1
                if number == 3:
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            db.close()


def operations(where: Path) -> int:
    where.mkdir()
    with Disk("finclaw-count") as disk:
        Scenario(where, disk).run()
        return disk.count


@pytest.mark.parametrize("error", ["io", "full"])
def test_whichever_operation_fails_commits_are_all_or_nothing(tmp_path: Path, error: DiskError):
    total = operations(tmp_path / "count")
    assert total > 50
    for n in range(1, total + 1):
        one_failure(tmp_path / str(n), n, error)


def one_failure(where: Path, n: int, error: DiskError) -> None:
    where.mkdir()
    with Disk() as disk:
        scenario = Scenario(where, disk)
        disk.fail(at=n, error=error)
        with suppress(apsw.Error):
            scenario.run()
        assert len(disk.failed) == 1, n
        done = list(range(scenario.done))
        assert entries(where) == done, n
        for mode in MODES:
            found = entries(disk.power_cut(where / mode, mode, Random(n)))
            # A commit whose sync failed was reported as failed; whether its bytes reached the disk nobody knows.
            assert found in (done, [*done, scenario.done]), (n, mode)


def stubborn(where: Path, disk: Disk) -> list[int]:
    """A store that goes on after every failure: connects again where it must, gives a failed commit up."""
    acked: list[int] = []
    db = retry_until_committed(lambda: connect(where / "x.db"))
    retry_until_committed(lambda: create(db))
    for number in range(8):
        with suppress(apsw.Error):
            insert(db, number)
            acked.append(number)
        if number in (3, 5):
            with suppress(apsw.Error):
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    # Not closed yet: the power goes while it runs.
    for mode in MODES:
        disk.power_cut(where / mode, mode, Random(len(disk.log)))
    db.close()
    return acked


def retry_until_committed(attempt: Callable[[], T]) -> T:
    try:
        return attempt()
    except apsw.Error:
        return attempt()


def test_going_on_after_a_failed_sync_or_write_loses_no_later_commit(tmp_path: Path):
    for n in range(1, operations(tmp_path / "count") + 1):
        where = tmp_path / str(n)
        where.mkdir()
        with Disk() as disk:
            disk.fail(at=n)
            acked = stubborn(where, disk)
        for found in (entries(where), *(entries(where / mode) for mode in MODES)):
            assert set(acked) <= set(found), n
            assert len(acked) >= 7, n


def test_a_full_disk_stays_full_until_somebody_makes_room(disk: Disk, tmp_path: Path):
    db = connect(tmp_path / "x.db")
    create(db)
    insert(db, 0)
    disk.fail(error="full", ops=("write",), forever=True)
    for _ in range(3):
        with pytest.raises(apsw.FullError):
            insert(db, 1)
    disk.heal()
    insert(db, 1)
    db.close()
    assert entries(tmp_path) == [0, 1]


def test_an_io_error_is_one_and_names_its_operation(disk: Disk, tmp_path: Path):
    db = connect(tmp_path / "x.db")
    create(db)
    disk.fail(ops=("sync",))
    with pytest.raises(apsw.IOError) as caught:
        insert(db, 0)
    assert caught.value.extendedresult == apsw.SQLITE_IOERR_FSYNC
    assert str(caught.value).startswith("disk I/O error")
    assert disk.failed == [("sync", str(tmp_path / "x.db-wal"))]
    insert(db, 1)
    db.close()


def test_a_database_that_cannot_be_opened(disk: Disk, tmp_path: Path):
    disk.fail(ops=("open",))
    with pytest.raises(apsw.CantOpenError):
        connect(tmp_path / "x.db")


def test_other_connections_share_the_wal_through_it(disk: Disk, tmp_path: Path):
    db = connect(tmp_path / "x.db")
    create(db)
    reader = apsw.Connection(str(tmp_path / "x.db"), vfs=disk.name)
    outside = apsw.Connection(str(tmp_path / "x.db"))
    insert(db, 7)
    for other in (reader, outside):
        assert other.execute("SELECT DISTINCT number FROM entry").fetchall() == [(7,)]
        other.close()
    assert (tmp_path / "x.db-shm").exists()
    db.close()


def test_it_watches_a_database_from_before(tmp_path: Path):
    db = connect(tmp_path / "x.db", vfs=None)
    create(db)
    insert(db, 0)
    db.close()
    with Disk() as disk:
        db = connect(tmp_path / "x.db")
        insert(db, 1)
        assert entries(disk.power_cut(tmp_path / "cut", "drop", Random(0))) == [0, 1]
        db.close()


def test_as_the_default_it_needs_no_name_and_gives_the_place_back(tmp_path: Path):
    before = apsw.vfs_names()[0]
    with Disk(default=True) as disk:
        db = connect(tmp_path / "x.db", vfs=None)
        create(db)
        db.close()
        assert disk.counts["sync"] > 0
    assert apsw.vfs_names()[0] == before
