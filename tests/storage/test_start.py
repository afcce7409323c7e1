"""Bad starts: each is one line that says what to do, of the right class; and who may start at all."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import apsw
import pytest
from tests.ports.nouns import answer, take, written
from tests.support.disk import Disk

from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError, FinclawError, SessionError, StateBusy, StoreCorrupt, StoreFailed
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import open_database
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock

NOBODY = 65534


def one_clear_line(error: FinclawError, *says: str) -> None:
    text = str(error)
    assert "\n" not in text
    assert len(text) < 300
    for words in says:
        assert words in text


async def start(state: Path) -> None:
    async with build(Settings(state=state), clock=FakeClock(), threaded=False):
        pass


def some_state(path: Path) -> Path:
    """A database with a little of everything in it, closed in good order."""

    async def fill() -> None:
        store = open_store(path, FakeClock())
        for number in range(40):
            accepted = await take(store, written("w" * 400, id=str(number)), f"s{number % 4}")
            if number % 2:
                await answer(store, accepted, "one", "two")
        await store.close()

    path.parent.mkdir(exist_ok=True)
    asyncio.run(fill())
    return path


# ── the directory ───────────────────────────────────────────────────────────────────────────────────────────


async def test_the_state_directory_is_made_with_its_parents_and_for_us_alone(tmp_path: Path):
    state = tmp_path / "a" / "b"
    async with build(Settings(state=state)):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.iterdir()}
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        assert modes == {"lock": 0o600, "finclaw.db": 0o600, "finclaw.db-wal": 0o600, "finclaw.db-shm": 0o600}


async def test_a_database_that_others_could_read_is_closed_to_them(tmp_path: Path):
    database = tmp_path / "finclaw.db"
    open_database(database).close()
    database.chmod(0o644)
    open_database(database).close()
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


async def test_the_state_is_a_file(tmp_path: Path):
    (tmp_path / "state").write_text("")
    with pytest.raises(ConfigError) as caught:
        await start(tmp_path / "state")
    one_clear_line(caught.value, str(tmp_path / "state"), "--state")


async def test_the_state_is_under_a_file(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught:
        await start(tmp_path / "file" / "state")
    one_clear_line(caught.value, "Not a directory", "--state")


async def test_the_state_is_where_nobody_can_write():
    with pytest.raises(ConfigError) as caught:
        await start(Path("/proc/finclaw"))
    one_clear_line(caught.value, "/proc/finclaw", "--state")


async def test_the_database_is_a_directory(tmp_path: Path):
    (tmp_path / "finclaw.db").mkdir()
    with pytest.raises(StoreFailed) as caught:
        await start(tmp_path)
    one_clear_line(caught.value, "finclaw.db", "check the owner")


@contextmanager
def somebody_else() -> Generator[None]:
    """Inside, the kernel takes us for a user who owns nothing."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A place that another user can see and not write."""
    state = tmp_path / "state"
    state.mkdir()
    for place in (state, *state.parents):
        if not place.stat().st_mode & 0o001:
            place.chmod(place.stat().st_mode | 0o055)
    return state


def test_a_directory_of_somebody_else(foreign: Path):
    with somebody_else(), pytest.raises(ConfigError) as caught:
        StateLock(foreign)
    one_clear_line(caught.value, str(foreign), "Permission denied", "--state")


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o666])
def test_a_database_of_somebody_else(foreign: Path, mode: int):
    database = foreign / "finclaw.db"
    open_database(database).close()
    database.chmod(mode)
    with somebody_else(), pytest.raises(StoreFailed) as caught:
        open_database(database)
    one_clear_line(caught.value, str(database), "check the owner and permissions")


# ── the database ────────────────────────────────────────────────────────────────────────────────────────────


async def open_and_read(path: Path) -> None:
    """What every start does: open, migrate, raise the epoch, read what is left to do."""
    store = open_store(path, FakeClock(), threaded=False)
    try:
        await store.pending()
        await store.unfinished()
        await store.counts()
    finally:
        await store.close()


def damaged(path: Path, how: str) -> Path:
    content = bytearray(path.read_bytes())
    if how == "noise":
        content[:] = Random(1).randbytes(len(content))
    elif how == "header":
        content[:100] = b"x" * 100
    elif how == "short":
        del content[len(content) // 3 :]
    else:
        content[4096:] = Random(2).randbytes(len(content) - 4096)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("how", ["noise", "header", "short", "pages"])
def test_a_damaged_database_is_refused_and_not_touched(tmp_path: Path, how: str):
    path = damaged(some_state(tmp_path / "s" / "x.db"), how)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt) as caught:
        asyncio.run(open_and_read(path))
    one_clear_line(caught.value, str(path), "is damaged", "finclaw restore FILE")
    assert path.read_bytes() == before


