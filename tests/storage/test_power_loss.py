"""The power goes, or the disk refuses, at every single operation: what was promised is there, and nothing in halves."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from tests.ports.nouns import take, written
from tests.storage.scenario import Life, Promise, State, at_once, goes_on, open_again, open_fixed, state_of
from tests.support.disk import Disk, DiskError, lay_out
from tests.support.platter import CutMode, Platter

from finclaw.errors import SessionError, StoreFailed
from finclaw.storage.sqlite.database import Synchronous, open_database

MODES: tuple[CutMode, ...] = ("drop", "prefix", "torn")


@dataclass
class Recording:
    """The scenario on a good disk: every state it committed, and when each promise left the house."""

    began: int = 0
    states: list[State] = field(default_factory=list[State])
    promises: list[tuple[int, int, Promise]] = field(default_factory=list[tuple[int, int, Promise]])
    """(position of the disk, number of the state, what was promised)"""

    def see(self, db: apsw.Connection) -> None:
        self.states.append(state_of(db))


async def record(path: Path, disk: Disk, synchronous: Synchronous = "FULL") -> Recording:
    recording = Recording()
    db = open_fixed(path, disk.name, synchronous, recording.see)
    store = open_again(path, db)
    recording.began = disk.position

    def kept(promise: Promise) -> None:
        recording.promises.append((disk.position, len(recording.states) - 1, promise))

    await Life(store, kept, at_once).run()
    await store.close()
    return recording


def found_in(where: Path) -> State:
    """What an ordinary start would find there, after asking SQLite whether it is whole."""
    db = open_database(where / "x.db", synchronous="OFF")
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return state_of(db)
    finally:
        db.close()


def wipe(where: Path) -> Path:
    """An empty directory there, whatever was."""
    where.mkdir(exist_ok=True)
    for file in where.iterdir():
        file.unlink()
    return where


@dataclass
class Loss:
    """What cuts cost: broken promises, and states that no commit had made."""

    cuts: int = 0
    broken: list[str] = field(default_factory=list[str])
    illegal: list[int] = field(default_factory=list[int])

    def judge(self, recording: Recording, instant: int, state: State) -> None:
        self.cuts += 1
        due = [each for each in recording.promises if each[0] <= instant]
        self.broken += [f"{each.what} at {instant}" for _, _, each in due if not each.holds(state)]
        oldest = max((number for _, number, _ in due), default=0)
        if state not in recording.states[oldest:]:
            self.illegal.append(instant)


def cut_everywhere(disk: Disk, recording: Recording, mode: CutMode, where: Path) -> Loss:
    """The power goes after every operation from the first to the last, the start of the store included."""
    platter, loss = Platter(), Loss()
    for instant, op in enumerate(disk.log, start=1):
        platter.apply(op)
        state = found_in(lay_out(platter.cut(mode, Random(instant)), wipe(where)))
        loss.judge(recording, instant, state)
    return loss


@pytest.mark.parametrize("mode", MODES)
async def test_whenever_the_power_goes_promises_hold_and_commits_are_whole(tmp_path: Path, mode: CutMode):
    with Disk() as disk:
        recording = await record(tmp_path / "x.db", disk)
        assert len(recording.states) > 15, "groups of many sizes"
        assert len(recording.promises) == 42
        assert any(op.kind == "write" and op.path.endswith("x.db") for op in disk.log[recording.began :])
        loss = cut_everywhere(disk, recording, mode, tmp_path / "cut")
    assert loss.cuts == len(disk.log) > 300
    assert (loss.broken, loss.illegal) == ([], [])


async def test_without_syncs_promises_break(tmp_path: Path):
    """Proves that the test above can fail: the same scenario, and only the syncs are missing."""
    with Disk() as disk:
        recording = await record(tmp_path / "x.db", disk, "OFF")
        platter, loss = Platter(disk.log), Loss()
        loss.judge(recording, len(disk.log), found_in(lay_out(platter.cut("drop", Random(0)), tmp_path / "cut")))
    assert (loss.cuts, len(loss.broken)) == (1, len(recording.promises))


async def test_what_a_cut_left_is_taken_up_and_finished(tmp_path: Path):
    with Disk() as disk:
        recording = await record(tmp_path / "x.db", disk)
        for number, instant in enumerate(sorted({at for at, _, _ in recording.promises})):
            where = disk.power_cut(tmp_path / str(number), MODES[number % 3], Random(instant), at=instant)
            await goes_on(where / "x.db", open_database(where / "x.db", synchronous="OFF"))
            found_in(where)


# ── the disk refuses ────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Patient:
    """Tries again as the house does; after the refusal looks whether really nothing of it has happened."""

    disk: Disk
    recording: Recording
    where: Path
    commits: int = 0
    since: int = 0
    refusals: list[str] = field(default_factory=list[str])

    def committed(self, db: apsw.Connection) -> None:
        if self.disk.failed:
            self.since += 1
        else:
            self.commits += 1

    async def attempt(self, db: apsw.Connection, commit: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await commit()
            except StoreFailed as error:
                self.disk.heal()
                if not self.refusals and not self.since:  # nobody else has committed in the meantime
                    self._nothing_happened(state_of(db))
                self.refusals.append(str(error))

    def _nothing_happened(self, now: State) -> None:
        """Up to the refusal all went as recorded: this is the state before it, and a cut may add it whole."""
        before, after = [*self.recording.states, {}][self.commits - 1 : self.commits + 1]
        unchanged = now == before
        assert unchanged, "a refused commit has left something"
        for mode in MODES:
            cut = self.disk.power_cut(wipe(self.where / mode), mode, Random(self.disk.position))
            whole = found_in(cut) in (before, after)
            assert whole, mode


def contents(state: State) -> list[Any]:
    """What people would see of it: the order of rows between sessions may differ after a refusal."""
    sessions = {row[0]: row[1] for row in state["session"]}
    messages = [(sessions[row[1]], row[2], row[3]) for row in sorted(state["message"])]
    messages.sort(key=lambda message: message[0])  # stable: within a session they stay in the order of their numbers
    inbound = sorted((sessions[row[3]], row[4], row[5], row[7], row[9]) for row in state["inbound"])
    return [messages, inbound, sorted(row[1] for row in state["unit"]), state["event"]]


async def one_refusal(where: Path, n: int, error: DiskError, recording: Recording) -> bool:
    """The n-th operation fails. True if somebody noticed; a checkpoint that fails is nobody's loss."""
    path = wipe(where) / "x.db"
    with Disk() as disk:
        disk.fail(at=n, error=error)
        patient = Patient(disk, recording, where)
        try:
            db = open_fixed(path, disk.name, committed=patient.committed)
            store = open_again(path, db)
        except (SessionError, apsw.Error):
            assert disk.failed, "refused without a reason"
            disk.heal()
            found_in(where)
            return True
        life = Life(store, lambda promise: None, lambda commit: patient.attempt(db, commit))
        await life.run()
        last = state_of(db)
        complete = contents(last) == contents(recording.states[-1])
        assert complete, n
        assert all(promise.holds(last) for promise in life.promises), n
        cut = found_in(disk.power_cut(where / "end", MODES[n % 3], Random(n)))
        unharmed = cut == last
        assert unharmed, f"everything was acknowledged, so a cut takes nothing: {n}"
        with suppress(apsw.Error):  # the checkpoint while closing; SQLite keeps its failure to itself
            await store.close()
        assert len(disk.failed) == 1, n
        unharmed = found_in(where) == last
        assert unharmed, n
        return bool(patient.refusals)


