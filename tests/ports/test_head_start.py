"""A message that finds its session idle may be claimed by the commit that accepts it. A store may leave that be."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.ports.nouns import adds, answer, begin, ended, ending, nobody, nothing, take, tool_step, written

from finclaw.errors import Superseded
from finclaw.kernel.record import Accepted, Claim, ClaimOnAccept
from finclaw.kernel.store_port import Store
from finclaw.storage.jsonl.store import open_jsonl_store
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock


class Bench:
    def __init__(self, where: Path) -> None:
        self._path = where / "x.db"
        self._clock = FakeClock()
        self.store: Store = open_store(self._path, self._clock)

    async def reopen(self) -> Store:
        await self.store.close()
        self.store = open_store(self._path, self._clock)
        return self.store


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    await bench.store.close()


async def take_at_once(store: Store, name: str, *, known: int | None = None, session: str = "s") -> Accepted:
    return await store.accept(written(id=name), session, nobody, ClaimOnAccept(known))


def claim_of(accepted: Accepted) -> Claim:
    assert accepted.claim is not None, "it stood before nobody"
    return accepted.claim


async def states(store: Store, *messages: Accepted) -> list[tuple[str, int]]:
    found = [await store.find(each.id) for each in messages]
    return [(record.state, record.attempts) for record in found if record is not None]


async def test_one_commit_accepts_and_claims(bench: Bench) -> None:
    accepted = await take_at_once(bench.store, "1")
    claim = claim_of(accepted)
    assert (claim.attempt, claim.resumed, claim.version, claim.base, claim.events) == (1, False, 0, (), ())
    assert (claim.inbound_id, claim.session_started_at) == (accepted.id, accepted.accepted_at)
    assert await states(bench.store, accepted) == [("running", 1)]
    assert [turn.status for turn in await bench.store.turns(9)] == ["running"]


async def test_such_a_turn_ends_like_any_other(bench: Bench) -> None:
    for number in (1, 2):
        accepted = await take_at_once(bench.store, str(number), known=number - 1)
        claim = claim_of(accepted)
        await bench.store.record(claim, 0, [*adds(f"q{number}"), *tool_step(f"c{number}")], nothing)
        finish = ending(bench.store, accepted, claim, "ok", events=adds(f"a{number}", role="assistant"))
        assert await bench.store.finish(finish, nothing)
    messages = [message.id for message in await bench.store.messages("s")]
    assert messages == ["q1", "ask-c1", "a1", "q2", "ask-c2", "a2"]
    assert [turn.status for turn in await bench.store.turns(9)] == ["completed"] * 2


async def test_nobody_overtakes_one_that_has_not_ended(bench: Bench) -> None:
    first = await take(bench.store, written(id="1"))
    second = await take_at_once(bench.store, "2")
    assert second.claim is None
    await answer(bench.store, first)
    third = await take_at_once(bench.store, "3")
    assert third.claim is None, "the second still waits"
    assert await states(bench.store, second, third) == [("received", 0)] * 2
    claim_of(await take_at_once(bench.store, "4", session="another"))


async def test_of_two_at_once_only_the_first_starts_ahead(bench: Bench) -> None:
    first, second = [await take_at_once(bench.store, name) for name in ("1", "2")]
    claim_of(first)
    assert second.claim is None


async def test_the_same_message_again_is_not_claimed_again(bench: Bench) -> None:
    first = await take_at_once(bench.store, "1")
    again = await take_at_once(bench.store, "1")
    assert (again.id, again.duplicate, again.claim) == (first.id, True, None)
    assert await states(bench.store, first) == [("running", 1)]


async def test_whoever_knows_the_conversation_does_not_get_it_again(bench: Bench) -> None:
    await answer(bench.store, await take(bench.store, written(id="1")))
    known = await take_at_once(bench.store, "2", known=1)
    assert claim_of(known).base is None
    await bench.store.end(known.id, ended("stopped"), (), nothing)
    base = claim_of(await take_at_once(bench.store, "3", known=0)).base
    assert base is not None
    assert [message.id for message in base] == ["q-1", "a-1"]


async def test_after_a_crash_it_is_taken_up_with_its_words_and_counted(bench: Bench) -> None:
    accepted = await take_at_once(bench.store, "1")
    store = await bench.reopen()
    (left,) = await store.unfinished()
    assert (left.id, left.attempts, left.begun, left.claim) == (accepted.id, 1, True, None)
    claim = await begin(store, left)
    assert (claim.attempt, claim.resumed, claim.events) == (2, True, tuple(adds("q-1")))


async def test_one_that_ended_before_its_turn_leaves_no_turn(bench: Bench) -> None:
    accepted = await take_at_once(bench.store, "1")
    assert await bench.store.end(accepted.id, ended("command"), (), nothing, begun=False)
    assert await bench.store.turns(9) == []
    assert [(each.turns, each.messages) for each in (await bench.store.sessions(9)).items] == [(0, 0)]
    claim_of(await take_at_once(bench.store, "2"))


async def test_what_has_ended_is_not_taken_back(bench: Bench) -> None:
    accepted = await take_at_once(bench.store, "1")
    finish = ending(bench.store, accepted, claim_of(accepted), "ok", events=adds("q"))
    assert await bench.store.finish(finish, nothing)
    assert not await bench.store.end(accepted.id, ended("command"), (), nothing, begun=False)
    assert [turn.status for turn in await bench.store.turns(9)] == ["completed"]


async def test_put_back_it_is_as_if_never_tried(bench: Bench) -> None:
    accepted = await take_at_once(bench.store, "1")
    await bench.store.release(accepted.id)
    assert await states(bench.store, accepted) == [("received", 0)]


async def test_a_reset_supersedes_it(bench: Bench) -> None:
    accepted = await take_at_once(bench.store, "1")
    await bench.store.reset("s")
    with pytest.raises(Superseded):
        await bench.store.record(claim_of(accepted), 0, adds("q"), nothing)


async def test_the_file_store_claims_in_a_step_of_its_own(tmp_path: Path) -> None:
    store = open_jsonl_store(tmp_path, tmp_path / "x.db", FakeClock(), lambda _: None)
    accepted = await take_at_once(store, "1")
    assert accepted.claim is None
    assert await states(store, accepted) == [("received", 0)]
    await store.close()
