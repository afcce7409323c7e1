"""The StateStore port: what extensions remember, the same in every store."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.ports.bench import OPENERS, BenchClock
from tests.ports.nouns import answer, begin, ended, nothing, take, written

from finclaw.errors import SessionError, Superseded
from finclaw.kernel.context import current_turn
from finclaw.kernel.store_port import Store
from finclaw.storage.sqlite.state import LARGEST

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    store = OPENERS[str(request.param)](tmp_path, BenchClock())
    yield store
    await store.close()


@pytest.mark.spec("EX-03")
async def test_each_extension_and_each_session_has_a_value_of_its_own(store: Store) -> None:
    assert await store.recall("a", "") is None
    await store.remember("a", "", 1)
    await store.remember("a", "s", 2)
    await store.remember("b", "", 3)
    await store.remember("a", "s", {"later": [4]})
    assert [await store.recall(*who) for who in (("a", ""), ("a", "s"), ("b", ""), ("b", "s"))] == [
        1,
        {"later": [4]},
        3,
        None,
    ]


async def test_the_values_of_all_sessions_are_read_at_once(store: Store) -> None:
    for extension, session in (("a", ""), ("a", "s"), ("a", "t"), ("b", "s")):
        await store.remember(extension, session, f"{extension}{session}")
    await store.reset("t")
    assert dict(await store.recall_sessions("a")) == {"s": "as"}


async def test_none_forgets(store: Store) -> None:
    await store.remember("a", "", 1)
    await store.remember("a", "", None)
    await store.remember("a", "", None)
    assert await store.recall("a", "") is None


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(value=JSON)
def test_what_json_can_hold_comes_back(tmp_path: Path, value: Any) -> None:
    async def main() -> Any:
        store = OPENERS["sqlite-loop"](tmp_path, BenchClock())
        try:
            await store.remember("a", "", value)
            return await store.recall("a", "")
        finally:
            await store.close()

    assert asyncio.run(main()) == value


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}, "\ud800", [set[int], 1], 1j])
async def test_what_json_cannot_hold_is_refused_and_changes_nothing(store: Store, value: object) -> None:
    await store.remember("a", "", "before")
    with pytest.raises(SessionError, match="extension 'a' cannot keep this as JSON"):
        await store.remember("a", "", value)
    assert await store.recall("a", "") == "before"


async def test_what_is_too_large_is_refused_with_a_way_out(store: Store) -> None:
    await store.remember("a", "", "x" * (LARGEST - 2))
    with pytest.raises(SessionError, match=r"has 1048577 bytes; 1048576 are possible: keep more in api.database"):
        await store.remember("a", "", "x" * (LARGEST - 1))
    assert len(await store.recall("a", "")) == LARGEST - 2


async def test_a_cancelled_caller_has_remembered_all_the_same(store: Store) -> None:
    remembering = asyncio.create_task(store.remember("a", "", 1))
    await asyncio.sleep(0)
    remembering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await remembering
    assert await store.recall("a", "") == 1


# ── a reset ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("C-13", "EX-03")
async def test_a_reset_forgets_what_any_extension_remembers_of_that_session(store: Store) -> None:
    await answer(store, await take(store, written()))
    kept = (("a", ""), ("a", "t"), ("a", "person:ada"), ("b", ""), ("b", "t"))
    for who in (*kept, ("a", "s"), ("b", "s"), ("ab", "s")):
        await store.remember(*who, list(who))
    await store.reset("s")
    assert [await store.recall(name, "s") for name in ("a", "b", "ab")] == [None, None, None]
    assert [await store.recall(*who) for who in kept] == [list(who) for who in kept]


async def test_a_reset_of_nobodys_session_forgets_nothing_else(store: Store) -> None:
    await store.remember("a", "", 1)
    await store.remember("a", "never written to", 2)
    await store.reset("")
    await store.reset("never written to")
    assert [await store.recall("a", session) for session in ("", "never written to")] == [1, None]


async def test_conversation_and_state_are_forgotten_together_or_not_at_all(store: Store, tmp_path: Path) -> None:
    await answer(store, await take(store, written()))
    await store.remember("a", "s", 1)
    with apsw.Connection(str(tmp_path / "x.db")) as other:
        other.execute("CREATE TRIGGER no BEFORE DELETE ON state BEGIN SELECT RAISE(ABORT, 'a bad disk'); END")
    with pytest.raises(SessionError):
        await store.reset("s")
    assert (len(await store.messages("s")), await store.recall("a", "s")) == (2, 1)
    with apsw.Connection(str(tmp_path / "x.db")) as other:
        other.execute("DROP TRIGGER no")
    await store.reset("s")
    assert (len(await store.messages("s")), await store.recall("a", "s")) == (0, None)


async def test_a_turn_that_a_reset_took_away_remembers_no_more_of_it(store: Store) -> None:
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    current_turn.set(claim.turn_id)
    await store.remember("a", "s", "before")
    await store.reset("s")
    with pytest.raises(Superseded, match="what it wants to remember of it is not kept"):
        await store.remember("a", "s", "late")
    await store.remember("a", "s", None)
    await store.remember("a", "", "its own")
    await store.remember("a", "t", "another's")
    assert [await store.recall("a", each) for each in ("s", "", "t")] == [None, "its own", "another's"]
    await store.end(accepted.id, ended("stopped"), (), nothing)
    with pytest.raises(Superseded):  # a task that outlives its turn knows the same of it
        await store.remember("a", "s", "late again")
    current_turn.set((await begin(store, await take(store, written(id="2")))).turn_id)
    await store.remember("a", "s", "of the new conversation")
    assert await store.recall("a", "s") == "of the new conversation"
