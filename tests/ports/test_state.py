"""The StateStore port: what extensions remember, the same in every store."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ports.test_store import OPENERS, BenchClock

from finclaw.errors import SessionError
from finclaw.kernel.port import Store
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


async def test_none_forgets(store: Store) -> None:
    await store.remember("a", "", 1)
    await store.remember("a", "", None)
    await store.remember("a", "", None)
    assert await store.recall("a", "") is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
