"""The contract of the books: what a turn has cost is written down with its end, once, and adds up exactly."""

from collections.abc import AsyncGenerator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.machine import examples
from tests.ports.bench import OPENERS, Bench, BenchClock
from tests.ports.nouns import adds, begin, ended, ending, nothing, take, written

from finclaw.errors import Superseded
from finclaw.kernel.chunk import Usage
from finclaw.kernel.record import Cost, Finish, Spend
from finclaw.kernel.store_port import Store

TODAY = date(2026, 3, 4)
YESTERDAY = date(2026, 3, 3)


@pytest.fixture(params=OPENERS)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Bench]:
    opener = OPENERS[str(request.param)]
    clock = BenchClock()
    bench = Bench(opener(tmp_path, clock), clock, tmp_path, opener)
    yield bench
    await bench.store.close()


def spent(
    cost: str = "0.1", *, day: date = TODAY, user: str = "web:ada", model: str = "a/one", agent: str = "main"
) -> Spend:
    return Spend(
        day=day,
        agent=agent,
        user=user,
        model=model,
        calls=1,
        usage=Usage(10, 5, 100, 7),
        cost=Decimal(cost),
        saved=Decimal("-0.01"),
    )


async def prepared(store: Store, id: str, *spend: Spend) -> Finish:
    accepted = await take(store, written(id=id), f"s-{id}")
    claim = await begin(store, accepted)
    return replace(ending(store, accepted, claim, "ok", events=adds(f"a-{id}", role="assistant")), spend=spend)


async def spend(store: Store, id: str, *lines: Spend) -> None:
    assert await store.finish(await prepared(store, id, *lines), nothing)


def told(costs: object) -> dict[str, str]:
    assert isinstance(costs, list | tuple)
    return {each.name: str(each.cost) for each in costs if isinstance(each, Cost)}  # pyright: ignore[reportUnknownVariableType]


@pytest.mark.spec("CO-01")
async def test_spend_adds_up_by_day_model_user_and_agent(bench: Bench) -> None:
    store = bench.store
    await spend(store, "1", spent("0.1"), spent("0.2", model="a/two"))
    await spend(store, "2", spent("0.000001", user="web:bob"), spent("5", day=YESTERDAY, agent="other"))
    await spend(store, "3", spent("0.1"))
    store = await bench.reopen()
    assert told(await store.costs(YESTERDAY, "day")) == {"2026-03-03": "5", "2026-03-04": "0.400001"}
    assert told(await store.costs(TODAY, "day")) == {"2026-03-04": "0.400001"}
    assert told(await store.costs(TODAY, "model")) == {"a/one": "0.200001", "a/two": "0.2"}
    assert list(told(await store.costs(TODAY, "user"))) == ["web:ada", "web:bob"], "the dearest first"
    assert told(await store.costs(YESTERDAY, "agent")) == {"other": "5", "main": "0.400001"}
    (ada, _) = await store.costs(TODAY, "user")
    assert ada == Cost(
        name="web:ada", calls=3, usage=Usage(30, 15, 300, 21), cost=Decimal("0.4"), saved=Decimal("-0.03")
    )


async def test_spend_is_empty_where_nothing_was_spent(bench: Bench) -> None:
    await spend(bench.store, "1")
    assert list(await bench.store.costs(date.min, "day")) == []


async def test_spend_of_a_turn_that_had_ended_is_not_entered_again(bench: Bench) -> None:
    finish = await prepared(bench.store, "1", spent("0.1"))
    assert await bench.store.finish(finish, nothing)
    assert not await bench.store.finish(finish, nothing)
    assert not await bench.store.end(finish.inbound_id, ended("failed"), (), nothing, [spent("0.1")])
    assert told(await bench.store.costs(TODAY, "day")) == {"2026-03-04": "0.1"}


async def test_spend_of_a_superseded_turn_is_entered_with_its_messages_end(bench: Bench) -> None:
    finish = await prepared(bench.store, "1", spent("0.1"))
    await bench.store.reset(finish.session)
    with pytest.raises(Superseded):
        await bench.store.finish(finish, nothing)
    assert list(await bench.store.costs(TODAY, "day")) == []
    assert await bench.store.end(finish.inbound_id, ended("stopped"), (), nothing, [spent("0.1")])
    assert told(await bench.store.costs(TODAY, "day")) == {"2026-03-04": "0.1"}


async def test_spend_takes_whatever_a_stranger_calls_himself_and_any_number_a_server_reports(bench: Bench) -> None:
    names = ["web:\x00'; DROP TABLE spend", "web:half \ud800", "web:" + "x" * 10_000, "web:에이다"]
    for number, name in enumerate(names):
        huge = replace(spent(user=name), usage=Usage(input=10**30, cache_read=2**63), cost=Decimal("1e-20"))
        await spend(bench.store, str(number), huge, huge)
    users = await bench.store.costs(TODAY, "user")
    assert {each.name for each in users} == {name.replace("\ud800", "\ufffd") for name in names}
    assert all(each.cost == Decimal("2e-20") and each.calls == 2 for each in users)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"]), st.decimals(0, 5, places=9)), max_size=12))
@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_spend_is_the_same_sum_however_it_is_looked_at(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, str, Decimal]]
) -> None:
    async def walk() -> list[Decimal]:
        store = OPENERS["sqlite-loop"](tmp_path_factory.mktemp("books"), clock)
        for number, (day, user, cost) in enumerate(lines):
            await spend(store, str(number), spent(str(cost), day=date(2026, 1, 1 + day), user=user))
        sums = [
            sum((each.cost for each in await store.costs(date.min, by)), Decimal(0))
            for by in ("day", "model", "user", "agent")
        ]
        await store.close()
        return sums

    clock = BenchClock()
    assert set(clock.run(walk())) == {sum((cost for _, _, cost in lines), Decimal(0))}
