"""The contract of what is carried over: it stays until a turn has told of it, and goes with what it belongs to."""

from datetime import timedelta

from msgspec.structs import replace
from tests.ports.bench import Bench
from tests.ports.nouns import adds, begin, ended, ending, nothing, take, written
from tests.ports.state_search import found_in

from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Store

LINE = "zebra7 is the line"


async def leave_out(store: Store, id: str) -> Accepted:
    accepted = await take(store, written(id=id))
    assert await store.end(accepted.id, ended("dropped", None), (), nothing, kept_line=LINE)
    return accepted


async def run_turn(store: Store, id: str, *, asks: bool = False, told: tuple[str, ...] = ()) -> Accepted:
    accepted = await take(store, written(id=id))
    claim = await begin(store, accepted)
    finish = ending(store, accepted, claim, "ok", events=adds(f"a-{id}", role="assistant"))
    assert await store.finish(replace(finish, asks=asks, told=told), nothing)
    return accepted


async def carried(store: Store) -> list[tuple[str, str | None]]:
    return [(accepted.id, line) for accepted, _, line in await store.carried_over()]


async def test_it_is_there_from_the_end_of_the_message_to_the_turn_that_tells_of_it(bench: Bench):
    out, asked = await leave_out(bench.store, "1"), await run_turn(bench.store, "2", asks=True)
    store = await bench.reopen()
    assert await carried(store) == [(out.id, LINE), (asked.id, None)]
    (first, _, _), (second, ended_at, _) = await store.carried_over()
    assert (first.inbound.message_id, second.inbound.message_id) == ("1", "2")
    assert ended_at >= second.accepted_at
    await run_turn(store, "3")
    assert len(await carried(store)) == 2, "a turn of somebody else tells of nothing"
    await run_turn(store, "4", told=(out.id, asked.id))
    assert await carried(await bench.reopen()) == []


async def test_a_message_that_had_ended_is_not_carried_over_by_a_second_end(bench: Bench):
    out = await take(bench.store, written(id="1"))
    assert await bench.store.end(out.id, ended("stopped", None), (), nothing)
    assert not await bench.store.end(out.id, ended("dropped", None), (), nothing, kept_line=LINE)
    assert await carried(bench.store) == []


async def test_a_reset_takes_what_is_of_its_session(bench: Bench):
    store = bench.store
    await leave_out(store, "1")
    other = await store.accept(written(id="2"), "other", lambda _: None)
    assert await store.end(other.id, ended("dropped", None), (), nothing, kept_line=LINE)
    await store.reset("s")
    assert await carried(store) == [(other.id, LINE)]


async def test_erasure_leaves_no_word_of_it(bench: Bench):
    await leave_out(bench.store, "1")
    await bench.store.erase_session("s")
    await bench.store.scrub()
    assert await carried(bench.store) == []
    assert found_in(bench.where, "zebra7") == []


async def test_it_goes_with_the_old_message_that_it_is_of(bench: Bench):
    await leave_out(bench.store, "1")
    bench.clock.jump(timedelta(days=400))
    await take(bench.store, written(id="2"))
    await bench.store.prune(bench.clock.now() - timedelta(days=365))
    assert await carried(bench.store) == []
