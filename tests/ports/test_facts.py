"""The contract of facts: what tools told a session is found without its history, and stays as long as the session."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.ports.bench import Bench
from tests.ports.nouns import adds, begin, ended, ending, nothing, take, written
from tests.ports.state_search import found_in

from finclaw.errors import Superseded
from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message, Source, ToolResult
from finclaw.kernel.record import Accepted, Finish
from finclaw.kernel.store_port import Store

AT = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)


def price(value: str, subject: str = "AAPL", **fields: object) -> Fact:
    return Fact(subject=subject, field="price", value=Decimal(value), as_of=AT, source="demo", **fields)  # pyright: ignore


async def prepared(store: Store, id: str, *facts: Fact, session: str = "s") -> tuple[Accepted, Finish]:
    accepted = await take(store, written(id=id), session)
    claim = await begin(store, accepted)
    finish = ending(store, accepted, claim, "ok", events=adds(f"a-{id}", role="assistant"))
    return accepted, replace(finish, outcome=replace(ended(), facts=facts))


async def tell(store: Store, id: str, *facts: Fact, session: str = "s") -> Finish:
    _, finish = await prepared(store, id, *facts, session=session)
    assert await store.finish(finish, nothing)
    await store.settle(*(replace(unit, state="sent") for unit in finish.units))
    return finish


async def told(store: Store, session: str = "s", subject: str | None = None) -> list[Fact]:
    return [each.fact for each in await store.facts(session, subject)]


async def test_facts_come_back_as_they_were_told_the_newest_first(bench: Bench) -> None:
    store = bench.store
    rich = price(
        "190.50",
        currency="USD",
        unit="per share",
        venue="NXT",
        phase="after",
        stale=True,
        inputs=("AAPL open @ 9", "환율"),
    )
    first = await tell(store, "1", price("1e-20"), rich)
    second = await tell(store, "2", price("70000", "삼성전자"))
    await tell(store, "3", price("7"), session="other")
    store = await bench.reopen()
    assert await store.facts("s") == [
        SessionFact(turn_id=second.turn_id, fact=price("70000", "삼성전자")),
        SessionFact(turn_id=first.turn_id, fact=rich),
        SessionFact(turn_id=first.turn_id, fact=price("1e-20")),
    ]
    assert await told(store, subject="AAPL") == [rich, price("1e-20")]
    assert [each.fact for each in await store.facts("s", limit=1)] == [price("70000", "삼성전자")]
    assert await told(store, "nobody") == []


async def test_a_fact_is_told_once_by_a_turn_and_not_at_all_by_one_that_had_ended(bench: Bench) -> None:
    finish = await tell(bench.store, "1", price("1"), price("2"), price("1"))
    assert not await bench.store.finish(finish, nothing)
    assert await told(bench.store) == [price("2"), price("1")]


async def test_a_superseded_turn_tells_nothing(bench: Bench) -> None:
    accepted, finish = await prepared(bench.store, "1", price("1"))
    await bench.store.reset("s")
    with pytest.raises(Superseded):
        await bench.store.finish(finish, nothing)
    assert await bench.store.end(accepted.id, replace(ended("stopped"), facts=(price("1"),)), (), nothing)
    assert await told(bench.store) == []


async def test_a_session_keeps_the_newest_up_to_a_limit(bench: Bench) -> None:
    await tell(bench.store, "1", *(price(str(number)) for number in range(700)))
    await tell(bench.store, "2", *(price(str(number), "MSFT") for number in range(700)))
    kept = await told(bench.store)
    assert len(kept) == 1_000
    assert kept[:700] == [price(str(number), "MSFT") for number in reversed(range(700))]
    await tell(bench.store, "3", *(price(str(number), "NVDA") for number in range(5_000)))
    assert await told(bench.store) == [price(str(number), "NVDA") for number in reversed(range(4_000, 5_000))]


async def test_whatever_a_tool_calls_a_thing_is_kept(bench: Bench) -> None:
    odd = price("1", "half \ud800 \x00'; DROP TABLE fact", unit="\U0001f4b0")
    await tell(bench.store, "1", odd)
    assert await told(bench.store) == [replace(odd, subject=odd.subject.replace("\ud800", "\ufffd"))]


async def test_reset_and_erasure_take_the_facts_along(bench: Bench) -> None:
    store = bench.store
    await tell(store, "1", price("1", "zebra7"), session="main:memory:local:direct:ada")
    await tell(store, "2", price("2", "zebra8"))
    await store.reset("s")
    assert await told(store) == []
    await store.erase_session("main:memory:local:direct:ada")
    await store.scrub()
    assert found_in(bench.where, "zebra7") == []
    assert found_in(bench.where, "zebra8") != [], "its outcome is a record of the message, which a reset leaves"


async def test_prune_takes_the_facts_of_what_it_removes(bench: Bench) -> None:
    store = bench.store
    await tell(store, "1", price("1"), session="old")
    await tell(store, "2", price("2"))
    bench.clock.jump(timedelta(days=40))
    await tell(store, "3", price("3"))
    await store.prune(bench.clock.now())
    assert await told(store, "old") == []
    assert await told(store) == [price("3")]


async def test_a_backup_has_the_facts_and_the_person(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    await tell(bench.store, "1", price("1"))
    place = tmp_path_factory.mktemp("backup")
    await bench.store.copy_into(place)
    copy = bench.opener(place, bench.clock)
    assert await told(copy) == [price("1")]
    assert await copy.find_person("memory:local:ada") == await bench.store.find_person("memory:local:ada") is not None
    await copy.close()


# ── copies of a conversation ────────────────────────────────────────────────────────────────────────────────


def result(id: str, *facts: Fact) -> Message:
    return Message(id, "tool", (ToolResult(id, "quote", "190.50", facts=facts),), Source("tool"), AT)


async def test_a_copy_has_the_facts_of_its_messages_behind_those_that_no_message_tells_any_more(bench: Bench) -> None:
    after = price("3", venue="NXT", phase="after")
    await bench.store.restore("copy", [result("1", price("2"), after), result("2", after)], [price("1")])
    store = await bench.reopen()
    assert await store.facts("copy") == [SessionFact(turn_id="", fact=each) for each in (after, price("2"), price("1"))]
    turn = await tell(store, "1", price("4"), session="copy")
    assert (await store.facts("copy", limit=1))[0] == SessionFact(turn_id=turn.turn_id, fact=price("4"))
    await store.restore("another", [result("1", price("5"))])
    assert await told(store, "another") == [price("5")]
    assert len(await told(store, "copy")) == 4


async def test_facts_of_a_copy_go_with_the_session_and_count_towards_its_limit(bench: Bench) -> None:
    store = bench.store
    await store.restore("copy", [result("1", *(price(str(number)) for number in range(1_500)))])
    assert len(await told(store, "copy")) == 1_000
    await tell(store, "1", price("1", "MSFT"), session="copy")
    kept = await told(store, "copy")
    assert (len(kept), kept[0], kept[-1]) == (1_000, price("1", "MSFT"), price("501"))
    await store.reset("copy")
    await store.restore("copy", [result("2", price("7"))])
    assert await told(store, "copy") == [price("7")]
    await store.erase_session("copy")
    await store.restore("copy", [])
    assert await told(store, "copy") == []