def test_whichever_page_is_damaged_no_start_gets_past_it_in_silence(tmp_path: Path):
    """One page of noise at a time: the start says so, or the page was none that it needs; never another error."""
    path = some_state(tmp_path / "s" / "x.db")
    whole = path.read_bytes()
    noticed = 0
    for page in range(1, len(whole) // 4096):
        for leftover in path.parent.iterdir():
            leftover.unlink()
        content = bytearray(whole)
        content[page * 4096 : (page + 1) * 4096] = Random(page).randbytes(4096)
        path.write_bytes(content)
        try:
            asyncio.run(open_and_read(path))
        except StoreCorrupt:
            noticed += 1
    assert noticed >= 3


async def test_an_empty_file_is_a_new_database(tmp_path: Path):
    (tmp_path / "x.db").touch()
    await open_and_read(tmp_path / "x.db")


async def test_a_newer_schema_is_refused_and_not_touched(tmp_path: Path):
    path = tmp_path / "finclaw.db"
    db = open_database(path)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        await start(tmp_path)
    one_clear_line(caught.value, "newer FinClaw", f"schema {len(MIGRATIONS) + 1}", "--state")
    assert path.read_bytes() == before


def database_of_version(path: Path, version: int) -> Path:
    """A database as the release with that schema left it."""
    db = apsw.Connection(str(path))
    for number, migration in enumerate(MIGRATIONS[:version], start=1):
        db.execute(migration)
        if number == 1:
            db.execute("INSERT INTO meta VALUES ('name', 'older'), ('boot', 7)")
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    return path


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
async def test_a_database_of_every_earlier_schema_opens(tmp_path: Path, version: int):
    path = database_of_version(tmp_path / "x.db", version)
    store = open_store(path, FakeClock(), threaded=False)
    accepted = await take(store, written())
    assert accepted.id == "m-older-1"
    await answer(store, accepted)
    await store.close()
    db = apsw.Connection(str(path))
    assert db.pragma("user_version") == len(MIGRATIONS)
    assert db.execute("SELECT value FROM meta WHERE key = 'boot'").get == 8
    db.close()


async def test_every_start_raises_the_epoch_and_keeps_the_name(tmp_path: Path):
    ids: list[str] = []
    for number in range(3):
        store = open_store(tmp_path / "x.db", FakeClock(), threaded=False)
        ids.append((await take(store, written(id=str(number)))).id)
        await store.close()
    assert len({each.rpartition("-")[0] for each in ids}) == 1
    assert [each.rpartition("-")[2] for each in ids] == ["1", "2", "3"]


# A failure that SQLite keeps to itself still leaves the file layer's exception behind.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_the_disk_is_full_at_the_start(tmp_path: Path):
    """Whichever write of a start is the first that finds no room: refused in one line, and fine once there is."""
    with Disk("finclaw-count", default=True) as disk:
        await open_and_read(tmp_path / "count.db")
        writes = disk.counts["write"]
    refused = 0
    for n in range(1, writes + 1):
        path = tmp_path / f"{n}.db"
        with Disk(default=True) as disk:
            disk.fail(at=n, error="full", ops=("write",), forever=True)
            try:
                store = open_store(path, FakeClock(), threaded=False)
            except StoreFailed as error:
                one_clear_line(error, "is full; free some space")
                refused += 1
            else:
                disk.heal()
                await store.close()
        await open_and_read(path)
    assert refused > 10


async def test_a_database_that_is_not_ours_is_left_alone(tmp_path: Path):
    path = tmp_path / "x.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE session (id, something)")
    db.close()
    with pytest.raises(SessionError) as caught:
        open_database(path)
    one_clear_line(caught.value, str(path))
    db = apsw.Connection(str(path))
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("session",)]
    db.close()


# ── the lock ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_second_gateway_hears_who_the_first_is(tmp_path: Path):
    with StateLock(tmp_path):
        with pytest.raises(StateBusy) as caught:
            StateLock(tmp_path)
        one_clear_line(caught.value, f"process {os.getpid()}", str(tmp_path), "another state directory")
        with pytest.raises(StateBusy):
            StateLock(tmp_path)
    StateLock(tmp_path).release()


async def test_a_second_gateway_is_refused_and_the_first_goes_on(tmp_path: Path):
    async with build(Settings(state=tmp_path)) as app:
        with pytest.raises(StateBusy):
            await start(tmp_path)
        assert app.ready
        assert (await app.counts()).sessions == 0
    await start(tmp_path)


HOLD = "import sys, time; from pathlib import Path; from finclaw.storage.locks import StateLock; {}"


@contextmanager
def holder(state: Path) -> Generator[subprocess.Popen[str]]:
    """Another process that has the lock."""
    code = HOLD.format("lock = StateLock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()")
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_killed_holder_holds_nothing(tmp_path: Path):
    with holder(tmp_path) as process:
        with pytest.raises(StateBusy, match=f"process {process.pid}"):
            StateLock(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        StateLock(tmp_path).release()


def test_a_pid_in_the_file_is_not_a_claim(tmp_path: Path):
    """A live process that has nothing to do with us, as after a rebuilt container."""
    (tmp_path / "lock").write_text("1")
    with StateLock(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())


@pytest.mark.parametrize("text", ["", "not a pid", "9" * 500, "\xff\n\n"])
def test_whatever_the_file_says_is_only_courtesy(tmp_path: Path, text: str):
    with StateLock(tmp_path):
        (tmp_path / "lock").write_text(text)
        with pytest.raises(StateBusy) as caught:
            StateLock(tmp_path)
        one_clear_line(caught.value, "another gateway")


def test_a_child_does_not_keep_the_lock(tmp_path: Path):
    with StateLock(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        StateLock(tmp_path).release()
    finally:
        child.kill()
        child.wait()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path):
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(ConfigError) as caught:
        StateLock(tmp_path)
    one_clear_line(caught.value, str(tmp_path))
    assert (tmp_path / "precious").read_text() == "keep me"


def test_releasing_twice_is_once(tmp_path: Path):
    lock = StateLock(tmp_path)
    lock.release()
    with StateLock(tmp_path):
        lock.release()
        with pytest.raises(StateBusy):
            StateLock(tmp_path)
