"""The process dies, the power goes or the disk refuses at every call that the file store makes to the kernel.

What was promised is there, nothing is there twice or in part, and it is what the database alone would have kept.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.ports.nouns import adds, begin, ending, nothing, said, take, written
from tests.storage.lives import Story, Wish, live, lives, work_out
from tests.storage.rigged import Fault, RiggedFiles

from finclaw.clock import SystemClock
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import StoreFailed
from finclaw.kernel.message import Message
from finclaw.kernel.store_port import Store
from finclaw.storage.jsonl.store import JsonlStore, open_jsonl_store
from finclaw.storage.sqlite.database import open_database
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock, SimulatedCrash

T = TypeVar("T")

DEATHS: Final[tuple[Fault, ...]] = ("kill", "drop", "torn")

RICH: Final[list[tuple[str, list[list[Wish]]]]] = [
    ("finish", [[("append", 1)], [("tool", 0), ("append", 9)], [("own", 0)]]),
    ("finish", [[("append", 0)], [("replace", 0), ("patch", 1)]]),
    ("end", [[("append", 0)], [("append", 0)], []]),
    ("finish", [[("passing", 0)], [("append", 3), ("truncate", 4)]]),
    ("reset", [[], [("append", 0)]]),
    ("finish", [[("append", 2)], [("own", 0), ("remove", 0)]]),
    ("finish", [[("append", 2)]]),
]
"""A life that meets every way through the files."""


def open_rigged(where: Path, files: RiggedFiles) -> JsonlStore:
    database = open_database(where / "x.db", synchronous="OFF")  # that commits last is proved elsewhere
    emit = EventStream().emit
    return open_jsonl_store(where, where / "x.db", SystemClock(), emit, threaded=False, database=database, files=files)


def rigged(where: Path, fault: Fault | None = None, at: int = 0, lasts: int = 1) -> RiggedFiles:
    return RiggedFiles(where / "sessions", fault, at, lasts)


async def told(store: Store, story: Story) -> list[tuple[Message, ...]]:
    """The conversation after each turn."""
    found: list[tuple[Message, ...]] = []
    for turn in story.turns:
        await live(store, turn)
        found.append(tuple(await store.messages("s")))
    return found


async def survives(where: Path, story: Story, fault: Fault, at: int) -> bool:
    """Live it, die at that call, and go on from what is left. False: there were not so many calls."""
    files = rigged(where, fault, at)
    store = open_rigged(where, files)
    died = False
    for number, turn in enumerate(story.turns):
        try:
            await live(store, turn)
        except SimulatedCrash:
            died = True
            await store.close()
            files.take_the_power(Random(at))
            store = open_rigged(where, rigged(where))
            await live(store, turn)
        assert tuple(await store.messages("s")) == story.after[number], f"after turn {number}, {fault} at {at}"
    await store.close()
    await clean(where, story)
    return died


async def clean(where: Path, story: Story) -> None:
    """Looked at once more, the files say the same, and no log of a turn that has ended is left."""
    store = open_rigged(where, rigged(where))
    assert tuple(await store.messages("s")) == story.after[-1]
    await store.close()
    assert logs_left(where) == [b""]


def logs_left(where: Path) -> list[bytes]:
    return [path.read_bytes() for path in where.rglob("events.jsonl")]


@pytest.mark.spec("DX-60", "CS-10", "CS-11")
@pytest.mark.parametrize("fault", ["torn", "drop", pytest.param("kill", marks=pytest.mark.soak)])  # the mildest
async def test_dying_at_every_call_changes_nothing(tmp_path: Path, fault: Fault):
    story, at = work_out(RICH), 1
    while await survives(fresh(tmp_path, at), story, fault, at):
        at += 1
    assert at > 80, "the life meets every way through the files"


@pytest.mark.spec("DX-60")
@pytest.mark.parametrize(
    "first",
    [40, 64, 88, *(pytest.param(at, marks=pytest.mark.soak) for at in range(46, 100, 6) if at not in (64, 88))],
)
async def test_dying_again_while_the_last_death_is_mended(tmp_path: Path, first: int):
    """Two deaths: the second at every call that follows the first, among them those of the recovery."""
    story = work_out(RICH)
    for second in range(1, 12):
        await dies_twice(fresh(tmp_path, second), story, first, second)


async def dies_twice(where: Path, story: Story, first: int, second: int) -> None:
    plans = [rigged(where, "drop", first)]
    store = open_rigged(where, plans[0])
    for number, turn in enumerate(story.turns):
        for _ in range(3):
            try:
                await live(store, turn)
                break
            except SimulatedCrash:
                await store.close()
                plans[-1].take_the_power(Random(first))
                plans.append(rigged(where, "torn", second) if len(plans) == 1 else rigged(where))
                store = open_rigged(where, plans[-1])
        while True:
            try:
                assert tuple(await store.messages("s")) == story.after[number], (number, first, second)
                break
            except SimulatedCrash:
                await store.close()
                plans[-1].take_the_power(Random(first))
                plans.append(rigged(where))
                store = open_rigged(where, plans[-1])
    await store.close()
    await clean(where, story)


@pytest.mark.parametrize(
    ("fault", "lasts"),
    [
        ("full", 1),
        pytest.param("io", 1, marks=pytest.mark.soak),
        ("io", 2),
        pytest.param("full", 5, marks=pytest.mark.soak),
    ],
)
async def test_a_refusal_at_every_call_is_told_and_can_be_tried_again(tmp_path: Path, fault: Fault, lasts: int):
    story, at, refused = work_out(RICH), 1, True
    while refused:
        refused = await goes_on(fresh(tmp_path, at), story, rigged(tmp_path / str(at), fault, at, lasts), at)
        at += 1
    assert at > 80


async def goes_on(where: Path, story: Story, files: RiggedFiles, at: int) -> bool:
    store = open_rigged(where, files)
    for number, turn in enumerate(story.turns):
        await retry_until_committed(lambda: live(store, turn))  # noqa: B023
        assert tuple(await retry_until_committed(lambda: store.messages("s"))) == story.after[number], (number, at)
    await store.close()
    await clean(where, story)
    return files.calls >= at


async def retry_until_committed(work: Callable[[], Awaitable[T]]) -> T:
    """As the gateway does: what was refused is tried again."""
    while True:
        try:
            return await work()
        except StoreFailed as refusal:
            told = str(refusal)
        assert "full" in told or "refused" in told


@pytest.mark.parametrize("fault", DEATHS)
async def test_a_copy_is_there_as_a_whole_or_not_at_all(tmp_path: Path, fault: Fault):
    messages = tuple(said(f"m{number}", "word " * 50) for number in range(20))
    found: set[int] = set()
    at = 1
    while await copied_halfway(fresh(tmp_path, at), messages, fault, at, found):
        at += 1
    assert at > 15
    assert found == {0, 20}, "before the commit there is nothing, and behind it there is all"


async def copied_halfway(where: Path, messages: tuple[Message, ...], fault: Fault, at: int, found: set[int]) -> bool:
    files = rigged(where, fault, at)
    store = open_rigged(where, files)
    try:
        await store.restore("s", messages)
        return False
    except SimulatedCrash:
        await store.close()
        files.take_the_power(Random(at))
    store = open_rigged(where, rigged(where))
    there = len(await store.messages("s"))
    found.add(there)
    if not there:
        await store.restore("s", messages)
    assert tuple(await store.messages("s")) == messages
    await store.close()
    return True


async def test_what_was_refused_is_not_found_behind_what_came_instead(tmp_path: Path):
    """The sync fails, and so does taking the lines off again; then something shorter takes their place."""
    files = rigged(tmp_path)
    store = open_rigged(tmp_path, files)
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    files.plan("io", after=2, lasts=2)
    with pytest.raises(StoreFailed, match="refused"):
        await store.record(claim, 1, adds("a", "b", "c", "d"), nothing)
    assert len(logs_left(tmp_path)[0].splitlines()) == 5, "they are on disk, and believed by nobody"
    await store.record(claim, 1, adds("x"), nothing)
    await store.close()
    store = open_rigged(tmp_path, rigged(tmp_path))
    assert (await begin(store, accepted)).events == (*claim.events, *adds("x"))
    await store.close()


async def test_what_was_refused_is_no_part_of_what_others_see(tmp_path: Path):
    """As above, and then another turn is claimed, whose look at the files must not believe them either."""
    files = rigged(tmp_path)
    store = open_rigged(tmp_path, files)
    accepted, other = [await take(store, written(id=id)) for id in ("1", "2")]
    claim = await begin(store, accepted)
    files.plan("io", after=2, lasts=2)
    with pytest.raises(StoreFailed):
        await store.finish(ending(store, accepted, claim, events=adds("never")), nothing)
    await begin(store, other)
    assert await store.finish(ending(store, accepted, claim, events=adds("a")), nothing)
    assert [message.id for message in await store.messages("s")] == ["q-1", "a"]
    await store.close()


def fresh(place: Path, number: int) -> Path:
    where = place / str(number)
    where.mkdir()
    return where


@pytest.mark.spec("CS-01", "CS-05", "CS-10", "CS-13", "DX-61")
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(life=lives)
def test_files_and_rows_keep_the_same(life: list[tuple[str, list[list[Wish]]]]):
    story = work_out(life)

    async def compare(where: Path) -> None:
        rows = open_store(
            where / "rows.db", FakeClock(), threaded=False, database=open_database(where / "rows.db", synchronous="OFF")
        )
        files = open_rigged(where, rigged(where))
        assert await told(rows, story) == await told(files, story) == story.after
        await rows.close()
        await files.close()

    with tempfile.TemporaryDirectory() as where:
        asyncio.run(compare(Path(where)))


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow])
@given(life=lives, fault=st.sampled_from(DEATHS), at=st.integers(1, 90))
def test_any_life_survives_any_death(life: list[tuple[str, list[list[Wish]]]], fault: Fault, at: int):
    with tempfile.TemporaryDirectory() as where:
        asyncio.run(survives(Path(where), work_out(life), fault, at))
