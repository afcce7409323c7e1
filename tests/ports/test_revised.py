"""The contract of stops, edits and undone turns: what a person takes back stays taken back, in one commit each."""

from msgspec.structs import replace
from tests.ports.bench import Bench
from tests.ports.nouns import answer, begin, ended, ending, nothing, parts, take, written

from finclaw.kernel.envelope import Outbound
from finclaw.kernel.message import Remove
from finclaw.kernel.record import StopMark
from finclaw.kernel.store_port import Store


async def test_a_stopped_message_comes_back_with_its_mark(bench: Bench):
    one, other = [await take(bench.store, written(id=id)) for id in ("1", "2")]
    await bench.store.mark_stopped([one.id], StopMark("stopped by the person", told=True))
    store = await bench.reopen()
    marks = {each.id: each.stop for each in await store.unfinished()}
    assert marks == {one.id: StopMark("stopped by the person", told=True), other.id: None}


async def test_what_nobody_has_begun_to_send_is_withdrawn_but_no_confirmation(store: Store):
    accepted = await take(store, written())
    units = store.plan(accepted, [*parts("a long answer"), Outbound(text="bought", kind="confirmation")], None)
    await store.end(accepted.id, ended(), units, nothing)
    await store.mark_stopped([accepted.id], StopMark("its answer was stopped"))
    assert [each.outbound.text for each in await store.pending()] == ["bought"]


async def test_a_message_that_waits_gets_other_words_and_one_whose_turn_has_begun_keeps_its_own(store: Store):
    running, waiting = [await take(store, written(f"words {id}", id=id)) for id in ("1", "2")]
    await begin(store, running)
    assert await store.amend(running.id, replace(running.inbound, text="too late")) is None
    amended = await store.amend(waiting.id, replace(waiting.inbound, text="better", edited=True))
    assert amended is not None
    assert (amended.id, amended.ticket, amended.inbound.text) == (waiting.id, waiting.ticket, "better")
    assert (await take(store, waiting.inbound)).duplicate, "delivered again with its first words it is known"


async def test_the_target_of_an_edit_is_found_in_its_conversation_alone(store: Store):
    accepted = await take(store, written(id="1"))
    edit = replace(accepted.inbound, kind="edit", message_id="e", target="1")
    found = await store.find_target(edit)
    assert found is not None
    assert found.id == accepted.id
    assert await store.find_target(replace(edit, conversation="elsewhere")) is None
    assert await store.find_target(replace(edit, target="2")) is None


async def test_an_undone_turn_is_out_of_the_conversation_and_on_record(bench: Bench):
    store = bench.store
    for number in ("1", "2"):
        await answer(store, await take(store, written(id=number)))
    last = await store.last_turn("s")
    assert last is not None
    assert [message.id for message in last.messages] == ["q-2", "a-2"]
    command = await take(store, written(id="undo"))
    claim = await begin(store, command)
    events = [Remove("q-undo"), *(Remove(message.id) for message in last.messages)]
    finish = ending(store, command, claim, "taken back", events=events)
    assert await store.finish(replace(finish, undoes=last.record.turn_id), nothing)
    store = await bench.reopen()
    assert [message.id for message in await store.messages("s")] == ["q-1", "a-1"]
    undone, first = await store.turn(last.record.turn_id), await store.last_turn("s")
    assert undone is not None
    assert (undone.record.status, undone.record.cost, undone.whole) == ("undone", last.record.cost, False)
    assert first is not None
    assert [message.id for message in first.messages] == ["q-1", "a-1"]
    await store.reset("s")
    assert await store.last_turn("s") is None
