"""The contract of the Inbox port for edits, deletions, reactions and pressed buttons: each is accepted once."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.ports.bench import Bench
from tests.ports.nouns import AT, take, written

from finclaw.errors import InboundConflict
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.store_port import Store


def edited(text: str, *, seconds: int = 0) -> Inbound:
    change = replace(written(text), kind="edit", target="1", sent_at=AT + timedelta(seconds=seconds))
    return replace(change, message_id=f"update-{text}-{seconds}")


async def test_an_edit_is_no_conflict_with_its_message(store: Store):
    await take(store, written("first words"))
    with pytest.raises(InboundConflict):
        await take(store, written("other words"))
    assert not (await take(store, edited("other words"))).duplicate


async def test_an_edit_is_known_by_its_message_and_its_time(bench: Bench):
    first = await take(bench.store, edited("new words", seconds=1))
    later = await take(bench.store, edited("newer words", seconds=2))
    back = await take(bench.store, edited("new words", seconds=3))
    assert len({first.id, later.id, back.id}) == 3
    store = await bench.reopen()
    again = await take(store, replace(edited("new words", seconds=1), message_id="delivered again"))
    assert (again.id, again.duplicate) == (first.id, True)


async def test_two_edits_within_one_second_are_two(store: Store):
    one, two = await take(store, edited("one")), await take(store, edited("two"))
    assert not two.duplicate
    assert (await take(store, edited("one"))).id == one.id
    assert (await take(store, edited("two"))).id == two.id


async def test_a_message_is_deleted_once_whoever_did_it(store: Store):
    gone = replace(written("", id="update-1"), kind="delete", target="1")
    first = await take(store, gone)
    again = await take(store, replace(gone, message_id="update-2", sender=replace(gone.sender, id="moderator")))
    assert (again.id, again.duplicate) == (first.id, True)
    assert not (await take(store, replace(gone, target="2"))).duplicate


async def test_reactions_and_actions_have_ids_of_their_own(store: Store):
    message = await take(store, written("👍", id="1"))
    liked = replace(written("👍", id="1"), kind="reaction", target="1")
    pressed = replace(liked, kind="action", text="/help")
    ids = {message.id, (await take(store, liked)).id, (await take(store, pressed)).id}
    assert len(ids) == 3
    assert (await take(store, liked)).duplicate
    assert (await take(store, pressed)).duplicate


async def test_what_was_accepted_is_read_as_it_was_given(bench: Bench):
    given = edited("new words")
    await take(bench.store, given, "s")
    (left,) = await (await bench.reopen()).unfinished()
    assert left.inbound == given
