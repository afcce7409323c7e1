"""The Inbox port: what a session was told without having asked, for a reader who comes and goes."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.machine import examples
from tests.ports.bench import OPENERS, BenchClock
from tests.ports.nouns import ended, nothing, parts, take, written

from finclaw.kernel.envelope import Inbound, Limits
from finclaw.kernel.record import Accepted, Unsolicited
from finclaw.kernel.store_port import Store
from finclaw.storage.sqlite import inbox
from finclaw.storage.sqlite.store import open_store


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    store = OPENERS[str(request.param)](tmp_path, BenchClock())
    yield store
    await store.close()


def card(id: str) -> Inbound:
    return replace(written("?", id=id), from_extension="approval cards")


async def end(store: Store, accepted: Accepted, text: str) -> None:
    assert await store.end(accepted.id, ended("command", text), store.plan(accepted, parts(text), None), nothing)


def replies(told: Unsolicited) -> list[str]:
    return [str(each.outcome and each.outcome.reply) for each in told.items]


@pytest.mark.spec("DX-22")
async def test_only_what_nobody_wrote_for_this_session_alone_and_from_now_on(store: Store) -> None:
    await end(store, await take(store, card("before")), "before")
    begun = await store.unasked("s", None)
    assert begun.items == ()
    kinds = {
        "card": card("card"),
        "yes": replace(written(id="yes"), limits=Limits(approval="ap-1")),
        "again": replace(written(id="again"), reissue_of="m-1"),
        "asked": written(id="asked"),
    }
    for name, inbound in kinds.items():
        assert inbound.unasked is (name != "asked")
        await end(store, await take(store, inbound), name)
    await end(store, await take(store, card("elsewhere"), "another session"), "elsewhere")
    told = await store.unasked("s", begun.after)
    assert replies(told) == ["card", "yes", "again"]
    assert (await store.unasked("s", told.after)).items == ()
    for nowhere in ("", "m-other-3", "nonsense", "m--1"):
        assert (await store.unasked("s", nowhere)).items == ()


async def test_what_has_not_ended_is_not_passed_by(store: Store) -> None:
    place = (await store.unasked("s", None)).after
    slow, quick = await take(store, card("slow")), await take(store, card("quick"))
    await end(store, quick, "quick")
    first = await store.unasked("s", place)
    assert (replies(first), (await store.unasked("s", None)).after) == (["quick"], first.after)
    await end(store, slow, "slow")
    assert replies(await store.unasked("s", first.after)) == ["slow", "quick"]


async def test_the_look_back_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "LOOKED_BACK", 2)
    place = (await store.unasked("s", None)).after
    for name in ("a", "b", "c"):
        await end(store, await take(store, card(name)), name)
    assert replies(await store.unasked("s", place)) == ["b", "c"]


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(st.sampled_from(["card", "asked", "elsewhere", "end", "look"]), max_size=30), data=st.data())
def test_a_reader_who_remembers_what_it_saw_sees_all_of_it_once(
    steps: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def walk() -> None:
        store = open_store(tmp_path_factory.mktemp("s") / "x.db", BenchClock(), threaded=False)
        place, seen, expected = (await store.unasked("s", None)).after, list[str](), set[str]()
        waiting: list[Accepted] = []
        for number, step in enumerate([*steps, *["end"] * len(steps), "look"]):
            if step == "look":
                told = await store.unasked("s", place)
                seen += [each.inbound_id for each in told.items if each.inbound_id not in seen]
                place = told.after
            elif step == "end" and waiting:
                ending = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
                await end(store, ending, "x")
            elif step != "end":
                inbound = written(id=str(number)) if step == "asked" else card(str(number))
                accepted = await take(store, inbound, "other" if step == "elsewhere" else "s")
                waiting.append(accepted)
                expected |= {accepted.id} if step == "card" else set[str]()
        assert (len(seen), set(seen)) == (len(expected), expected)
        await store.close()

    asyncio.run(walk())
