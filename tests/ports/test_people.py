"""The contract of persons: one human being for all their identities, and nothing of theirs lost on the way."""

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.machine import examples
from tests.ports.bench import OPENERS, Bench, BenchClock
from tests.ports.nouns import begin, ending, nothing, take, written
from tests.ports.state_search import found_in

from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Inbound, Limits, Sender
from finclaw.kernel.person import Person
from finclaw.kernel.record import SenderId, Spend
from finclaw.kernel.store_port import Store

ADA, BOB, SLACK = "memory:local:ada", "memory:local:bob", "slack:team%3A1:U1"


async def write(store: Store, inbound: Inbound) -> None:
    await begin(store, await take(store, inbound, f"s-{inbound.message_id}"))


async def spend(store: Store, id: str, user: str, cost: str = "0.1") -> None:
    accepted = await take(store, written(id=id, sender=user.rpartition(":")[2]), f"s-{id}")
    line = Spend(
        day=date(2026, 3, 4),
        agent="main",
        user=user,
        model="a/one",
        calls=1,
        usage=Usage(10, 5),
        cost=Decimal(cost),
        saved=Decimal(0),
    )
    claim = await begin(store, accepted)
    assert await store.finish(replace(ending(store, accepted, claim, "ok"), spend=(line,)), nothing)


async def spent(store: Store) -> dict[str, str]:
    return {each.name: str(each.cost) for each in await store.costs(date.min, "user")}


async def test_whoever_gets_a_turn_is_a_person_of_their_own(bench: Bench) -> None:
    store = bench.store
    assert await store.find_person(ADA) is None
    named = replace(written(id="1"), sender=Sender("ada", "Ada L."))
    await write(store, named)
    await write(store, replace(named, message_id="2", sender=Sender("ada", "another name")))
    await write(store, written(id="3", sender="bob"))
    store = await bench.reopen()
    assert await store.find_person(ADA) == Person(id=ADA, name="Ada L.", identities=(ADA,))
    assert [each.id for each in await store.people()] == [ADA, BOB]
    assert [each.id for each in await store.people(1, ADA)] == [BOB]
    assert await store.known_people() == []


async def test_a_message_that_only_waits_makes_nobody(bench: Bench) -> None:
    await take(bench.store, written(id="1"), "s")
    assert await bench.store.people() == []


@pytest.mark.parametrize("fields", [{"limits": Limits(pool="subagent")}, {"from_extension": "alerts"}])
async def test_the_gateways_own_messages_make_nobody(bench: Bench, fields: dict[str, object]) -> None:
    await write(bench.store, replace(written(id="1"), **fields))
    assert await bench.store.people() == []


async def test_preferences_stay_with_the_person(bench: Bench) -> None:
    store = bench.store
    await write(store, written(id="1"))
    kept = Person(
        id=ADA,
        name="에이다",
        language="ko",
        timezone="Asia/Seoul",
        currency="KRW",
        market="KRX",
        colors="red-up",
        compliance="retail",
        identities=(ADA,),
    )
    await store.save_person(kept)
    await write(store, written(id="2"))
    store = await bench.reopen()
    assert await store.find_person(ADA) == kept
    assert await store.find_person("에이다") == kept
    assert await store.known_people() == [kept]


async def test_somebody_who_never_wrote_can_have_preferences(bench: Bench) -> None:
    await bench.store.save_person(Person(id=ADA, language="en"))
    assert await bench.store.find_person(ADA) == Person(id=ADA, language="en", identities=(ADA,))


async def test_a_name_that_two_have_is_nobodys(bench: Bench) -> None:
    for who in (ADA, BOB):
        await bench.store.save_person(Person(id=who, name="Kim"))
    assert await bench.store.find_person("Kim") is None


