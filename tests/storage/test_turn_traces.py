"""A turn told afterwards from the database: what is left of it, and never anybody else's messages."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ports.nouns import adds, answer, begin, ending, nothing, said, take, tool_answer, tool_step, written

from finclaw.kernel.message import Append, Patch, Remove, Replace, Truncate, TurnEvent
from finclaw.kernel.record import TurnTrace
from finclaw.kernel.store_port import Store
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    store = open_store(tmp_path / "x.db", FakeClock(), threaded=False)
    yield store
    await store.close()


async def told(store: Store, turn_id: str) -> TurnTrace:
    story = await store.turn(turn_id)
    assert story is not None
    return story


async def turn(store: Store, id: str, *events: TurnEvent, session: str = "s") -> str:
    """A whole turn; its id."""
    accepted = await take(store, written(id=id), session)
    claim = await begin(store, accepted)
    assert await store.finish(ending(store, accepted, claim, "ok", events=events), nothing)
    return claim.turn_id


async def test_a_log_so_far_is_read_as_it_would_be_folded(store: Store):
    claim = await begin(store, await take(store, written()))
    await store.record(claim, 1, [*tool_step("c"), *tool_answer("c")], nothing)
    later: list[TurnEvent] = [
        Append(said("extra")),
        Replace("extra", said("other", "changed")),
        Patch("other", {"pinned": True}),
        Append(said("gone")),
        Remove("gone"),
        Remove("nobody"),
    ]
    await store.record(claim, 5, later, nothing)
    story = await told(store, claim.turn_id)
    assert [message.id for message in story.messages] == ["q-1", "ask-c", "told-c", "other"]
    assert (story.messages[-1].text, story.messages[-1].metadata) == ("changed", {"pinned": True})
    assert story.whole


async def test_numbers_that_are_given_out_again_do_not_mix_two_turns(store: Store):
    first = await turn(store, "1", *adds("a-1"))
    second = await turn(store, "2", *adds("a-2"))
    await store.reset("s")
    third = await turn(store, "3", *adds("a-3"))
    for lost in (first, second):
        story = await told(store, lost)
        assert (story.before, story.messages, story.whole) == ((), (), False)
    story = await told(store, third)
    assert [message.id for message in story.messages] == ["q-3", "a-3"]
    assert (story.before, story.whole) == ((), True)


async def test_a_turn_that_forgot_everything_is_not_whole(store: Store):
    await turn(store, "1", *adds("a-1"))
    second = await turn(store, "2", Truncate(0), *adds("a-2"))
    story = await told(store, second)
    assert not story.whole
    assert "a-1" not in [message.id for message in story.messages]


async def test_a_turn_that_took_back_a_message_of_its_own_is_not_whole(store: Store):
    only = await turn(store, "1", *adds("x", "a-1"), Remove("x"))
    story = await told(store, only)
    assert [message.id for message in story.messages] == ["q-1", "a-1"]
    assert not story.whole


async def test_another_session_changes_nothing(store: Store):
    mine = await turn(store, "1", *adds("a-1"))
    await turn(store, "2", *adds("b"), session="t")
    await store.reset("t")
    assert (await told(store, mine)).whole


async def test_ids_that_are_none(store: Store):
    accepted = await take(store, written())
    await answer(store, accepted)
    for name in (
        "",
        "t-",
        "nonsense",
        f"u{accepted.id[1:]}-0",
        f"x{accepted.id[1:]}",
        accepted.id + "-0",
        "t-00000000-1",
    ):
        assert await store.turn(name) is None, name


ACTIONS = st.sampled_from(["append", "remove", "truncate 0", "truncate 2", "reset"])


def acted(action: str, new: str, left: list[str]) -> tuple[list[TurnEvent], list[str]]:
    """The event, and which messages are left in the conversation after it."""
    match action:
        case "append":
            return adds(new), [*left, new]
        case "remove":
            return [Remove(left[-1])] if left else [], left[:-1]
        case "truncate 0" | "truncate 2":
            keep = int(action[-1])
            return [Truncate(keep)], left[-keep:] if keep else []
        case _:
            return [], left


@given(st.lists(st.lists(ACTIONS, max_size=4), min_size=1, max_size=5))
def test_a_whole_story_is_all_that_the_turn_left_and_nobody_elses(turns: list[list[str]]):
    """Whatever happens before and behind a turn: what is told is its own, and `whole` is never said of less."""
    with TemporaryDirectory() as place:
        asyncio.run(tell_all(Path(place) / "x.db", turns))


async def tell_all(path: Path, turns: list[list[str]]) -> None:
    store = open_store(path, FakeClock(), threaded=False)
    try:
        left: list[str] = []
        added: dict[str, list[str]] = {}
        for number, actions in enumerate(turns):
            left = [*left, f"q-{number}"]
            events: list[TurnEvent] = []
            for place, action in enumerate(actions):
                more, left = acted(action, f"{number}.{place}", left)
                events += more
            mine = [id for id in left if id == f"q-{number}" or id.startswith(f"{number}.")]
            added[await turn(store, str(number), *events)] = mine
            if "reset" in actions:
                await store.reset("s")
                left = []
        for turn_id, mine in added.items():
            story = await told(store, turn_id)
            seen = [message.id for message in story.messages]
            assert set(seen) <= set(mine)
            assert not story.whole or seen == mine
            assert not {message.id for message in story.before} & set(mine)
    finally:
        await store.close()
