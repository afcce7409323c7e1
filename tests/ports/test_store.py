"""The contract of the Store port: whatever keeps messages keeps them like this."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

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
    nobody,
    nothing,
    parts,
    said,
    take,
    tool_answer,
    tool_step,
    written,
)

from finclaw.errors import InboundConflict, SessionError, Superseded
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, Truncate, TurnEvent
from finclaw.kernel.record import Accepted, Claim, OutboxItem, OutboxState, TextRange
from finclaw.kernel.store_port import Store

# ── accept ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_message_is_taken_with_the_next_ticket_of_its_session(bench: Bench):
    first = await take(bench.store, written(id="1"), "s")
    other = await take(bench.store, written(id="2"), "t")
    second = await take(bench.store, written(id="3"), "s")
    assert (first.ticket, other.ticket, second.ticket) == (1, 1, 2)
    assert first.session == "s"
    assert first.inbound == written(id="1")
    assert first.accepted_at == bench.clock.now()
    assert not first.duplicate
    assert len({first.id, other.id, second.id}) == 3


async def test_the_same_message_again_is_the_message_we_have(store: Store):
    told = Told()
    first = await store.accept(written(), "s", told.accepted)
    again = await store.accept(written(), "s", told.accepted)
    assert again == replace(first, duplicate=True)
    assert told.what == [first]
    assert (await take(store, written(id="2"))).ticket == 2, "a repeat takes no ticket"


async def test_five_deliveries_at_once_and_one_after_a_restart_are_one_message(bench: Bench):
    told = Told()
    five = await asyncio.gather(*(bench.store.accept(written(), "s", told.accepted) for _ in range(5)))
    store = await bench.reopen()
    sixth = await store.accept(written(), "s", told.accepted)
    assert {each.id for each in (*five, sixth)} == {five[0].id}
    assert sum(not each.duplicate for each in (*five, sixth)) == told.times == 1
    assert len(await store.unfinished()) == 1


@pytest.mark.parametrize(
    "other",
    [
        written("other text"),
        written(sender="bob"),
        replace(written(), thread="t"),
        replace(written(), reply_to="0"),
    ],
)
async def test_a_known_id_with_another_body_is_a_conflict(store: Store, other: object):
    told = Told()
    await take(store, written())
    with pytest.raises(InboundConflict, match="'1'"):
        await store.accept(other, "s", told.accepted)  # pyright: ignore[reportArgumentType]
    assert told.times == 0
    assert (await take(store, written(id="2"))).ticket == 2


async def test_where_it_was_written_belongs_to_a_messages_name(store: Store):
    same_id = (
        written(),
        written(conversation="other"),
        replace(written(), channel="web"),
        replace(written(), account="second"),
    )
    ids = {(await take(store, each, "s")).id for each in same_id}
    assert len(ids) == 4


async def test_no_two_names_run_together(store: Store):
    """Parts that would be one string if they were only joined are still two names."""
    ids = {
        (await take(store, written(conversation="a", id=":b"))).id,
        (await take(store, written(conversation="a:", id="b"))).id,
        (await take(store, written(conversation="a\n", id="b"))).id,
        (await take(store, written(conversation="a", id="\nb"))).id,
        (await take(store, written(conversation='a","', id="b"))).id,
    }
    assert len(ids) == 5


async def test_tickets_follow_the_order_of_accepts_made_at_once(store: Store):
    taken = await asyncio.gather(*(take(store, written(id=str(n))) for n in range(50)))
    assert [each.ticket for each in taken] == list(range(1, 51))


async def test_who_is_told_is_told_once_in_ticket_order_before_the_caller_goes_on(store: Store):
    told = Told()

    async def caller(number: int) -> None:
        accepted = await store.accept(written(id=str(number)), "s", told.accepted)
        assert accepted in told.what

    await asyncio.gather(*(caller(number) for number in range(20)))
    assert [each.ticket for each in told.what] == list(range(1, 21))


async def test_a_cancelled_caller_does_not_undo_an_accept_nor_silence_it(store: Store):
    told = Told()
    task = asyncio.create_task(store.accept(written(), "s", told.accepted))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told.times == 1, "the caller leaves only after the commit was decided"
    assert [each.id for each in await store.unfinished()] == [told.what[0].id]


async def test_a_caller_cancelled_before_it_began_did_nothing(store: Store):
    task = asyncio.create_task(take(store, written()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.unfinished() == []


async def test_a_listener_that_raises_harms_nobody_else(store: Store, caplog: pytest.LogCaptureFixture):
    def broken(_: object) -> None:
        raise ValueError("a bug in who is told")

    results = await asyncio.wait_for(
        asyncio.gather(
            store.accept(written(id="1"), "s", broken),
            take(store, written(id="2")),
            take(store, written(id="3")),
        ),
        timeout=60,
    )
    assert [each.ticket for each in results] == [1, 2, 3]
    assert "a bug in who is told" in caplog.text


TEXTS = {
    "empty": "",
    "nul": "a\0b",
    "white": "\n\r\t",
    "korean": "가" * 1000,
    "family": "👩\u200d👩\u200d👧",
    "sql": "'; DROP TABLE inbound; --",
    "long": "x" * 1_000_000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_any_text_comes_back_as_it_was(bench: Bench, text: str):
    hostile = written(text, id=f"id:{text[:50]}", conversation=f"{text[:50]}:\n")
    await take(bench.store, hostile, f"s:{text[:50]}")
    (found,) = await (await bench.reopen()).unfinished()
    assert found.inbound == hostile
    assert found.session == f"s:{text[:50]}"


@pytest.mark.parametrize("field", ["text", "thread", "reply_to", "account", "message_id", "conversation"])
async def test_half_a_character_is_kept_as_a_replacement_mark(bench: Bench, field: str):
    """JSON can carry a lone surrogate, UTF-8 on a disk cannot: the message must get in all the same."""
    inbound = replace(written(), **{field: "a\ud800b"})
    first = await take(bench.store, inbound)
    assert (await take(bench.store, inbound)).id == first.id
    (found,) = await (await bench.reopen()).unfinished()
    assert getattr(found.inbound, field) == "a\ufffdb"


async def test_half_a_character_from_the_model_does_not_keep_a_turn_from_ending(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    await bench.store.record(claim, 1, [Append(said("a", "half \udc00 of it", role="assistant"))], nothing)
    finish = ending(bench.store, accepted, claim, "half \udc00 of it")
    assert finish.units[0].outbound.text == "half \ufffd of it", "what is sent is what was recorded"
    assert await bench.store.finish(finish, nothing)
    store = await bench.reopen()
    assert (await store.messages("s"))[-1].text == "half \ufffd of it"
    assert [unit.outbound.text for unit in await store.pending()] == ["half \ufffd of it"]


# ── claim ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_new_turn_begins_with_its_input(bench: Bench):
    accepted = await take(bench.store, written())
    bench.clock.advance(5)
    claim = await bench.store.claim(accepted, adds("q"), None)
    assert (claim.attempt, claim.resumed, claim.version) == (1, False, 0)
    assert claim.base == ()
    assert claim.events == tuple(adds("q"))
    assert claim.inbound_id == accepted.id
    assert claim.session_started_at == accepted.accepted_at


async def test_a_turn_taken_up_again_has_its_log_and_not_a_second_input(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await bench.store.claim(accepted, adds("q"), None)
    await bench.store.record(claim, 1, tool_step("c"), nothing)
    again = await (await bench.reopen()).claim(accepted, adds("never used"), None)
    assert (again.attempt, again.resumed, again.turn_id) == (2, True, claim.turn_id)
    assert again.events == (*adds("q"), *tool_step("c"))
    assert (await bench.store.unfinished())[0].attempts == 2


async def test_a_message_that_ended_cannot_be_claimed(store: Store):
    accepted = await take(store, written())
    assert await store.end(accepted.id, ended("skipped"), (), nothing)
    with pytest.raises(Superseded, match="already ended"):
        await begin(store, accepted)
    assert await store.turns(10) == []


async def test_whoever_knows_the_conversation_does_not_get_it_again(store: Store):
    await answer(store, await take(store, written(id="1")))
    knows = await begin(store, await take(store, written(id="2"), "s"), known=1)
    assert (knows.version, knows.base) == (1, None)


async def test_whoever_knows_an_older_conversation_gets_the_new_one(store: Store):
    await answer(store, await take(store, written(id="1")))
    claim = await begin(store, await take(store, written(id="2")), known=0)
    assert claim.base is not None
    assert [message.id for message in claim.base] == ["q-1", "a-1"]


async def test_a_restart_does_not_change_when_a_session_began(bench: Bench):
    first = await take(bench.store, written(id="1"))
    began = (await begin(bench.store, first)).session_started_at
    bench.clock.advance(3600)
    store = await bench.reopen()
    again = await begin(store, first)
    later = await begin(store, await take(store, written(id="2")))
    assert began == again.session_started_at == later.session_started_at == first.accepted_at


# ── record ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_log_comes_back_in_the_order_of_its_numbers(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    log: list[TurnEvent] = [*claim.events]
    for number in range(30):
        step = [*tool_step(f"c{number}"), *tool_answer(f"c{number}")]
        await bench.store.record(claim, len(log), step, nothing)
        log += step
    again = await begin(await bench.reopen(), accepted)
    assert list(again.events) == log


async def test_two_records_at_one_place_keep_the_first(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    await bench.store.record(claim, 1, adds("first"), nothing)
    with pytest.raises(SessionError):
        await bench.store.record(claim, 1, adds("second"), nothing)
    assert (await begin(await bench.reopen(), accepted)).events[1:] == tuple(adds("first"))


async def test_after_a_reset_the_running_turn_can_write_no_more(store: Store):
    await answer(store, await take(store, written(id="1")))
    accepted = await take(store, written(id="2"))
    claim = await begin(store, accepted)
    await store.reset("s")
    told = Told()
    with pytest.raises(Superseded):
        await store.record(claim, 1, adds("late"), nothing)
    with pytest.raises(Superseded):
        await store.finish(ending(store, accepted, claim, "late"), told.done)
    assert told.times == 0
    assert await store.messages("s") == ()
    assert [unit.inbound_id for unit in await store.pending()] != [accepted.id]
    assert (await store.unfinished())[0].id == accepted.id


# ── finish ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_finish_folds_ends_plans_and_settles_at_once(bench: Bench):
    store = bench.store
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    await store.record(claim, 1, [*tool_step("c"), *tool_answer("c")], nothing)
    bench.clock.advance(2)
    told = Told()
    finish = ending(store, accepted, claim, "one", "two", events=adds("a", role="assistant"), steps=2)
    assert await store.finish(finish, told.done)
    assert told.times == 1
    store = await bench.reopen()
    assert [message.id for message in await store.messages("s")] == ["q-1", "ask-c", "told-c", "a"]
    record = await store.find(accepted.id)
    assert record is not None
    assert (record.state, record.outcome, record.delivery) == ("ended", finish.outcome, "pending")
    assert list(await store.pending()) == list(finish.units)
    (turn,) = await store.turns(10)
    assert (turn.turn_id, turn.status, turn.steps) == (claim.turn_id, "completed", 2)
    assert (turn.usage, turn.cost) == (finish.outcome.usage, Decimal("0.0125"))
    assert (turn.ended_at, turn.inbound_id) == (bench.clock.now(), accepted.id)
    assert await store.unfinished() == []


async def test_each_finish_raises_the_version_by_one(store: Store):
    versions: list[int] = []
    for number in range(4):
        accepted = await take(store, written(id=str(number)))
        claim = await begin(store, accepted)
        versions.append(claim.version)
        await store.finish(ending(store, accepted, claim), nothing)
    assert versions == [0, 1, 2, 3]


async def test_a_message_ends_once(store: Store):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    told = Told()
    assert await store.end(accepted.id, ended("failed", "sorry"), store.plan(accepted, parts("sorry"), None), told.done)
    late = ending(store, accepted, claim, "late", events=adds("late"))
    assert not await store.finish(late, told.done)
    assert not await store.end(accepted.id, ended("skipped"), (), told.done)
    assert told.times == 1
    record = await store.find(accepted.id)
    assert record is not None
    assert record.outcome == ended("failed", "sorry")
    assert [unit.outbound.text for unit in await store.pending()] == ["sorry"]
    assert await store.messages("s") == ()


async def test_two_finishes_at_once_are_one(store: Store):
    accepted = await take(store, written())
    finish = ending(store, accepted, await begin(store, accepted), "ok", events=adds("a"))
    told = Told()
    results = await asyncio.gather(*(store.finish(finish, told.done) for _ in range(3)))
    assert sorted(results) == [False, False, True]
    assert told.times == 1
    assert [message.id for message in await store.messages("s")] == ["q-1", "a"]


async def test_a_finish_goes_through_when_its_caller_is_cancelled(store: Store):
    accepted = await take(store, written())
    told = Told()
    task = asyncio.create_task(store.finish(ending(store, accepted, await begin(store, accepted), "ok"), told.done))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told.times == 1
    assert await store.unfinished() == []


async def test_the_fold_does_what_events_say(store: Store):
    await answer(store, await take(store, written(id="1")))
    await answer(store, await take(store, written(id="2")))
    accepted = await take(store, written(id="3"))
    claim = await begin(store, accepted)
    events: list[TurnEvent] = [
        Truncate(4),
        Remove("a-1"),
        Replace("q-2", said("Q-2", "changed")),
        Patch("a-2", {"pinned": True}),
        Patch("a-2", {"note": "n"}),
        Remove("nobody"),
        *adds("a-3", role="assistant"),
    ]
    assert await store.finish(ending(store, accepted, claim, "ok", events=events), nothing)
    messages = await store.messages("s")
    assert [message.id for message in messages] == ["Q-2", "a-2", "q-3", "a-3"]
    assert messages[0].text == "changed"
    assert messages[1].metadata == {"pinned": True, "note": "n"}


async def test_a_turn_without_an_answer_has_nothing_to_deliver(store: Store):
    accepted = await take(store, written())
    assert await store.finish(ending(store, accepted, await begin(store, accepted)), nothing)
    record = await store.find(accepted.id)
    assert record is not None
    assert record.delivery == "none"


# ── end, release, reset ─────────────────────────────────────────────────────────────────────────────────────


async def test_an_end_without_a_turn(store: Store):
    accepted = await take(store, written())
    units = store.plan(accepted, parts("help text"), None)
    assert await store.end(accepted.id, ended("command", "help text"), units, nothing)
    assert list(await store.pending()) == list(units)
    assert await store.turns(10) == []
    assert await store.unfinished() == []


async def test_a_turn_whose_message_ended_without_it_ends_too(bench: Bench):
    """A reset takes the conversation from a running turn; its message still ends, and nothing is left open."""
    store = bench.store
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    await store.record(claim, 1, tool_step("c"), nothing)
    await store.reset("s")
    assert await store.end(accepted.id, ended("stopped", None), (), nothing)
    (turn,) = await store.turns(10)
    assert (turn.status, turn.ended_at) == ("aborted", bench.clock.now())


async def test_an_id_of_another_database_is_refused(store: Store):
    with pytest.raises(SessionError, match="not an id of this database"):
        await store.end("m-00000000-1", ended(), (), nothing)


async def test_a_released_message_is_as_if_never_tried(bench: Bench):
    accepted = await take(bench.store, written())
    claim = await begin(bench.store, accepted)
    await bench.store.record(claim, 1, tool_step("c"), nothing)
    await bench.store.release(accepted.id)
    (found,) = await bench.store.unfinished()
    assert found.attempts == 0
    assert (await bench.store.counts()).waiting == 1
    again = await begin(await bench.reopen(), accepted)
    assert (again.attempt, len(again.events)) == (1, 3)


async def test_what_ran_when_the_process_died_is_told_once(bench: Bench):
    """Whoever was only waiting is not a suspect, nor is whoever ran in an earlier life and waits in this one."""
    waiting, ran, ended = [await take(bench.store, written(id=each), each) for each in ("waiting", "ran", "ended")]
    await answer(bench.store, ended)
    await begin(bench.store, ran)
    store = await bench.reopen()
    assert {each.id: each.begun for each in await store.unfinished()} == {waiting.id: False, ran.id: True}
    await store.nothing_runs()
    assert (await store.counts()).running == 0
    store = await bench.reopen()
    assert {each.id: (each.begun, each.attempts) for each in await store.unfinished()} == {
        waiting.id: (False, 0),
        ran.id: (False, 1),
    }
    assert (await begin(store, ran)).attempt == 2
    assert [each.begun for each in await store.unfinished()] == [False, True]
    record = await store.find(ended.id)
    assert record is not None
    assert record.state == "ended"


async def test_who_sets_out_is_a_suspect_like_one_whose_turn_runs(bench: Bench):
    """And may be put back, and claimed then: that is one try."""
    out, waiting = [await take(bench.store, written(id=each), each) for each in ("out", "waiting")]
    await bench.store.mark_attempt(out.id)
    await bench.store.mark_attempt(out.id)
    store = await bench.reopen()
    told = {each.id: (each.begun, each.attempts, each.left) for each in await store.unfinished()}
    assert told == {out.id: (True, 1, True), waiting.id: (False, 0, True)}
    await store.nothing_runs()
    await store.mark_attempt(out.id)
    await store.release(out.id)
    assert (await begin(store, out)).attempt == 2
    assert [turn.turn_id for turn in await store.turns(9)] == [f"t{out.id[1:]}"]


async def test_who_has_ended_does_not_set_out(store: Store):
    accepted = await take(store, written())
    await answer(store, accepted)
    await store.mark_attempt(accepted.id)
    record = await store.find(accepted.id)
    assert record is not None
    assert (record.state, record.attempts) == ("ended", 1)


async def test_releasing_twice_counts_once(store: Store):
    accepted = await take(store, written())
    await begin(store, accepted)
    await store.release(accepted.id)
    await store.release(accepted.id)
    assert (await store.unfinished())[0].attempts == 0


async def test_releasing_what_has_ended_changes_nothing(store: Store):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    await store.finish(ending(store, accepted, claim), nothing)
    await store.release(accepted.id)
    record = await store.find(accepted.id)
    assert record is not None
    assert (record.state, record.attempts) == ("ended", 1)


async def test_reset_forgets_one_conversation_and_keeps_its_tickets(store: Store):
    await answer(store, await take(store, written(id="1"), "s"))
    await answer(store, await take(store, written(id="2"), "t"))
    await store.reset("s")
    await store.reset("never seen")
    assert await store.messages("s") == ()
    assert len(await store.messages("t")) == 2
    claim = await begin(store, await take(store, written(id="3"), "s"), known=1)
    assert claim.base == (), "what was known before the reset is not current"
    assert (await store.unfinished())[0].ticket == 2


# ── outbox ──────────────────────────────────────────────────────────────────────────────────────────────────


async def delivery(store: Store, unit: OutboxItem) -> str:
    record = await store.find(unit.inbound_id)
    assert record is not None
    return record.delivery


async def test_a_plan_freezes_parts_and_writes_nothing(bench: Bench):
    accepted = await take(bench.store, written())
    units = bench.store.plan(accepted, parts("one", "two", "three"), "t-1")
    assert {unit.state for unit in units} == {"planned"}
    assert [unit.seq for unit in units] == [0, 1, 2]
    assert len({unit.token for unit in units}) == 3
    assert {unit.lane for unit in units} == {("memory", "local", "room")}
    assert {unit.planned_at for unit in units} == {bench.clock.now()}
    assert await bench.store.pending() == []


async def test_delivery_is_done_when_every_part_is(bench: Bench):
    store = bench.store
    first, second = await answer(store, await take(store, written()), "one", "two")
    assert await delivery(store, first) == "pending"
    sent = replace(first, state="sent", platform_id="p1")
    await store.settle(sent, replace(second, state="sending", attempts=2, doubts=1))
    assert await delivery(store, first) == "pending"
    (left,) = await (store := await bench.reopen()).pending()
    assert (left.id, left.state, left.attempts, left.doubts) == (second.id, "sending", 2, 1)
    await store.settle(replace(second, state="sent", platform_id="p2"), lazy=True)
    assert await delivery(store, first) == "delivered"
    assert await store.pending() == []


@pytest.mark.parametrize("state", ["dead", "expired"])
async def test_what_follows_a_lost_part_is_lost_with_it(store: Store, state: OutboxState):
    first, second, _ = await answer(store, await take(store, written(id="1")), "one", "two", "three")
    (other,) = await answer(store, await take(store, written(id="2")), "other")
    await store.settle(replace(first, state="sent", platform_id="p"), replace(second, state=state))
    assert await delivery(store, first) == state
    assert [unit.id for unit in await store.pending()] == [other.id]
    assert (await store.counts()).units_dead == (2 if state == "dead" else 0)


async def test_units_wait_in_the_order_in_which_their_messages_were_accepted(bench: Bench):
    store = bench.store
    taken = [await take(store, written(id=str(number)), f"s{number}") for number in range(4)]
    planned = {number: await answer(store, taken[number], "one", "two") for number in (2, 0, 3, 1)}
    expected = [unit for number in range(4) for unit in planned[number]]
    assert list(await (await bench.reopen()).pending()) == expected


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
async def test_a_set_clock_does_not_change_the_order_of_units(bench: Bench, hours: int):
    first = await answer(bench.store, await take(bench.store, written(id="1")), "one", "two")
    bench.clock.jump(timedelta(hours=hours))
    second = await answer(bench.store, await take(bench.store, written(id="2")), "three")
    assert list(await (await bench.reopen()).pending()) == [*first, *second]


# ── items that are appended while the turn runs ─────────────────────────────────────────────────────────────


def blocks(store: Store, accepted: Accepted, claim: Claim, *texts: str, first: int = 0) -> tuple[OutboxItem, ...]:
    """Items that show an answer word by word, each behind the last."""
    items = store.plan(accepted, parts(*texts), claim.turn_id, first)
    spans = [TextRange(0, sum(map(len, texts[:place])), text) for place, text in enumerate(texts)]
    return tuple(replace(item, span=span) for item, span in zip(items, spans, strict=True))


@dataclass
class Appended:
    """A `then` that remembers which items were new."""

    items: list[OutboxItem] = field(default_factory=list[OutboxItem])

    def then(self, items: tuple[OutboxItem, ...]) -> None:
        self.items += items


async def test_items_are_in_the_outbox_while_the_turn_still_runs(bench: Bench):
    store, told = bench.store, Appended()
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    items = blocks(store, accepted, claim, "one", "two")
    await store.append_items(claim, items, told.then)
    assert told.items == list(items)
    assert await store.pending() == list(items)
    record = await store.find(accepted.id)
    assert record is not None
    assert (record.state, record.delivery) == ("running", "pending")
    assert (await bench.reopen()) is not store
    assert await bench.store.pending() == list(items)


async def test_a_finish_plans_behind_what_was_appended(bench: Bench):
    store = bench.store
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    early = blocks(store, accepted, claim, "one", "two")
    await store.append_items(claim, early, Appended().then)
    rest = store.plan(accepted, parts("three"), claim.turn_id, 2)
    finish = replace(ending(store, accepted, claim), units=rest, outcome=ended(reply="three"))
    assert await store.finish(finish, nothing)
    assert [(item.seq, item.outbound.text) for item in await store.pending()] == [(0, "one"), (1, "two"), (2, "three")]
    record = await (await bench.reopen()).find(accepted.id)
    assert record is not None
    assert record.outcome is not None
    assert record.outcome.reply == "three", "one part of several is not the whole reply"


async def test_an_answer_takes_the_place_of_its_preview(bench: Bench):
    store = bench.store
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    (preview,) = (replace(each, is_preview=True) for each in store.plan(accepted, parts("The beg"), claim.turn_id))
    await store.append_items(claim, [preview], Appended().then)
    await store.settle(replace(preview, state="sent", platform_id="p-1"))
    store = await bench.reopen()
    assert (await begin(store, accepted)).items[0].is_preview
    (answer,) = store.plan(accepted, parts("The beginning and the end"), claim.turn_id, 1)
    answer = replace(answer, edits=preview.id)
    claim = await begin(store, accepted)
    finish = replace(ending(store, accepted, claim), units=(answer,), outcome=ended(reply=answer.outbound.text))
    assert await store.finish(finish, nothing)
    store = await bench.reopen()
    assert await store.pending() == [answer]
    found = await store.find_item(preview.id)
    assert found is not None
    assert (found.state, found.platform_id, found.is_preview) == ("sent", "p-1", True)
    assert await store.find_item(f"{preview.id}9") is None
    record = await store.find(accepted.id)
    assert record is not None
    assert record.outcome is not None
    assert record.outcome.reply == "The beginning and the end"


async def test_a_preview_that_was_not_shown_is_not_missed(store: Store):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    (preview,) = (replace(each, is_preview=True) for each in store.plan(accepted, parts("The beg"), claim.turn_id))
    await store.append_items(claim, [preview], Appended().then)
    await store.settle(replace(preview, state="superseded"))
    (answer,) = store.plan(accepted, parts("The beginning and the end"), claim.turn_id, 1)
    assert await store.finish(replace(ending(store, accepted, claim), units=(answer,)), nothing)
    assert await store.pending() == [answer]
    await store.settle(replace(answer, state="sent", platform_id="p-2"))
    record = await store.find(accepted.id)
    assert record is not None
    assert record.delivery == "delivered"


async def test_an_end_without_a_fold_comes_behind_them_too(bench: Bench):
    store = bench.store
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    await store.append_items(claim, blocks(store, accepted, claim, "one"), Appended().then)
    (left,) = await (store := await bench.reopen()).unfinished()
    assert left.items == 1
    units = store.plan(left, parts("sorry"), None, left.items)
    assert await store.end(left.id, ended("failed", "sorry"), units, nothing)
    assert [item.outbound.text for item in await store.pending()] == ["one", "sorry"]


async def test_appending_the_same_items_again_adds_nothing(bench: Bench):
    """As after a crash, or when the caller does not know whether the commit went through."""
    store, told = bench.store, Appended()
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    items = blocks(store, accepted, claim, "one", "two", "three")
    await store.append_items(claim, items[:2], told.then)
    await store.settle(replace(items[0], state="sent", platform_id="p"))
    await store.append_items(claim, items, told.then)
    await (store := await bench.reopen()).append_items(claim, items, told.then)
    assert told.items == list(items), "each was new once"
    assert [item.seq for item in await store.pending()] == [1, 2], "what was sent stays sent"


async def test_other_words_in_the_place_of_an_item_are_refused(store: Store):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    (item,) = blocks(store, accepted, claim, "one")
    await store.append_items(claim, [item], Appended().then)
    for other in (
        replace(item, span=TextRange(0, 0, "only")),
        replace(item, span=TextRange(1, 0, "one")),
        replace(item, span=TextRange(0, 3, "one")),
        replace(item, span=None),
        replace(item, turn_id="t-other-1"),
    ):
        with pytest.raises(SessionError, match="other words"):
            await store.append_items(claim, [other], Appended().then)
    assert await store.pending() == [item]


@pytest.mark.parametrize("seqs", [(1,), (0, 2), (1, 0), (0, 0)])
async def test_items_come_in_order_and_without_a_gap(store: Store, seqs: tuple[int, ...]):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    items = blocks(store, accepted, claim, "one", "two", "three")
    with pytest.raises(SessionError, match="in order"):
        await store.append_items(claim, [items[seq] for seq in seqs], Appended().then)
    assert await store.pending() == []


async def test_after_a_reset_nothing_is_appended(store: Store):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    items = blocks(store, accepted, claim, "one", "two")
    await store.append_items(claim, items[:1], Appended().then)
    await store.reset("s")
    with pytest.raises(Superseded):
        await store.append_items(claim, items[1:], Appended().then)
    assert [item.seq for item in await store.pending()] == [0], "what was said before stays said"


async def test_a_turn_that_ended_appends_nothing(store: Store):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    finish = ending(store, accepted, claim, "whole")
    assert await store.finish(finish, nothing)
    with pytest.raises(Superseded):
        await store.append_items(claim, blocks(store, accepted, claim, "late", first=1), Appended().then)
    assert await store.pending() == list(finish.units)


async def test_whoever_takes_a_turn_up_again_knows_what_was_appended(bench: Bench):
    store = bench.store
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    assert claim.items == ()
    items = blocks(store, accepted, claim, "one ", "two")
    await store.append_items(claim, items, Appended().then)
    sent = replace(items[0], state="sent", platform_id="p")
    await store.settle(sent)
    again = await begin(await bench.reopen(), accepted)
    assert again.items == (sent, items[1])
    await bench.store.append_items(again, blocks(bench.store, accepted, again, "three", first=2), Appended().then)


@pytest.mark.parametrize("state", ["dead", "expired"])
async def test_what_is_appended_behind_a_lost_item_is_lost_with_it(store: Store, state: OutboxState):
    told = Appended()
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    items = blocks(store, accepted, claim, "one", "two")
    await store.append_items(claim, items[:1], told.then)
    await store.settle(replace(items[0], state=state))
    await store.append_items(claim, items[1:], told.then)
    assert [item.state for item in told.items] == ["planned", state]
    rest = store.plan(accepted, parts("three"), claim.turn_id, 2)
    assert await store.finish(replace(ending(store, accepted, claim), units=rest), nothing)
    assert await store.pending() == []
    assert await delivery(store, items[0]) == state


async def test_an_append_goes_through_when_its_caller_is_cancelled(store: Store):
    told = Appended()
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    items = blocks(store, accepted, claim, "one")
    task = asyncio.create_task(store.append_items(claim, items, told.then))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert told.items == list(items) == await store.pending()


async def stale_unit(store: Store, *, id: str = "1") -> OutboxItem:
    accepted = await take(store, written("AAPL?", id=id))
    claim = await begin(store, accepted)
    finish = ending(store, accepted, claim)
    units = store.plan(accepted, (Outbound(text="190", perishable=True), Outbound(text="more")), claim.turn_id)
    assert await store.finish(replace(finish, units=units), nothing)
    return units[0]


async def test_a_stale_answer_expires_and_its_question_is_asked_again_once(bench: Bench):
    store = bench.store
    stale = await stale_unit(store)
    bench.clock.advance(900)
    told = Told()
    again = await store.ask_again(stale, told.accepted)
    assert again is not None
    assert told.what == [again]
    assert (again.ticket, again.session, again.inbound.reissue_of) == (2, "s", stale.inbound_id)
    assert (again.inbound.text, again.accepted_at) == ("AAPL?", bench.clock.now())
    assert await delivery(store, stale) == "expired"
    assert await store.pending() == []
    assert await store.ask_again(stale, told.accepted) is None
    assert [each.id for each in await (await bench.reopen()).unfinished()] == [again.id]
    assert told.times == 1


async def test_what_was_asked_again_is_never_asked_a_third_time(store: Store):
    again = await store.ask_again(await stale_unit(store), nobody)
    assert again is not None
    (second,) = await answer(store, again, "190")
    assert await store.ask_again(second, nobody) is None
    assert await delivery(store, second) == "expired"


async def test_asking_again_twice_at_once_asks_once(store: Store):
    stale = await stale_unit(store)
    told = Told()
    both = await asyncio.gather(store.ask_again(stale, told.accepted), store.ask_again(stale, told.accepted))
    assert [each is None for each in both] == [False, True]
    assert told.times == 1


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_unfinished_messages_come_in_ticket_order_within_each_session(bench: Bench):
    for number in range(12):
        await take(bench.store, written(id=str(number)), f"s{number % 3}")
    done = (await bench.store.unfinished())[5]
    await bench.store.end(done.id, ended("skipped"), (), nothing)
    found = await (await bench.reopen()).unfinished()
    assert len(found) == 11
    for session in ("s0", "s1", "s2"):
        tickets = [each.ticket for each in found if each.session == session]
        assert tickets == sorted(tickets)
    assert done.id not in {each.id for each in found}


async def test_find_tells_a_message_from_accept_to_end(bench: Bench):
    store = bench.store
    accepted = await take(store, written())
    record = await store.find(accepted.id)
    assert record is not None
    assert (record.state, record.outcome, record.delivery, record.attempts) == ("received", None, "none", 0)
    assert (record.session, record.account, record.accepted_at) == ("s", "local", bench.clock.now())
    await begin(store, accepted)
    record = await store.find(accepted.id)
    assert record is not None
    assert (record.state, record.attempts) == ("running", 1)


async def test_find_knows_messages_by_their_own_id_only(store: Store):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    strange = ["", "m", "m-", "1", f"{accepted.id}0", f"{accepted.id}-0", f"{accepted.id} ", claim.turn_id]
    strange += [accepted.id.replace("-1", "-01"), accepted.id.replace("m-", "u-"), "m-x-1", f"m-{'9' * 40}"]
    for name in strange:
        assert await store.find(name) is None, name


async def test_turns_come_newest_first(store: Store):
    for number in range(5):
        await answer(store, await take(store, written(id=str(number)), f"s{number}"))
    running = await begin(store, await take(store, written(id="running")))
    turns = await store.turns(3)
    assert [turn.session for turn in turns] == ["s", "s4", "s3"]
    assert (turns[0].turn_id, turns[0].status, turns[0].ended_at) == (running.turn_id, "running", None)


async def test_counts(store: Store):
    waiting = await take(store, written(id="1"), "s1")
    await begin(store, await take(store, written(id="2"), "s2"))
    first, _ = await answer(store, await take(store, written(id="3"), "s3"), "one", "two")
    await store.settle(replace(first, state="dead"))
    await answer(store, await take(store, written(id="4"), "s4"), "one", "two")
    failed = await take(store, written(id="5"), "s4")
    await store.end(failed.id, ended("failed"), (), nothing)
    counts = await store.counts()
    assert waiting.ticket == 1
    assert (counts.sessions, counts.waiting, counts.running, counts.ended) == (4, 1, 1, 3)
    assert (counts.units_pending, counts.units_dead, counts.dead_letters) == (2, 2, 1)


# ── sessions ────────────────────────────────────────────────────────────────────────────────────────────────


async def keys(store: Store, limit: int = 100, *, containing: str = "") -> list[str]:
    """Every session, a page at a time."""
    found: list[str] = []
    page = await store.sessions(limit, containing=containing)
    found += [each.key for each in page.items]
    while page.after is not None:
        page = await store.sessions(limit, page.after, containing)
        assert 1 <= len(page.items) <= limit
        found += [each.key for each in page.items]
    return found


async def test_a_session_is_listed_with_what_it_holds(bench: Bench):
    store, began = bench.store, bench.clock.now()
    await answer(store, await take(store, written(id="1"), "s"))
    bench.clock.advance(60)
    await answer(store, await take(store, written(id="2"), "s"))
    command = await take(store, written(id="3"), "s")
    await store.end(command.id, ended("command"), (), nothing)
    await begin(store, await take(store, written(id="4"), "s"))
    (record,) = (await (await bench.reopen()).sessions(10)).items
    assert (record.key, record.messages, record.turns) == ("s", 4, 2)
    assert (record.created_at, record.updated_at) == (began, bench.clock.now())


async def test_the_most_recently_used_session_comes_first(bench: Bench):
    for number in range(7):
        await take(bench.store, written(id=str(number)), f"s{number}")
        bench.clock.advance(1)
    await take(bench.store, written(id="again"), "s3")
    expected = ["s3", "s6", "s5", "s4", "s2", "s1", "s0"]
    for limit in (1, 2, 3, 7, 100):
        assert await keys(bench.store, limit) == expected


async def test_sessions_of_one_moment_are_each_listed_once(store: Store):
    await asyncio.gather(*(take(store, written(id=str(number)), f"s{number}") for number in range(20)))
    for limit in (1, 3, 19, 20):
        assert sorted(await keys(store, limit)) == sorted(f"s{number}" for number in range(20))


async def test_who_moves_to_the_front_while_one_pages_hides_nobody_and_is_not_seen_twice(bench: Bench):
    for number in range(9):
        await take(bench.store, written(id=str(number)), f"s{number}")
        bench.clock.advance(1)
    first = await bench.store.sessions(3)
    await take(bench.store, written(id="seen"), "s7")
    await take(bench.store, written(id="new"), "new")
    rest = await bench.store.sessions(100, first.after)
    assert [each.key for each in first.items] == ["s8", "s7", "s6"]
    assert [each.key for each in rest.items] == ["s5", "s4", "s3", "s2", "s1", "s0"]
    assert rest.after is None


HOSTILE = ["'", '"', "%", "_", "\\", "*", "?", "[", "a%'; DROP TABLE session; --", "가", "\0", "\ud800", "x" * 100_000]


@pytest.mark.parametrize("text", HOSTILE)
async def test_a_filter_takes_any_text_as_it_is(store: Store, text: str):
    await take(store, written(id="1"), "plain")
    if text != "\ud800":  # half a character is in no key
        await take(store, written(id="2"), f"a{text}b")
        assert await keys(store, containing=text) == [f"a{text}b"]
    assert await keys(store, containing=f"no {text}") == []


async def test_a_filter_goes_with_every_page(store: Store):
    for number in range(12):
        await take(store, written(id=str(number)), f"{'even' if number % 2 == 0 else 'odd'}{number}")
    assert len(await keys(store, 2, containing="even")) == 6


@pytest.mark.parametrize("after", ["", "x", "1", "1-", "-", "1-1-1", "9" * 99, "1-1; DROP TABLE session", "١-١"])
async def test_a_place_that_is_none_is_refused(store: Store, after: str):
    with pytest.raises(SessionError, match="no place in the list"):
        await store.sessions(10, after)


async def test_messages_are_counted_through_everything_that_changes_them(store: Store):
    await answer(store, await take(store, written(id="1")))
    accepted = await take(store, written(id="2"))
    events: list[TurnEvent] = [Truncate(1), Remove("a-1"), *adds("x", "y", "z"), Replace("y", said("Y"))]
    await store.finish(ending(store, accepted, await begin(store, accepted), "ok", events=events), nothing)
    assert (await store.sessions(1)).items[0].messages == len(await store.messages("s")) > 0
    await store.reset("s")
    (record,) = (await store.sessions(1)).items
    assert (record.messages, record.turns) == (0, 2)


# ── restore ─────────────────────────────────────────────────────────────────────────────────────────────────


def copied(*ids: str) -> list[Message]:
    return [said(id) for id in ids]


async def test_a_new_session_gets_the_messages_it_is_given(bench: Bench):
    given = [event.message for event in (*tool_step("c"), *tool_answer("c")) if isinstance(event, Append)]
    await bench.store.restore("copy", given)
    store = await bench.reopen()
    assert list(await store.messages("copy")) == given
    (record,) = (await store.sessions(10)).items
    assert (record.key, record.messages, record.turns) == ("copy", 2, 0)
    assert record.created_at == record.updated_at == bench.clock.now()


async def test_a_restored_session_goes_on(store: Store):
    await store.restore("copy", copied("1", "2"))
    claim = await begin(store, await take(store, written(id="3"), "copy"), known=0)
    assert claim.base == tuple(copied("1", "2"))


async def test_what_was_known_of_a_session_before_is_not_current(store: Store):
    await answer(store, await take(store, written(id="1")))
    await store.reset("s")
    empty = await begin(store, await take(store, written(id="2")))
    await store.end(empty.inbound_id, ended("stopped"), (), nothing)
    await store.restore("s", copied("new"))
    claim = await begin(store, await take(store, written(id="3")), known=empty.version)
    assert claim.base == tuple(copied("new"))
    assert claim.epoch > empty.epoch


async def test_a_session_with_messages_is_not_overwritten(store: Store):
    await answer(store, await take(store, written()))
    with pytest.raises(SessionError, match="'s' has 2 messages"):
        await store.restore("s", copied("x"))
    assert [message.id for message in await store.messages("s")] == ["q-1", "a-1"]


async def test_a_session_with_a_message_on_the_road_is_not_filled_under_it(store: Store):
    await take(store, written())
    with pytest.raises(SessionError, match="not answered yet"):
        await store.restore("s", copied("x"))
    assert await store.messages("s") == ()


async def test_two_messages_of_one_id_are_refused_and_nothing_is_written(store: Store):
    with pytest.raises(SessionError, match="same id"):
        await store.restore("s", copied("1", "2", "1"))
    assert await store.messages("s") == ()
    assert await keys(store) == []


async def test_two_restores_at_once_are_one(store: Store):
    results = await asyncio.gather(
        *(store.restore("s", copied(str(number))) for number in range(4)), return_exceptions=True
    )
    assert [type(each) for each in results if each is not None] == [SessionError] * 3
    assert len(await store.messages("s")) == 1


# ── prune ───────────────────────────────────────────────────────────────────────────────────────────────────


async def used(bench: Bench, session: str, *, id: str, sent: bool = True) -> Accepted:
    """A whole exchange in a session, delivered or not."""
    accepted = await take(bench.store, written(id=id), session)
    units = await answer(bench.store, accepted, "one", "two")
    if sent:
        await bench.store.settle(*(replace(unit, state="sent") for unit in units))
    return accepted


async def prune(bench: Bench, days: int = 365, *, dry_run: bool = False) -> tuple[int, int]:
    pruned = await bench.store.prune(bench.clock.now() - timedelta(days=days), dry_run=dry_run)
    return pruned.messages, pruned.sessions


async def test_what_is_old_goes_and_what_is_not_stays(bench: Bench):
    old = await used(bench, "old", id="1")
    mixed = await used(bench, "mixed", id="2")
    await bench.store.remember("notes", "old", {"seen": 1})
    await bench.store.remember("notes", "mixed", {"seen": 2})
    await bench.store.remember("notes", "", {"seen": 3})
    bench.clock.advance(400 * 86_400)
    young = await used(bench, "mixed", id="3")
    assert await prune(bench, dry_run=True) == (2, 1)
    assert await keys(bench.store) == ["mixed", "old"], "a dry run removes nothing"
    assert await prune(bench) == (2, 1)
    store = await bench.reopen()
    assert await keys(store) == ["mixed"]
    assert [(await store.find(each.id)) is None for each in (old, mixed, young)] == [True, True, False]
    assert await store.messages("old") == ()
    assert len(await store.messages("mixed")) == 4, "a conversation that goes on keeps what was said"
    assert [turn.inbound_id for turn in await store.turns(10)] == [young.id]
    assert await store.recall("notes", "old") is None
    assert [await store.recall("notes", each) for each in ("mixed", "")] == [{"seen": 2}, {"seen": 3}]
    assert (await store.counts()).ended == 1
    assert await prune(bench) == (0, 0)


async def test_what_is_not_finished_stays_with_its_session(bench: Bench):
    waiting = await take(bench.store, written(id="waiting"), "waiting")
    running = await take(bench.store, written(id="running"), "running")
    await begin(bench.store, running)
    bench.clock.advance(400 * 86_400)
    await used(bench, "now", id="now")
    assert await prune(bench, dry_run=True) == await prune(bench) == (0, 0)
    store = await bench.reopen()
    assert [each.id for each in await store.unfinished()] == [waiting.id, running.id]
    assert len((await store.claim(running, (), None)).events) == 1
    assert len(await keys(store)) == 3


@pytest.mark.parametrize("state", ["planned", "sending", "unknown"])
async def test_what_is_not_sent_stays_with_its_session(bench: Bench, state: OutboxState):
    units = await answer(bench.store, await take(bench.store, written(id="1"), "old"), "one", "two")
    await bench.store.settle(replace(units[0], state="sent"), replace(units[1], state=state))
    bench.clock.advance(400 * 86_400)
    await used(bench, "now", id="now")
    assert await prune(bench, dry_run=True) == await prune(bench) == (0, 0)
    store = await bench.reopen()
    assert [unit.id for unit in await store.pending()] == [units[1].id]
    assert len(await store.messages("old")) == 2


async def test_what_ended_late_stays_although_it_came_long_ago(bench: Bench):
    accepted = await take(bench.store, written(id="1"), "old")
    bench.clock.advance(400 * 86_400)
    await bench.store.end(accepted.id, ended("expired"), (), nothing)
    await used(bench, "now", id="now")
    assert await prune(bench) == (0, 0)
    assert await bench.store.find(accepted.id) is not None


@pytest.mark.parametrize("state", ["dead", "expired"])
async def test_what_could_not_be_sent_goes_when_it_is_old(bench: Bench, state: OutboxState):
    first, _ = await answer(bench.store, await take(bench.store, written(id="1"), "old"), "one", "two")
    await bench.store.settle(replace(first, state=state))
    bench.clock.advance(400 * 86_400)
    await used(bench, "now", id="now")
    assert await prune(bench) == (1, 1)
    assert (await bench.store.counts()).units_dead == 0


async def test_nothing_goes_that_a_platform_may_deliver_again(bench: Bench):
    old = await used(bench, "s", id="1")
    bench.clock.advance(29 * 86_400)
    await used(bench, "t", id="2")
    assert await prune(bench, days=0) == await prune(bench, days=-10_000) == (0, 0)
    again = await take(bench.store, written(id="1"), "s")
    assert (again.id, again.duplicate) == (old.id, True)
    bench.clock.advance(2 * 86_400)
    assert await prune(bench, days=0) == (1, 1)


async def test_an_id_is_never_given_twice(bench: Bench):
    before = [(await used(bench, "s", id=str(number))).id for number in range(3)]
    bench.clock.advance(400 * 86_400)
    await prune(bench)
    store = await bench.reopen()
    assert (await take(store, written(id="new"), "s")).id not in before


async def test_a_session_of_a_removed_ones_name_begins_with_nothing(bench: Bench):
    await used(bench, "s", id="1")
    bench.clock.advance(400 * 86_400)
    await used(bench, "t", id="2")
    assert await prune(bench) == (1, 1)
    claim = await begin(bench.store, await take(bench.store, written(id="3"), "s"), known=1)
    assert claim.base == ()
    assert claim.session_started_at == bench.clock.now()


async def test_a_copy_is_kept_as_long_as_if_it_had_been_written(bench: Bench):
    await bench.store.restore("copy", copied("1"))
    bench.clock.advance(364 * 86_400)
    assert await prune(bench) == (0, 0)
    bench.clock.advance(2 * 86_400)
    assert await prune(bench) == (0, 1)


async def test_many_go_while_others_write(bench: Bench):
    store = bench.store
    for number in range(40):
        taken = await asyncio.gather(
            *(take(store, written(id=f"{number}.{each}"), f"s{number}.{each}") for each in range(40))
        )
        await asyncio.gather(*(store.end(each.id, ended("skipped"), (), nothing) for each in taken))
    bench.clock.advance(400 * 86_400)
    pruned, *taken = await asyncio.gather(
        prune(bench), *(take(store, written(id=str(number)), f"s0.{number}") for number in range(10))
    )
    assert pruned == (1_600, 1_590)
    assert len(await store.unfinished()) == len(taken) == 10
    assert len(await keys(store)) == 10


# ── many at once ────────────────────────────────────────────────────────────────────────────────────────────


async def test_one_that_fails_takes_nobody_with_it(store: Store):
    await take(store, written("known", id="known"))
    reset = await take(store, written(id="reset"), "r")
    superseded = await begin(store, reset)
    await store.reset("r")
    results = await asyncio.gather(
        *(take(store, written(id=str(number))) for number in range(10)),
        take(store, written("another body", id="known")),
        store.record(superseded, 1, adds("late"), nothing),
        store.end("m-not-ours", ended(), (), nothing),
        *(take(store, written(id=str(number))) for number in range(10, 20)),
        return_exceptions=True,
    )
    failures = [type(each) for each in results if isinstance(each, BaseException)]
    assert failures == [InboundConflict, Superseded, SessionError]
    assert len(await store.unfinished()) == 22


async def test_whatever_was_asked_before_closing_is_done(bench: Bench):
    accepts = [asyncio.create_task(take(bench.store, written(id=str(number)))) for number in range(10)]
    units = await answer(bench.store, await take(bench.store, written(id="answered")))
    receipt = asyncio.create_task(bench.store.settle(replace(units[0], state="sent"), lazy=True))
    await asyncio.sleep(0)
    store = await bench.reopen()
    await asyncio.gather(*accepts)
    await receipt
    assert len(await store.unfinished()) == 10
    assert await store.pending() == []


async def test_a_closed_store_says_so_and_can_be_closed_again(bench: Bench):
    await bench.store.close()
    with pytest.raises(SessionError, match="closed"):
        await take(bench.store, written())
    await bench.store.close()


# ── a turn, told afterwards ─────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_is_told_with_what_it_began_with_and_what_it_added(bench: Bench):
    store = bench.store
    await answer(store, await take(store, written(id="1")))
    accepted = await take(store, written("  삼성전자 시세  ", id="2"))
    bench.clock.advance(5)
    claim = await begin(store, accepted)
    await store.record(claim, 1, [*tool_step("c"), *tool_answer("c")], nothing)
    finish = ending(store, accepted, claim, "75,300", "원", events=adds("a-2", role="assistant"), steps=2)
    assert await store.finish(finish, nothing)
    await answer(store, await take(store, written(id="3")))
    await answer(store, await take(store, written(id="4"), "t"))
    store = await bench.reopen()
    story = await store.turn(claim.turn_id)
    assert story is not None
    assert [message.id for message in story.before] == ["q-1", "a-1"]
    assert [message.id for message in story.messages] == ["q-2", "ask-c", "told-c", "a-2"]
    assert story.whole
    assert story.inbound == accepted.inbound
    assert story.accepted_at == accepted.accepted_at
    assert story.outcome is not None
    assert story.outcome.reply == "75,300 원"
    assert story.record == next(each for each in await store.turns(9) if each.turn_id == claim.turn_id)
    assert (story.record.steps, story.record.opening) == (2, "  삼성전자 시세  ")
    assert await store.turn(accepted.id) == story, "its message's id will do"


async def test_a_turn_that_runs_is_told_as_far_as_its_log_goes(bench: Bench):
    store = bench.store
    await answer(store, await take(store, written(id="1")))
    accepted = await take(store, written(id="2"))
    claim = await begin(store, accepted)
    await store.record(claim, 1, tool_step("c"), nothing)
    story = await store.turn(claim.turn_id)
    assert story is not None
    assert [message.id for message in story.before] == ["q-1", "a-1"]
    assert [message.id for message in story.messages] == ["q-2", "ask-c"]
    assert (story.whole, story.outcome, story.record.ended_at) == (True, None, None)
    assert await (await bench.reopen()).turn(claim.turn_id) == story


async def test_a_turn_whose_messages_are_gone_is_not_whole(store: Store):
    first, second = await take(store, written(id="1")), await take(store, written(id="2"))
    await answer(store, first)
    claim = await begin(store, second)
    events: list[TurnEvent] = [Truncate(2), *adds("a-2", role="assistant")]
    assert await store.finish(ending(store, second, claim, "ok", events=events), nothing)
    shortened, whole = await store.turn(first.id), await store.turn(second.id)
    assert shortened is not None
    assert whole is not None
    assert ([message.id for message in shortened.messages], shortened.whole) == (["a-1"], False)
    assert ([message.id for message in whole.messages], whole.whole) == (["q-2", "a-2"], True)
    await store.reset("s")
    await answer(store, await take(store, written(id="3")))
    for accepted in (first, second):
        story = await store.turn(accepted.id)
        assert story is not None
        assert (story.messages, story.whole) == ((), False)
        assert story.outcome is not None, "how it ended is known all the same"


async def test_a_turn_that_was_superseded_is_told_without_messages(store: Store):
    accepted = await take(store, written())
    claim = await begin(store, accepted)
    await store.reset("s")
    await store.end(accepted.id, ended("stopped", None), (), nothing)
    story = await store.turn(claim.turn_id)
    assert story is not None
    assert (story.record.status, story.messages, story.whole) == ("aborted", (), False)


async def test_no_turn_no_story(store: Store):
    accepted = await take(store, written())
    assert await store.turn(accepted.id) is None, "it has not begun"
    await store.end(accepted.id, ended("command"), (), nothing)
    for name in (accepted.id, "", "last", "t-00000000-1", "t-x-1", "m-1-1-1"):
        assert await store.turn(name) is None
