"""The contract of joined messages: one turn answers several, each ends once, and none is lost or answered twice."""

from contextlib import suppress
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.ports.bench import Bench
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
from tests.ports.state_search import found_in

from finclaw.errors import SessionError, Superseded
from finclaw.kernel.message import Append, Replace
from finclaw.kernel.record import Accepted, Claim, JoinedOutcome
from finclaw.kernel.store_port import Store
from finclaw.testing import SimulatedCrash, crash_at


async def busy(store: Store, *later: str, id: str = "host") -> tuple[Claim, Accepted, list[Accepted]]:
    """A turn that runs, and messages behind it."""
    host = await take(store, written(id=id))
    behind = [await take(store, written(id=id)) for id in later]
    return await begin(store, host), host, behind


async def join(store: Store, claim: Claim, accepted: Accepted, seq: int = 1) -> bool:
    return await store.join(claim, accepted, seq, adds(f"q-{accepted.inbound.message_id}"), nothing)


def as_joined(*messages: Accepted) -> tuple[JoinedOutcome, ...]:
    return tuple(JoinedOutcome(each.id, ended("joined", None)) for each in messages)


async def names(store: Store) -> list[str]:
    return [message.id for message in await store.messages("s")]


async def state_of(store: Store, accepted: Accepted) -> tuple[str, int, str | None]:
    record = await store.find(accepted.id)
    assert record is not None
    return record.state, record.attempts, record.outcome and record.outcome.kind


async def test_a_turn_ends_all_that_joined_it_in_one_commit(bench: Bench):
    store, told = bench.store, Told()
    claim, host, (first, second, third) = await busy(store, "1", "2", "3")
    assert await join(store, claim, first)
    assert await state_of(store, first) == ("joined", 1, None)
    assert await store.join(claim, second, 2, [*adds("a-1", role="assistant"), *adds("q-2")], told.done)
    assert told.times == 1
    finish = replace(
        ending(store, host, claim, "ok", events=adds("a-2", role="assistant")), joined=as_joined(first, second)
    )
    assert await store.finish(finish, nothing)
    store = await bench.reopen()
    assert await names(store) == ["q-host", "q-1", "a-1", "q-2", "a-2"]
    assert [(await state_of(store, each))[2] for each in (host, first, second)] == ["answered", "joined", "joined"]
    assert await state_of(store, third) == ("received", 0, None)
    assert [each.id for each in await store.unfinished()] == [third.id]
    assert not await store.finish(finish, nothing)


async def test_the_trace_of_a_turn_knows_who_joined_it_and_is_found_by_each_of_them(bench: Bench):
    store = bench.store
    claim, host, (later,) = await busy(store, "1")
    await join(store, claim, later)
    end = replace(ended("joined", None), turn_id=claim.turn_id)
    finish = ending(store, host, claim, "ok", events=adds("a", role="assistant"))
    assert await store.finish(replace(finish, joined=(JoinedOutcome(later.id, end),)), nothing)
    for id in (host.id, later.id, claim.turn_id):
        story = await store.turn(id)
        assert story is not None
        assert [(each.inbound_id, each.inbound.text, each.message_id) for each in story.joined] == [
            (later.id, "hello", "q-1")
        ]
        assert [each.id for each in story.messages] == ["q-host", "q-1", "a"]
        assert story.whole
    alone = await take(store, written(id="2"))
    await answer(store, alone)
    story = await store.turn(alone.id)
    assert story is not None
    assert story.joined == ()


async def test_whoever_is_not_named_at_the_end_is_back_in_the_lane_as_if_never_tried(bench: Bench):
    store = bench.store
    claim, host, (first, second) = await busy(store, "1", "2")
    assert await join(store, claim, first)
    assert await join(store, claim, second, 2)
    assert await store.end(host.id, ended("failed"), (), nothing, joined=as_joined(first))
    assert await state_of(store, first) == ("ended", 1, "joined")
    assert await state_of(store, second) == ("received", 0, None)
    await answer(store, second)
    assert (await state_of(store, second))[2] == "answered"


async def test_only_a_later_message_of_the_session_that_was_never_tried_may_join(bench: Bench):
    store = bench.store
    earlier = await take(store, written(id="0"))
    claim, host, (first, tried, over) = await busy(store, "1", "2", "3")
    other = await take(store, written(id="4"), "elsewhere")
    await store.mark_attempt(tried.id)
    await store.nothing_runs()
    await store.end(over.id, ended("stopped"), (), nothing)
    for refused in (earlier, host, tried, over, other):
        before = await state_of(store, refused)
        assert not await store.join(claim, refused, 1, adds("x"), nothing)
        assert await state_of(store, refused) == before
    await begin(store, earlier)
    await store.release(earlier.id)
    assert not await join(store, claim, earlier), "it has a turn of its own"
    assert await join(store, claim, first)
    assert not await join(store, claim, first, 2), "it has joined already"
    with pytest.raises(SessionError):
        await store.join(claim, first, 2, [], nothing)