# A failure that SQLite keeps to itself (a checkpoint while closing) still leaves the file layer's exception behind.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("error", "half"),
    [
        pytest.param("io", 0, marks=pytest.mark.soak),
        ("full", 1),
        pytest.param("io", 1, marks=pytest.mark.soak),
        pytest.param("full", 0, marks=pytest.mark.soak),
    ],
)
async def test_whichever_operation_fails_the_caller_knows_and_the_rest_goes_on(
    tmp_path: Path, error: DiskError, half: int
):
    with Disk("finclaw-count") as counting:
        recording = await record(wipe(tmp_path / "count") / "x.db", counting)
        total = counting.count
    noticed = 0
    for n in range(1 + half, total + 1, 2):
        noticed += await one_refusal(tmp_path / str(n), n, error, recording)
    assert noticed > total // 4


async def test_a_disk_that_stays_full_refuses_everybody_and_forgets_nobody(tmp_path: Path):
    with Disk() as disk:
        db = open_fixed(tmp_path / "x.db", disk.name)
        store = open_again(tmp_path / "x.db", db)
        before = state_of(db)
        disk.fail(error="full", ops=("write",), forever=True)
        many = [written(id=str(number)) for number in range(20)]
        refused = await asyncio.gather(*(take(store, each) for each in many), return_exceptions=True)
        assert {type(each) for each in refused} == {StoreFailed}
        assert all("is full; free some space" in str(each) for each in refused)
        untouched = state_of(db) == before
        assert untouched
        disk.heal()
        await asyncio.gather(*(take(store, each) for each in many))
        assert len(await store.unfinished()) == 20
        await store.close()