async def test_entries_make_persons_and_keep_what_is_known(bench: Bench) -> None:
    store = bench.store
    await store.save_person(Person(id=BOB, currency="USD"))
    entries = [("Ada", (ADA, SLACK)), ("Robert", (BOB,)), ("nobody", ())]
    await store.seed_people(entries)
    await store.seed_people(entries)
    store = await bench.reopen()
    ada = await store.find_person(SLACK)
    assert ada == Person(id=ADA, name="Ada", identities=(ADA, SLACK), former=(SLACK,))
    assert await store.find_person(BOB) == Person(id=BOB, name="Robert", currency="USD", identities=(BOB,))
    await write(store, Inbound(text="hi", channel="slack", account="team:1", sender=Sender("U1"), message_id="9"))
    assert [each.id for each in await store.people()] == [ADA, BOB]


async def test_linking_takes_along_what_was_spent(bench: Bench) -> None:
    store = bench.store
    await spend(store, "1", ADA, "0.1")
    await spend(store, "2", BOB, "0.25")
    await store.seed_people([("Ada", (ADA, BOB))])
    assert await spent(store) == {ADA: "0.35"}
    assert [each.id for each in await store.people()] == [ADA]


async def test_an_entry_that_is_gone_leaves_its_person(bench: Bench) -> None:
    store = bench.store
    await store.seed_people([("Ada", (ADA, SLACK))])
    await store.seed_people([])
    found = await store.find_person(SLACK)
    assert found is not None
    assert found.id == ADA


@pytest.mark.parametrize("turned", [False, True])
async def test_a_wrong_link_can_be_taken_apart(bench: Bench, turned: bool) -> None:
    store = bench.store
    await spend(store, "1", ADA)
    await store.seed_people([("Ada", (ADA, BOB))])
    entries = [("Bob", (BOB,)), ("Ada", (ADA,))]
    await store.seed_people(entries[::-1] if turned else entries)
    ada, bob = await store.find_person(ADA), await store.find_person(BOB)
    assert (ada, bob) == (
        Person(id=ADA, name="Ada", identities=(ADA,)),
        Person(id=BOB, name="Bob", identities=(BOB,)),
    )
    assert await spent(store) == {ADA: "0.1"}


async def test_forgetting_the_last_identity_forgets_the_person_and_keeps_the_sum(bench: Bench) -> None:
    store, who, other = bench.store, "memory:local:zebra7", "slack:t:zebra8"
    await spend(store, "1", who, "0.1")
    await store.seed_people([("Zoe zebra9", (who, other))])
    await spend(store, "2", BOB, "0.2")
    await store.erase_person(SenderId.parse(other), lambda _: None)
    left = await store.find_person(who)
    assert left is not None
    assert left.identities == (who,)
    await store.erase_person(SenderId.parse(who), lambda key: "own" if key == "s-1" else None)
    await store.scrub()
    assert await store.find_person(who) is None
    assert await spent(store) == {BOB: "0.2", "forgotten": "0.1"}
    for name in ("zebra7", "zebra8", "zebra9"):
        assert found_in(bench.where, name) == []


_who = st.sampled_from([f"c:{number}:x" for number in range(5)])


@given(st.lists(st.lists(st.lists(_who, max_size=3, unique=True), max_size=3), max_size=4))
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_the_settings_said_over_time_everybody_is_one_person_and_no_spend_is_lost(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[list[str]]]
) -> None:
    async def walk() -> None:
        store = OPENERS["sqlite-loop"](tmp_path_factory.mktemp("people"), clock)
        for number in range(5):
            await spend(store, str(number), f"c:{number}:x", "1")
        for groups in history:
            seen: set[str] = set()
            entries = [
                (f"e{n}", [who for who in group if not (who in seen or seen.add(who))])
                for n, group in enumerate(groups)
            ]
            await store.seed_people(entries)
            for name, known_as in entries:
                found = {each.id: each for who in known_as if (each := await store.find_person(who)) is not None}
                assert len(found) == (1 if known_as else 0)
                assert all(each.name == name for each in found.values())
            everybody = await store.people()
            identities = [who for each in everybody for who in each.identities]
            assert len(identities) == len(set(identities))
            assert all(each.identities for each in everybody)
        assert sum(map(Decimal, (await spent(store)).values())) == 5
        await store.close()

    clock = BenchClock()
    clock.run(walk())
