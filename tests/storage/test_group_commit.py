"""Group commit: all that wait share one, and what becomes of them when it fails."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace
from tests.ports.nouns import Told, adds, answer, begin, take, written
from tests.support.disk import Disk

from finclaw.errors import InboundConflict, StoreFailed, Superseded
from finclaw.storage.sqlite.database import open_database
from finclaw.storage.sqlite.store import SqliteStore, open_store
from finclaw.testing import FakeClock


class Counted:
    """A store that counts its commits, and refuses them when told."""

    def __init__(self, path: Path, *, threaded: bool) -> None:
        self.commits = 0
        self.refuse = False
        self.db = open_database(path)
        self.store: SqliteStore = open_store(path, FakeClock(), threaded=threaded, database=self.db)
        self.db.set_commit_hook(self._committing)

    def _committing(self) -> bool:
        self.commits += 1
        return self.refuse


@pytest.fixture(params=[True, False], ids=["thread", "loop"])
async def counted(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Counted]:
    counted = Counted(tmp_path / "x.db", threaded=bool(request.param))
    yield counted
    await counted.store.close()


async def test_64_accepts_at_once_share_commits(counted: Counted):
    taken = await asyncio.gather(*(take(counted.store, written(id=str(number)), f"s{number}") for number in range(64)))
    assert len({each.id for each in taken}) == 64
    assert 1 <= counted.commits <= 16


async def test_what_one_round_of_the_loop_asks_for_is_one_commit(counted: Counted):
    for time in range(3):
        await asyncio.gather(*(take(counted.store, written(id=f"{time}-{number}")) for number in range(64)))
    assert counted.commits == 3


async def test_what_was_asked_for_before_the_store_was_closed_is_committed(tmp_path: Path):
    """Nothing was handed to the thread yet: the loop has not come round."""
    store = open_store(tmp_path / "x.db", FakeClock())
    tasks = [asyncio.create_task(take(store, written(id=str(number)))) for number in range(3)]
    await asyncio.sleep(0)
    await store.close()
    assert [(await task).ticket for task in tasks] == [1, 2, 3]
    with pytest.raises(StoreFailed, match="closed"):
        await take(store, written(id="late"))


async def test_one_after_the_other_they_need_one_each(counted: Counted):
    for number in range(5):
        await take(counted.store, written(id=str(number)))
    assert counted.commits == 5


async def test_what_only_reads_or_repeats_does_not_touch_the_disk(tmp_path: Path):
    with Disk() as disk:
        db = open_database(tmp_path / "x.db", vfs=disk.name)
        store = open_store(tmp_path / "x.db", FakeClock(), database=db)
        accepted = await take(store, written())
        before = disk.count
        await asyncio.gather(store.unfinished(), store.counts(), store.find(accepted.id), take(store, written()))
        assert disk.count == before
        await store.close()


async def test_a_failed_commit_fails_all_and_none_has_happened(counted: Counted):
    told = Told()
    counted.refuse = True
    results = await asyncio.gather(
        *(counted.store.accept(written(id=str(number)), "s", told.accepted) for number in range(20)),
        return_exceptions=True,
    )
    assert {type(each) for each in results} == {StoreFailed}
    counted.refuse = False
    assert told.times == 0
    assert await counted.store.unfinished() == []
    again = await asyncio.gather(*(take(counted.store, written(id=str(number))) for number in range(20)))
    assert [each.ticket for each in again] == list(range(1, 21)), "no ticket was lost either"


async def test_an_error_of_one_piece_is_told_to_its_owner_alone(counted: Counted):
    await take(counted.store, written("first", id="known"))
    claim = await begin(counted.store, await take(counted.store, written(id="reset"), "r"))
    await counted.store.reset("r")
    before = counted.commits
    results = await asyncio.gather(
        take(counted.store, written(id="1")),
        take(counted.store, written("second", id="known")),
        counted.store.record(claim, 1, adds("late"), lambda: None),
        take(counted.store, written(id="2")),
        return_exceptions=True,
    )
    assert [type(each).__name__ for each in results] == ["Accepted", "InboundConflict", "Superseded", "Accepted"]
    assert isinstance(results[1], InboundConflict)
    assert isinstance(results[2], Superseded)
    assert counted.commits - before <= 2


@pytest.mark.parametrize("threaded", [True, False])
async def test_a_newer_gateway_on_the_database_shuts_the_older_out(tmp_path: Path, threaded: bool):
    """Should the lock ever fail (a network disk), the epoch in every commit still keeps two writers apart."""
    older = open_store(tmp_path / "x.db", FakeClock(), threaded=threaded)
    await take(older, written(id="1"))
    newer = open_store(tmp_path / "x.db", FakeClock(), threaded=threaded)
    with pytest.raises(Superseded, match="another gateway"):
        await take(older, written(id="2"))
    assert (await take(newer, written(id="2"))).ticket == 2
    await older.close()
    await newer.close()


async def test_a_newer_gateway_is_noticed_however_much_was_written_meanwhile(tmp_path: Path):
    """Who looks for it only where somebody else has written must not be misled by a reader, a tool or a refusal."""
    older = Counted(tmp_path / "x.db", threaded=False)
    tool = open_database(tmp_path / "x.db")
    await take(older.store, written(id="1"))
    tool.execute("UPDATE session SET turns = turns")  # somebody else, and no gateway
    await take(older.store, written(id="2"))
    older.refuse = True
    with pytest.raises(StoreFailed):
        await take(older.store, written(id="3"))
    older.refuse = False
    newer = open_store(tmp_path / "x.db", FakeClock(), threaded=False)
    with pytest.raises(Superseded, match="another gateway"):
        await take(older.store, written(id="4"))
    with pytest.raises(Superseded, match="another gateway"):
        await take(older.store, written(id="5"))
    await take(newer, written(id="6"))
    tool.close()
    await newer.close()
    await older.store.close()


async def test_a_cancelled_receipt_is_written_all_the_same(counted: Counted):
    (unit,) = await answer(counted.store, await take(counted.store, written()))
    task = asyncio.create_task(counted.store.settle(replace(unit, state="sent"), lazy=True))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await counted.store.pending() == []


async def test_a_receipt_behind_one_that_was_taken_along_is_written_soon(counted: Counted):
    """One timer serves both: it looks too early for the second, and must look again."""
    (first,) = await answer(counted.store, await take(counted.store, written(id="1")))
    along = asyncio.create_task(counted.store.settle(replace(first, state="sent"), lazy=True))
    await asyncio.sleep(0)
    accepted = await take(counted.store, written(id="2"))
    await along
    (second,) = await answer(counted.store, accepted)
    async with asyncio.timeout(10):
        await counted.store.settle(replace(second, state="sent"), lazy=True)
    assert await counted.store.pending() == []


async def test_the_thread_writer_survives_a_disk_that_fails_now_and_then(tmp_path: Path):
    """Thirty groups on a thread, every third refused: each message is in exactly if its caller was told so."""
    with Disk() as disk:
        db = open_database(tmp_path / "x.db", vfs=disk.name)
        store = open_store(tmp_path / "x.db", FakeClock(), database=db)
        told, refused = Told(), 0
        for number in range(30):
            if number % 3 == 0:
                disk.fail(at=1, ops=("sync",), error="io")
            try:
                await store.accept(written(id=str(number)), "s", told.accepted)
            except StoreFailed:
                refused += 1
        assert refused == 10
        assert [each.id for each in await store.unfinished()] == [each.id for each in told.what]
        await store.close()
    after = apsw.Connection(str(tmp_path / "x.db"))
    assert after.execute("SELECT count(*) FROM inbound").get == 20
    after.close()
