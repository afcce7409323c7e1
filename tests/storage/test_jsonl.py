"""Conversations as plain files: where they are, that a turn only appends, and what becomes of them in strange hands."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.machine import examples
from tests.ports.nouns import (
    Told,
    adds,
    answer,
    begin,
    ended,
    ending,
    nothing,
    said,
    take,
    tool_answer,
    tool_step,
    written,
)

from finclaw.clock import SystemClock
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings, StorageSettings
from finclaw.errors import ConfigError, StoreFailed, Superseded
from finclaw.kernel.event import Event, LockAcquired, SessionRepaired
from finclaw.kernel.message import Patch, Remove, Replace, Truncate, TurnEvent
from finclaw.kernel.record import Accepted
from finclaw.storage.jsonl.directory import list_directories, session_directory
from finclaw.storage.jsonl.store import JsonlStore, open_jsonl_store
from finclaw.storage.jsonl.transcript import group, write_lines
from finclaw.storage.kinds import open_kind
from finclaw.testing import FakeClock, SimulatedCrash, crash_at
from finclaw.transcript.integrity import mend

FOLD_POINTS = ("fold:before_append", "fold:after_append", "fold:after_clear")


class BenchClock(FakeClock):
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Bench:
    where: Path
    clock: BenchClock = field(default_factory=BenchClock)
    events: list[Event] = field(default_factory=list[Event])

    def __post_init__(self) -> None:
        self.store = self._open()

    def _open(self) -> JsonlStore:
        return open_jsonl_store(self.where, self.where / "finclaw.db", self.clock, self.events.append, threaded=False)

    async def reopen(self) -> JsonlStore:
        await self.store.close()
        self.store = self._open()
        return self.store

    def directory(self, session: str = "s") -> Path:
        return session_directory(self.where / "sessions", session)

    @property
    def base(self) -> Path:
        return self.directory() / "messages" / "base.jsonl"

    @property
    def log(self) -> Path:
        return self.directory() / "messages" / "events.jsonl"

    @property
    def repairs(self) -> list[SessionRepaired]:
        return [event for event in self.events if isinstance(event, SessionRepaired)]

    async def ids(self, session: str = "s") -> list[str]:
        return [message.id for message in await self.store.messages(session)]

    async def turn(self, id: str, *events: TurnEvent) -> None:
        accepted = await take(self.store, written(id=id))
        claim = await begin(self.store, accepted)
        reply = [*adds(f"a-{id}", role="assistant"), *events]
        assert await self.store.finish(ending(self.store, accepted, claim, "ok", events=reply), nothing)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.store.close()


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# ── where they are ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CS-11", "CS-10")
async def test_the_layout(bench: Bench):
    accepted = await take(bench.store, written(id="1"), "main:web:local:direct:ada")
    claim = await begin(bench.store, accepted)
    directory = bench.directory("main:web:local:direct:ada")
    base, log = directory / "messages" / "base.jsonl", directory / "messages" / "events.jsonl"
    assert directory.parent == bench.where / "sessions"
    assert directory.name.startswith("main-web-local-direct-ada-")
    assert json.loads((directory / "session.json").read_text())["key"] == "main:web:local:direct:ada"
    assert [line["turn"] for line in lines(log)] == [claim.turn_id]
    assert base.read_bytes() == b""
    assert await bench.store.finish(ending(bench.store, accepted, claim, "ok", events=adds("a")), nothing)
    assert log.read_bytes() == b""
    assert [line["type"] for line in lines(base)] == ["message", "message", "folded"]
    assert {path.stat().st_mode & 0o077 for path in directory.rglob("*")} == {0}


HOSTILE = ["../../etc/passwd", "/", ".", "", "a" * 5_000, "\0", "가나다", "con:prn\\nul", "s\n"]


@pytest.mark.parametrize("key", HOSTILE, ids=range(len(HOSTILE)))
async def test_any_key_has_a_directory_of_its_own(bench: Bench, key: str):
    await answer(bench.store, await take(bench.store, written(id="1"), key))
    await answer(bench.store, await take(bench.store, written(id="2"), key + "x"))
    assert await bench.ids(key) == ["q-1", "a-1"]
    inside = [path for path in bench.where.rglob("*") if path.name == "base.jsonl"]
    assert len(inside) == 2
    assert all(path.parent.parent.parent == bench.where / "sessions" for path in inside)


async def test_a_question_about_nobody_leaves_nothing_behind(bench: Bench):
    assert await bench.store.messages("nobody") == ()
    await bench.store.reset("nobody")
    assert await bench.store.repair("nobody") == ()
    assert not (bench.where / "sessions").exists()


# ── a turn appends ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CS-10", "DX-60")
async def test_an_ordinary_turn_only_appends(bench: Bench):
    """Also one that has the last word on its own answer, and one that aims at nobody."""
    extras: list[list[TurnEvent]] = [
        [],
        [Replace("a-1", said("a-1", "what was seen", role="assistant"))],
        [Patch("a-2", {"pinned": True}), Remove("q-2")],
        [Remove("nobody"), Truncate(100)],
    ]
    await bench.turn("first")
    before, inode = bench.base.read_bytes(), bench.base.stat().st_ino
    for number, extra in enumerate(extras):
        await bench.turn(str(number), *extra)
        now = bench.base.read_bytes()
        assert now.startswith(before)
        assert len(now) > len(before)
        assert bench.base.stat().st_ino == inode
        before = now
    assert await bench.ids() == ["q-first", "a-first", "q-0", "a-0", "q-1", "a-1", "a-2", "q-3", "a-3"]


@pytest.mark.parametrize(
    "event", [Truncate(2), Remove("a-1"), Patch("q-1", {"x": 1}), Replace("q-1", said("q-1", "y"))]
)
async def test_a_change_of_the_past_makes_a_new_file(bench: Bench, event: TurnEvent):
    await bench.turn("1")
    with bench.base.open("rb") as old:  # held open, so that its number cannot be given to the new one
        await bench.turn("2", event)
        assert bench.base.stat().st_ino != old.fileno()
        old.seek(0)
        assert b'"q-1"' in old.read(), "the old file is as it was"
    assert sorted(path.name for path in bench.base.parent.iterdir()) == ["base.jsonl", "events.jsonl"]
    assert len([line for line in lines(bench.base) if line["type"] == "folded"]) == 1


async def test_a_long_past_is_not_read_for_an_ordinary_turn(bench: Bench):
    """Whoever knows the conversation already is not made to wait for it."""
    await bench.turn("1")
    store = await bench.reopen()
    damaged = bench.base.read_bytes().replace(b"q-1", b"q!1", 1)
    bench.base.write_bytes(damaged)
    accepted = await take(store, written(id="2"))
    claim = await begin(store, accepted, known=1)
    assert claim.base is None
    assert await store.finish(ending(store, accepted, claim), nothing)
    assert bench.base.read_bytes().startswith(damaged), "nobody looked, so nobody mended"


# ── dying ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-60")
@pytest.mark.parametrize("change", [None, Remove("a-1")], ids=["append", "rewrite"])
@pytest.mark.parametrize("point", FOLD_POINTS)
async def test_dying_around_the_fold(bench: Bench, point: str, change: TurnEvent | None):
    await bench.turn("1")
    with crash_at(point), pytest.raises(SimulatedCrash):
        await bench.turn("2", *([change] if change else []))
    store = await bench.reopen()
    assert await store.unfinished() == []
    assert await bench.ids() == (["q-1", "q-2", "a-2"] if change else ["q-1", "a-1", "q-2", "a-2"])
    assert bench.log.read_bytes() == b""
    assert bench.repairs == []


async def test_what_came_with_an_end_that_was_not_committed_does_not_count(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    await bench.store.close()
    bench.log.write_bytes(bench.log.read_bytes() + write_lines(group(claim.turn_id, 1, adds("a"), ending=True)))
    store = await bench.reopen()
    again = await begin(store, accepted)
    assert again.events == claim.events
    assert await store.finish(ending(store, accepted, again, events=adds("b")), nothing)
    assert await bench.ids() == ["q-1", "b"]


async def test_lines_of_a_turn_that_never_began_are_nobodys(bench: Bench):
    await bench.turn("1")
    accepted = await take(bench.store, written(id="2"))
    await bench.store.close()
    bench.log.write_bytes(write_lines(group(accepted.id.replace("m-", "t-"), 0, adds("never"))))
    store = await bench.reopen()
    assert await bench.ids() == ["q-1", "a-1"]
    claim = await store.claim(accepted, adds("other"), None)
    assert (claim.events, claim.attempt) == (tuple(adds("other")), 1)


async def test_a_commit_that_failed_leaves_no_line(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    before = bench.log.read_bytes()
    await bench.store.reset("s")
    with pytest.raises(Superseded):
        await bench.store.record(claim, 1, tool_step("c"), nothing)
    with pytest.raises(Superseded):
        await bench.store.finish(ending(bench.store, accepted, claim, events=adds("late")), nothing)
    assert bench.log.read_bytes() == before
    assert (await begin(bench.store, accepted)).events == claim.events


async def test_an_end_without_a_fold_leaves_no_log(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    await bench.store.record(claim, 1, tool_step("c"), nothing)
    assert await bench.store.end(accepted.id, ended("stopped"), (), nothing)
    assert bench.log.read_bytes() == b""


async def test_two_turns_of_one_session_share_the_log(bench: Bench):
    first, second = [await take(bench.store, written(id=id)) for id in ("1", "2")]
    one, two = [await begin(bench.store, each) for each in (first, second)]
    await bench.store.record(one, 1, adds("x"), nothing)
    await bench.store.record(two, 1, adds("y"), nothing)
    assert await bench.store.finish(ending(bench.store, first, one), nothing)
    assert (await begin(await bench.reopen(), second)).events == (*two.events, *adds("y"))
    assert await bench.ids() == ["q-1", "x"]


async def test_a_cancelled_record_is_whole_and_told(tmp_path: Path):
    store = open_jsonl_store(tmp_path, tmp_path / "x.db", SystemClock(), lambda _: None)
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    for seq in range(1, 40, 2):
        told = Told()
        task = asyncio.create_task(store.record(claim, seq, adds(f"x{seq}", f"y{seq}"), told.done))
        for _ in range(seq % 7):
            await asyncio.sleep(0)
        task.cancel()
        began = seq % 7 > 0
        with pytest.raises(asyncio.CancelledError):
            await task
        assert told.times == began
        if not began:
            await store.record(claim, seq, adds(f"x{seq}", f"y{seq}"), nothing)
    assert len((await begin(store, accepted)).events) == 41
    await store.close()


# ── damage ──────────────────────────────────────────────────────────────────────────────────────────────────


async def talk(bench: Bench) -> Sequence[str]:
    await bench.turn("1")
    accepted = await take(bench.store, written(id="2"))
    claim = await begin(bench.store, accepted)
    await bench.store.record(claim, 1, [*tool_step("c"), *tool_answer("c")], nothing)
    assert await bench.store.finish(ending(bench.store, accepted, claim, events=adds("a-2", role="assistant")), nothing)
    return await bench.ids()


@pytest.mark.spec("DX-60", "TR-02", "TR-12")
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_file_is_mended_and_never_fatal(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject):
    async def run() -> None:
        bench = Bench(tmp_path_factory.mktemp("damage"))
        whole = await talk(bench)
        await bench.store.close()
        raw = bytearray(bench.base.read_bytes())
        damage = data.draw(st.sampled_from(("cut", "flip", "hole", "glue", "trash")))
        at = data.draw(st.integers(0, len(raw) - 1))
        bench.base.write_bytes(_damaged(raw, damage, at))
        bench.store = bench._open()  # pyright: ignore[reportPrivateUsage]
        found = await bench.store.messages("s")
        known = [message.id for message in found if message.id in whole]
        assert known == [id for id in whole if id in known], "in the order in which they were said"
        assert mend(found).messages == tuple(found), "every call has its result"
        if not bench.repairs:
            assert [message.id for message in found] == list(whole), "what is missing is reported"
        await bench.turn("3")
        assert (await bench.ids())[-2:] == ["q-3", "a-3"]
        again = await bench.ids()
        assert again == [message.id for message in await (await bench.reopen()).messages("s")]
        await bench.store.close()

    asyncio.run(run())


def _damaged(raw: bytearray, damage: str, at: int) -> bytes:
    match damage:
        case "cut":
            return bytes(raw[:at])
        case "flip":
            raw[at] ^= 0x11
        case "hole":
            raw[at : at + 64] = bytes(len(raw[at : at + 64]))
        case "glue":
            place = raw.find(b"\n", at)
            del raw[place : place + 1]
        case _:
            raw[at:at] = b"}}\n\xff\xfe{not json\n"
    return bytes(raw)


async def test_what_was_damaged_is_kept_beside_it_and_told_with_its_place(
    bench: Bench, caplog: pytest.LogCaptureFixture
):
    whole = await talk(bench)
    raw = bench.base.read_bytes().replace(b'"a-1"', b'"a?1"', 1)
    bench.base.write_bytes(raw)
    store = await bench.reopen()
    assert [message.id for message in await store.messages("s")] == [id for id in whole if id != "a-1"]
    (backup,) = bench.base.parent.glob("base.jsonl.bak-*")
    assert backup.read_bytes() == raw
    (told,) = bench.repairs
    assert told.session == "s"
    assert str(bench.base) in caplog.text
    assert "line 2 (byte" in caplog.text
    assert await store.messages("s")
    assert len(bench.repairs) == 1, "mended once"


async def test_a_file_of_which_nothing_can_be_read_is_put_away(bench: Bench):
    await talk(bench)
    bench.base.write_bytes(b"\xff\xfe\n" * 50)
    store = await bench.reopen()
    assert await store.messages("s") == ()
    assert list(bench.base.parent.glob("base.jsonl.*"))
    await bench.turn("3")
    assert await bench.ids() == ["q-3", "a-3"]


async def test_a_line_that_a_person_wrote_is_kept(bench: Bench):
    await bench.turn("1")
    mine = '{"type":"message","turn":"","message":{"id":"mine","role":"user","blocks":[{"type":"text","text":"hi"}],'
    mine += '"source":{"kind":"user"},"created_at":"2026-01-01T00:00:00Z"}}'
    bench.base.write_text(bench.base.read_text() + mine)
    await bench.reopen()
    assert await bench.ids() == ["q-1", "a-1", "mine"]
    await bench.turn("2")
    assert await bench.ids() == ["q-1", "a-1", "mine", "q-2", "a-2"]


async def test_files_that_were_deleted_or_put_back_are_taken_as_they_are(bench: Bench):
    await bench.turn("1")
    copy = bench.base.read_bytes()
    await bench.turn("2")
    await bench.store.close()
    bench.base.write_bytes(copy)
    bench.store = bench._open()  # pyright: ignore[reportPrivateUsage]
    assert await bench.ids() == ["q-1", "a-1"]
    await bench.turn("3")
    assert await bench.ids() == ["q-1", "a-1", "q-3", "a-3"]
    await bench.store.close()
    shutil.rmtree(bench.base.parent)
    bench.store = bench._open()  # pyright: ignore[reportPrivateUsage]
    assert await bench.ids() == []
    await bench.turn("4")
    assert await bench.ids() == ["q-4", "a-4"]


async def test_a_damaged_log_is_good_up_to_the_damage_and_forgets_no_start(bench: Bench):
    """A result without its call is no good to a model; that a tool may have run must not be forgotten."""
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    await bench.store.record(claim, 1, tool_step("c"), nothing)
    await bench.store.record(claim, 3, tool_answer("c"), nothing)
    raw = bench.log.read_bytes()
    bench.log.write_bytes(raw.replace(b"ask-c", b"ask?c", 1))
    again = await begin(await bench.reopen(), accepted)
    assert again.events == (*claim.events, tool_step("c")[1])
    assert len(bench.repairs) == 1
    assert [path.read_bytes() for path in bench.log.parent.glob("events.jsonl.bak-*")] == [
        raw.replace(b"ask-c", b"ask?c", 1)
    ]
    assert await bench.store.finish(ending(bench.store, accepted, again), nothing)
    assert await bench.ids() == ["q-1"]


async def test_a_log_damaged_before_its_fold_gives_a_whole_conversation(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    await bench.store.record(claim, 1, [*tool_step("c"), *tool_answer("c")], nothing)
    with crash_at("fold:before_append"), pytest.raises(SimulatedCrash):
        await bench.store.finish(ending(bench.store, accepted, claim, events=adds("a")), nothing)
    bench.log.write_bytes(bench.log.read_bytes().replace(b"ask-c", b"ask?c", 1))
    found = await (await bench.reopen()).messages("s")
    assert mend(found).messages == tuple(found)
    assert {"q-1", "a"} < {message.id for message in found}
    assert bench.repairs


@pytest.mark.parametrize("kept", range(8))
async def test_a_base_cut_between_two_lines_gives_a_whole_conversation(bench: Bench, kept: int):
    await talk(bench)
    bench.base.write_bytes(b"".join(bench.base.read_bytes().splitlines(keepends=True)[:kept]))
    found = await (await bench.reopen()).messages("s")
    assert mend(found).messages == tuple(found)
    assert len(found) >= min(kept, 2)
    assert bench.repairs


async def test_a_log_cut_under_us_is_told_and_read_again(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    await bench.store.record(claim, 1, tool_step("c"), nothing)
    bench.log.write_bytes(b"")
    with pytest.raises(StoreFailed, match="became shorter"):
        await bench.store.record(claim, 3, tool_answer("c"), nothing)
    assert (await begin(bench.store, accepted)).events == tuple(adds("q-1"))


async def test_a_directory_taken_away_under_us_is_told_and_made_again(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    shutil.rmtree(bench.directory())
    with pytest.raises(StoreFailed, match="taken away"):
        await bench.store.record(claim, 1, tool_step("c"), nothing)
    assert (await begin(bench.store, accepted)).events == tuple(adds("q-1"))
    assert bench.log.exists()


async def test_a_place_that_cannot_be_written_is_told(bench: Bench):
    (bench.where / "sessions").write_text("a file where a directory should be")
    accepted = await take(bench.store, written())
    with pytest.raises(StoreFailed):
        await begin(bench.store, accepted)
    (bench.where / "sessions").unlink()
    assert (await begin(bench.store, accepted)).attempt == 1


# ── sessions that go ────────────────────────────────────────────────────────────────────────────────────────


async def idle_session(bench: Bench) -> Accepted:
    await bench.turn("1")
    bench.clock.advance(timedelta(days=400).total_seconds())
    return await take(bench.store, written(id="newest"), "other")


async def test_a_pruned_session_takes_its_directory_along(bench: Bench):
    await idle_session(bench)
    assert bench.directory().is_dir()
    for unit in await bench.store.pending():
        await bench.store.settle(replace(unit, state="sent", platform_id="p"))
    dry = await bench.store.prune(bench.clock.now() - timedelta(days=100), dry_run=True)
    assert bench.directory().is_dir()
    assert await bench.store.prune(bench.clock.now() - timedelta(days=100)) == dry
    assert dry.sessions == 1
    assert not bench.directory().exists()


async def test_a_namesake_of_old_is_not_continued(bench: Bench):
    """The prune was killed before it got to the files; then somebody wrote there again."""
    await idle_session(bench)
    for unit in await bench.store.pending():
        await bench.store.settle(replace(unit, state="sent", platform_id="p"))
    kept = bench.where / "kept"
    shutil.copytree(bench.directory(), kept)
    await bench.store.prune(bench.clock.now() - timedelta(days=100))
    shutil.copytree(kept, bench.directory())
    await bench.turn("2")
    assert await bench.ids() == ["q-2", "a-2"]
    (old,) = (bench.where / "sessions").glob("*.old-1")
    assert b"q-1" in (old / "messages" / "base.jsonl").read_bytes()


async def test_an_orphan_goes_with_the_next_prune_and_a_strangers_stays(bench: Bench):
    await idle_session(bench)
    sessions = bench.where / "sessions"
    for name, database in (("orphan", None), ("stranger", "00000000")):
        shutil.copytree(bench.directory(), sessions / name)
        about = json.loads((sessions / name / "session.json").read_text())
        about |= {"key": name} | ({"database": database} if database else {})
        (sessions / name / "session.json").write_text(json.dumps(about))
    bench.clock.jump(timedelta(days=3650))
    await bench.store.prune(bench.clock.now() - timedelta(days=100))
    assert not (sessions / "orphan").exists()
    assert (sessions / "stranger").exists()


async def test_the_write_lock_is_held_around_every_write(bench: Bench):
    await bench.turn("1")
    assert {event.session for event in bench.events if isinstance(event, LockAcquired)} == {"s"}
    assert sum(isinstance(event, LockAcquired) for event in bench.events) == 2, "one claim, one finish"


# ── the choice ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("first", "second"), [("sqlite", "jsonl"), ("jsonl", "sqlite")])
async def test_conversations_of_the_other_kind_are_never_hidden(tmp_path: Path, first: str, second: str):
    kinds = {"sqlite": "sqlite", "jsonl": "jsonl"}
    store = open_kind(kinds[first], tmp_path, SystemClock(), lambda _: None)  # pyright: ignore[reportArgumentType]
    await answer(store, await take(store, written()))
    await store.close()
    with pytest.raises(ConfigError, match=f"storage.kind is {second}.*finclaw sessions export.*import"):
        open_kind(kinds[second], tmp_path, SystemClock(), lambda _: None)  # pyright: ignore[reportArgumentType]
    again = open_kind(kinds[first], tmp_path, SystemClock(), lambda _: None)  # pyright: ignore[reportArgumentType]
    assert len(await again.messages("s")) == 2
    await again.close()


async def test_the_setting_chooses(tmp_path: Path):
    async with build(Settings(state=tmp_path, storage=StorageSettings(kind="jsonl"))) as app:
        outcome = await app.handle(written("hello"))
        assert outcome.kind == "answered"
    (directory,) = list_directories(tmp_path / "sessions")
    assert len(lines(directory / "messages" / "base.jsonl")) == 3
