"""The contract of keys: what an extension has said under one is not said again, whatever became of the message."""

from datetime import timedelta

from msgspec.structs import replace
from tests.ports.bench import Bench
from tests.ports.nouns import Told, ended, nothing, take, written

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.store_port import Store


def saying(key: str = "k", *, conversation: str = "room") -> Inbound:
    words = written("By the way", id=f"said:mine:{key}", conversation=conversation)
    return replace(words, from_extension="mine", once="here")


async def end(store: Store, inbound: Inbound) -> str:
    accepted = await take(store, inbound)
    await store.end(accepted.id, ended("command"), (), nothing)
    return accepted.id


async def prune_all(bench: Bench) -> int:
    """All but the newest message, which always stays."""
    bench.clock.advance(400 * 86_400)
    await take(bench.store, written(id="newest"))
    return (await bench.store.prune(bench.clock.now() - timedelta(days=365))).messages


async def test_a_key_outlives_its_message(bench: Bench):
    said = await end(bench.store, saying())
    assert await prune_all(bench) == 1
    told, store = Told(), await bench.reopen()
    again = await store.accept(saying(), "s", told.accepted)
    assert (again.id, again.duplicate, told.times) == (said, True, 0)
    assert not (await take(store, saying("another"))).duplicate


async def test_a_key_in_a_conversation_is_of_that_conversation(store: Store):
    await end(store, saying())
    assert not (await take(store, saying(conversation="elsewhere"))).duplicate


async def test_a_key_for_a_person_holds_wherever_they_are(store: Store):
    first = await end(store, replace(saying(), once="anywhere"))
    again = await take(store, replace(saying(conversation="elsewhere"), once="anywhere"))
    assert (again.id, again.duplicate) == (first, True)


async def test_what_has_no_key_is_forgotten_with_its_message(bench: Bench):
    await end(bench.store, replace(saying(), once=None))
    assert await prune_all(bench) == 1
    assert not (await take(bench.store, replace(saying(), once=None))).duplicate
