"""What SQLite adds to the store's contract for sessions: old databases, counts, bounded pieces, repair."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.machine import examples
from tests.ports.nouns import adds, answer, begin, ended, ending, nothing, said, take, tool_step, written

from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, Source, ToolCall, Truncate, TurnEvent
from finclaw.storage.sqlite.codec import to_micros
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.storage.sqlite.store import SqliteStore, open_store
from finclaw.storage.upkeep import retention
from finclaw.testing import FakeClock

AT = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_database_of_the_first_schema_is_counted_when_it_is_opened(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "x.db"))
    db.execute(MIGRATIONS[0])
    db.execute("INSERT INTO meta VALUES ('name', 'older'), ('boot', 7)")
    db.execute("INSERT INTO session (id, key, created_at) VALUES (1, 'used', 5), (2, 'empty', 6)")
    for row, at in ((1, 7), (2, 9), (3, 8)):
        db.execute(
            "INSERT INTO inbound (id, name, digest, session, ticket, body, accepted_at, kind) "
            "VALUES (?1, CAST(?1 AS BLOB), x'00', 1, ?1, '{}', ?2, 'answered')",
            (row, at),
        )
    db.execute(
        "INSERT INTO turn (id, session, epoch, status, started_at, ended_at) VALUES (1, 1, 0, 'completed', 7, 8)"
    )
    db.execute("INSERT INTO turn (id, session, epoch, status, started_at) VALUES (2, 1, 0, 'running', 9)")
    db.execute(f"INSERT INTO message VALUES ({1 << 32} + 1, 'a', '{{}}'), ({1 << 32} + 3, 'b', '{{}}')")
    db.execute("PRAGMA user_version = 1")
    db.close()

    async def listed() -> list[tuple[str, int, int, int]]:
        store = open_store(tmp_path / "x.db", FakeClock(), threaded=False)
        page = await store.sessions(10, containing="e")
        await store.close()
        return [(each.key, each.updated_at.microsecond, each.messages, each.turns) for each in page.items]

    assert asyncio.run(listed()) == [("used", 9, 2, 1), ("empty", 6, 0, 0)]


IDS = st.sampled_from(["a", "b", "c", "d"])
MESSAGES = st.builds(said, IDS)
EVENTS = st.one_of(
    st.builds(Append, MESSAGES),
    st.builds(Remove, IDS),
    st.builds(Replace, IDS, MESSAGES),
    st.builds(Truncate, st.integers(-1, 5)),
    st.builds(Patch, IDS, st.just({"x": 1})),
)


@settings(max_examples=examples(50))
@given(st.lists(st.lists(EVENTS, max_size=6) | st.none(), max_size=5))
async def test_the_count_is_that_of_the_messages(
    tmp_path_factory: pytest.TempPathFactory, turns: list[list[TurnEvent] | None]
) -> None:
    store = open_store(tmp_path_factory.mktemp("state") / "x.db", FakeClock(), threaded=False)
    try:
        for number, events in enumerate(turns):
            if events is None:
                await store.reset("s")
                continue
            accepted = await take(store, written(id=str(number)))
            await store.finish(ending(store, accepted, await begin(store, accepted), events=events), nothing)
        page = await store.sessions(1)
        if any(turn is not None for turn in turns):
            assert page.items[0].messages == len(await store.messages("s"))
            assert page.items[0].turns == sum(turn is not None for turn in turns)
    finally:
        await store.close()


# ── prune ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncGenerator[SqliteStore]:
    store = open_store(tmp_path / "x.db", clock, threaded=False)
    yield store
    await store.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_nothing_is_left_of_what_was_removed(tmp_path: Path, store: SqliteStore, clock: FakeClock) -> None:
    for number in range(5):
        accepted = await take(store, written(id=str(number)), f"s{number}")
        claim = await begin(store, accepted)
        await store.record(claim, 1, tool_step("c"), nothing)
        await store.finish(ending(store, accepted, claim), nothing)
        await store.remember("notes", f"s{number}", number)
    clock.advance(400 * 86_400)
    last = await take(store, written(id="last"), "now")
    await store.end(last.id, ended("skipped"), (), nothing)
    await store.prune(clock.now())
    db = apsw.Connection(str(tmp_path / "x.db"))
    left = {
        table: db.execute(f"SELECT count(*) FROM {table}").get
        for table in ("session", "inbound", "outcome", "turn", "event", "message", "unit", "unit_body", "state")
    }
    db.close()
    assert left == dict.fromkeys(left, 0) | {"session": 1, "inbound": 1, "outcome": 1}


async def test_many_are_removed_in_pieces_of_bounded_size(
    store: SqliteStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PIECE", 4)
    monkeypatch.setattr(retention, "MESSAGES", 3)
    for number in range(11):
        await answer(store, await take(store, written(id=str(number)), f"s{number}"))
    for unit in await store.pending():
        await store.settle(replace(unit, state="sent"))
    clock.advance(400 * 86_400)
    await take(store, written(id="now"), "now")
    sizes: list[int] = []
    before = 12
    task = asyncio.create_task(store.prune(clock.now()))
    while not task.done():
        left = (await store.counts()).sessions
        sizes.append(before - left)
        before = left
    assert (await task).sessions == 11
    assert sum(sizes) == 11
    assert max(sizes) == 2, "two messages each: two sessions fill a piece"


async def test_a_clock_that_was_set_back_costs_nobody_their_session(store: SqliteStore, clock: FakeClock) -> None:
    """A message accepted while the prune runs is dated before everything, and its session must stay."""
    accepted = await take(store, written(id="1"), "s")
    await store.end(accepted.id, ended("skipped"), (), nothing)
    clock.advance(400 * 86_400)
    sweep = retention.Sweep(to_micros(clock.now()), store.transcript, dry_run=False)
    await store.commit(sweep.messages)
    clock.jump(-timedelta(days=500))
    late = await take(store, written(id="2"), "t")
    await store.commit(sweep.sessions)
    assert [each.id for each in await store.unfinished()] == [late.id]


# ── repair ──────────────────────────────────────────────────────────────────────────────────────────────────


def asked(id: str, call: str) -> Message:
    return Message(id, "assistant", (ToolCall(call, "quote"),), Source("assistant"), AT)


async def test_a_broken_conversation_is_made_whole_once(store: SqliteStore) -> None:
    broken = [said("1"), asked("2", "lost"), said("3"), said("4")]
    await store.restore("s", broken)
    told = await store.repair("s", dry_run=True)
    assert [each.kind for each in told] == ["missing-tool-result"]
    assert list(await store.messages("s")) == broken
    assert await store.repair("s") == told
    mended = await store.messages("s")
    assert [each.role for each in mended] == ["user", "assistant", "tool", "user", "user"]
    assert await store.repair("s") == ()
    assert await store.messages("s") == mended
    assert (await store.sessions(1)).items[0].messages == 5
    assert await store.repair("nobody") == ()


async def test_a_turn_that_runs_during_a_repair_goes_on_and_its_copy_is_not_trusted_afterwards(
    store: SqliteStore,
) -> None:
    await store.restore("s", [said("1"), asked("2", "lost"), said("3")])
    accepted = await take(store, written(id="new"))
    claim = await begin(store, accepted)
    await store.repair("s")
    assert await store.finish(ending(store, accepted, claim, events=adds("a", role="assistant")), nothing)
    assert [each.id for each in await store.messages("s")][-3:] == ["3", "q-new", "a"]
    after = await begin(store, await take(store, written(id="next")), known=claim.version + 1)
    assert after.base == await store.messages("s")


async def test_a_whole_conversation_is_not_touched(store: SqliteStore) -> None:
    await answer(store, await take(store, written()))
    claim = await begin(store, await take(store, written(id="2")), known=1)
    assert await store.repair("s") == ()
    assert claim.base is None
    assert (await begin(store, (await store.unfinished())[0], known=1)).base is None