async def test_a_superseded_turn_takes_nobody(bench: Bench):
    store = bench.store
    claim, _, (later,) = await busy(store, "1")
    await store.reset("s")
    with pytest.raises(Superseded):
        await join(store, claim, later)
    assert await state_of(store, later) == ("received", 0, None)


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_after_a_crash_what_the_model_has_not_seen_is_back_in_its_place_and_counted(bench: Bench):
    store = bench.store
    claim, host, (first, second) = await busy(store, "1", "2")
    await join(store, claim, first)
    store = await bench.reopen()
    left = await store.unfinished()
    assert [(each.id, each.begun, each.joined_to) for each in left] == [
        (host.id, True, None),
        (first.id, True, host.id),
        (second.id, False, None),
    ]
    await store.nothing_runs()
    assert [each.begun for each in await store.unfinished()] == [False, False, False], "of one life only"
    resumed = await store.claim(left[0], adds("unused"), None)
    assert (resumed.attempt, resumed.joined) == (2, ())
    assert await state_of(store, first) == ("received", 1, None)
    assert not await join(store, resumed, first, len(resumed.events)), "what was in a crash joins nobody"
    finish = ending(store, host, resumed, "ok", events=adds("a", role="assistant"))
    assert await store.finish(finish, nothing)
    await answer(store, first)
    assert await names(store) == ["q-host", "a", "q-1", "a-1"]
    assert await state_of(store, first) == ("ended", 2, "answered")


async def test_after_a_crash_what_the_model_has_seen_comes_back_with_the_turn_and_each_is_counted(bench: Bench):
    store = bench.store
    claim, host, (seen, unseen) = await busy(store, "1", "2")
    await join(store, claim, seen)
    await store.record(claim, 2, [*tool_step("c"), *tool_answer("c")], nothing)
    await join(store, claim, unseen, 5)
    for attempt in (2, 3):
        store = await bench.reopen()
        resumed = await store.claim(host, adds("unused"), None)
        assert resumed.attempt == attempt
        assert [(each.id, each.attempts, each.joined_to) for each in resumed.joined] == [(seen.id, attempt, host.id)]
        assert await state_of(store, unseen) == ("received", 1, None)
    finish = ending(store, host, resumed, "ok", events=adds("a", role="assistant"))
    assert await store.finish(replace(finish, joined=as_joined(seen)), nothing)
    assert await names(store) == ["q-host", "q-1", "ask-c", "told-c", "a"]
    assert await state_of(store, seen) == ("ended", 3, "joined")


async def test_words_that_a_layer_has_replaced_are_taken_out_too(bench: Bench):
    store = bench.store
    claim, host, (later,) = await busy(store, "1")
    await join(store, claim, later)
    await store.record(claim, 2, [Replace("q-1", said("other"))], nothing)
    store = await bench.reopen()
    resumed = await store.claim(host, adds("unused"), None)
    await store.finish(ending(store, host, resumed, "ok", events=adds("a", role="assistant")), nothing)
    assert await names(store) == ["q-host", "a"]


async def test_a_turn_that_was_put_back_in_good_order_counts_nobody(bench: Bench):
    store = bench.store
    claim, host, (seen, unseen) = await busy(store, "1", "2")
    await join(store, claim, seen)
    await store.record(claim, 2, adds("a-1", role="assistant"), nothing)
    await join(store, claim, unseen, 3)
    await store.release(host.id)
    store = await bench.reopen()
    assert [(each.attempts, each.begun) for each in await store.unfinished()] == [(0, False)] * 3
    resumed = await store.claim(host, adds("unused"), None)
    assert [each.id for each in resumed.joined] == [seen.id]
    assert await state_of(store, unseen) == ("received", 0, None)


async def test_a_crash_right_behind_the_commit_gives_the_message_back(bench: Bench):
    """Where conversations are in files, its words are not even in the turn's log then."""
    store = bench.store
    claim, host, (later,) = await busy(store, "1")
    with crash_at("join:after_commit"), suppress(SimulatedCrash):
        await join(store, claim, later)
    store = await bench.reopen()
    resumed = await store.claim(host, adds("unused"), None)
    assert resumed.joined == ()
    finish = ending(store, host, resumed, "ok", events=adds("a", role="assistant"))
    assert await store.finish(finish, nothing)
    await answer(store, later)
    assert await names(store) == ["q-host", "a", "q-1", "a-1"]


# ── upkeep ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_prune_and_erasure_take_the_link_along(bench: Bench):
    store = bench.store
    claim, host, (later,) = await busy(store, "1")
    words = Append(said("q-zebra7", "zebra7 words"))
    assert await store.join(claim, later, 1, [words], nothing)
    finish = replace(ending(store, host, claim, "ok", events=adds("a", role="assistant")), joined=as_joined(later))
    assert await store.finish(finish, nothing)
    await store.settle(*(replace(each, state="sent") for each in finish.units))
    await store.erase_session("s")
    await store.scrub()
    assert found_in(bench.where, "zebra7") == []
    claim, host, (later,) = await busy(store, "2", id="another")
    await join(store, claim, later)
    finish = replace(ending(store, host, claim, events=adds("b", role="assistant")), joined=as_joined(later))
    assert await store.finish(finish, nothing)
    bench.clock.advance(timedelta(days=400).total_seconds())
    await take(store, written(id="newest"), "other")
    assert (await store.prune(bench.clock.now())).sessions == 1
    assert await store.find(later.id) is None
