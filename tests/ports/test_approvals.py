"""The contract of the ApprovalStore port: asked once, decided once, used once, told once."""

import asyncio
from datetime import timedelta

import apsw
import pytest
from msgspec.structs import replace
from tests.ports.approval_nouns import ADA, BOB, SESSION, no, said, wish, word, yes
from tests.ports.bench import Bench
from tests.ports.nouns import Told, nobody

from finclaw.errors import InboundConflict, InvalidArguments, SessionError
from finclaw.kernel.approval import Approval, Refusal
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted

pytestmark = pytest.mark.spec("DX-22")


def later(bench: Bench, seconds: float) -> None:
    bench.clock.advance(seconds)


async def ask(bench: Bench, **wishes: object) -> Approval:
    return await bench.store.ask(wish(bench.clock.now(), **wishes))  # pyright: ignore[reportArgumentType]


async def granted(bench: Bench) -> Approval:
    asked = await ask(bench)
    decided = await bench.store.decide(asked.id, yes(), word(asked), nobody)
    assert isinstance(decided, Approval)
    return decided


def why(decided: Approval | Refusal) -> str:
    return decided.why if isinstance(decided, Refusal) else f"counted: {decided.state}"


# ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_asked_is_there_after_a_restart_to_the_letter(bench: Bench) -> None:
    args = {"n": 10**30, "f": 1.0, "t": '삼성 \u202e \\ " \n', "deep": [{"a": None}, True]}
    asked = await ask(bench, args=args)
    found = await (await bench.reopen()).approval(asked.id)
    assert found == asked
    assert found is not None
    assert repr(found.args["f"]) == "1.0"
    assert dict(found.args) == args


async def test_a_turn_taken_up_again_does_not_ask_twice(bench: Bench) -> None:
    first = await ask(bench)
    again = await (await bench.reopen()).ask(wish(bench.clock.now()))
    assert again == first
    assert len(await bench.store.approvals()) == 1
    assert (await ask(bench, call="c-2")).id != first.id
    assert (await ask(bench, turn="t-2")).id != first.id


async def test_a_hash_of_something_else_is_not_taken(bench: Bench) -> None:
    with pytest.raises(SessionError, match="hash"):
        await bench.store.ask(replace(wish(bench.clock.now()), args={"symbol": "TSLA"}))
    with pytest.raises(SessionError, match="decided"):
        await bench.store.ask(replace(wish(bench.clock.now()), state="granted"))
    with pytest.raises(InvalidArguments):
        await bench.store.ask(replace(wish(bench.clock.now()), args={"n": float("nan")}))
    assert await bench.store.approvals() == []


async def test_lists_are_by_state_and_session_the_newest_first(bench: Bench) -> None:
    first = await ask(bench, call="1")
    second = await ask(bench, call="2", session="other")
    third = await ask(bench, call="3")
    await bench.store.decide(first.id, no(), word(first), nobody)
    assert [each.id for each in await bench.store.approvals()] == [third.id, second.id]
    assert [each.id for each in await bench.store.approvals(session="other")] == [second.id]
    assert [each.id for each in await bench.store.approvals(("denied",))] == [first.id]
    assert [each.id for each in await bench.store.approvals(("denied", "pending"), limit=2)] == [third.id, second.id]


# ── deciding ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_yes_and_its_message_are_one(bench: Bench) -> None:
    asked, told = await ask(bench), Told()
    decided = await bench.store.decide(asked.id, yes(), word(asked), told.accepted)
    assert isinstance(decided, Approval)
    assert (decided.state, decided.decided_by, decided.decided_at) == ("granted", ADA, bench.clock.now())
    assert [each.session for each in told.what] == [SESSION]
    waiting = await (await bench.reopen()).unfinished()
    assert [each.inbound for each in waiting] == [word(asked)]


async def test_it_counts_once_whoever_says_what(bench: Bench) -> None:
    asked, told = await ask(bench), Told()
    answers = await asyncio.gather(
        *(
            bench.store.decide(asked.id, each, word(asked, f"{number}"), told.accepted)
            for number, each in enumerate([yes(), no(), yes(by=BOB), no(by=BOB)])
        )
    )
    assert sorted(map(why, answers)) == ["already_granted"] * 3 + ["counted: granted"]
    assert told.times == 1
    assert len(await bench.store.unfinished()) == 1


async def test_an_id_that_is_none_or_a_scope_that_is_not_offered_is_refused(bench: Bench) -> None:
    asked = await ask(bench)
    for unknown in ("", asked.id[:-1], asked.id + "0", asked.id.upper(), "%", "ap-" + "0" * 26):
        assert why(await bench.store.decide(unknown, yes(), word(asked), nobody)) == "unknown"
    assert why(await bench.store.decide(asked.id, yes("always"), word(asked), nobody)) == "scope"
    assert (await bench.store.approval(asked.id)) == asked
    assert await bench.store.unfinished() == []


async def test_too_late_is_no_even_before_anybody_has_written_it(bench: Bench) -> None:
    asked = await ask(bench)
    later(bench, 300)
    assert why(await bench.store.decide(asked.id, yes(), word(asked), nobody)) == "expired"
    assert [each.state for each in await bench.store.approvals(("expired",))] == ["expired"]
    assert await bench.store.approvals() == []
    assert await bench.store.unfinished() == []


async def test_a_message_that_cannot_be_taken_undoes_the_decision(bench: Bench) -> None:
    asked = await ask(bench)
    await bench.store.accept(replace(word(asked), text="somebody was faster"), "s", nobody)
    with pytest.raises(InboundConflict):
        await bench.store.decide(asked.id, yes("once"), word(asked), nobody)
    assert (await bench.store.approval(asked.id)) == asked


async def test_a_cancelled_caller_does_not_undo_it(bench: Bench) -> None:
    asked, told = await ask(bench), Told()
    deciding = asyncio.ensure_future(bench.store.decide(asked.id, yes(), word(asked), told.accepted))
    await asyncio.sleep(0)
    deciding.cancel()
    await asyncio.wait([deciding])
    found = await bench.store.approval(asked.id)
    assert found is not None
    assert (found.state, told.times) in {("granted", 1), ("pending", 0)}


# ── using ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_it_is_used_once_by_one_turn(bench: Bench) -> None:
    asked = await granted(bench)
    uses = await asyncio.gather(*(bench.store.use(asked.id, f"t-{n}", asked.hash) for n in range(5)))
    assert sorted(uses) == [False] * 4 + [True]
    used = await (await bench.reopen()).approval(asked.id)
    assert used is not None
    assert used.state == "used"
    # The turn that has it may come back after a crash; nobody else may, now or ever.
    assert used.used_by is not None
    assert await bench.store.use(asked.id, used.used_by, asked.hash)
    assert not await bench.store.use(asked.id, "t-9", asked.hash)
    assert why(await bench.store.decide(asked.id, yes(), word(asked, "again"), nobody)) == "already_used"


async def test_nothing_but_the_granted_action_is_used(bench: Bench) -> None:
    asked = await ask(bench)
    assert not await bench.store.use(asked.id, "t", asked.hash)
    await bench.store.decide(asked.id, yes(), word(asked), nobody)
    assert not await bench.store.use(asked.id, "t", "0" * 64)
    assert not await bench.store.use("ap-" + "0" * 26, "t", asked.hash)
    later(bench, 301)
    assert not await bench.store.use(asked.id, "t", asked.hash)


async def test_a_denied_one_is_never_used(bench: Bench) -> None:
    asked = await ask(bench)
    await bench.store.decide(asked.id, no("no money"), word(asked), nobody)
    assert not await bench.store.use(asked.id, "t", asked.hash)
    found = await bench.store.approval(asked.id)
    assert found is not None
    assert (found.state, found.reason, found.scope) == ("denied", "no money", None)


async def test_a_turn_that_comes_back_too_late_may_not_begin(bench: Bench) -> None:
    asked = await granted(bench)
    assert await bench.store.use(asked.id, "t", asked.hash)
    later(bench, 301)
    assert not await bench.store.use(asked.id, "t", asked.hash)


async def test_arguments_changed_on_disk_are_not_run(bench: Bench) -> None:
    asked = await granted(bench)
    await bench.store.close()
    db = apsw.Connection(str(bench.where / "x.db"))
    db.execute("UPDATE approval SET args = replace(args, '10', '99')")
    db.close()
    bench.store = bench.opener(bench.where, bench.clock)
    assert not await bench.store.use(asked.id, "t", asked.hash)


async def test_one_that_could_not_be_run_has_failed_for_good(bench: Bench) -> None:
    asked = await granted(bench)
    assert await bench.store.use(asked.id, "t", asked.hash)
    assert not await bench.store.fail(asked.id, "another")
    assert await bench.store.fail(asked.id, "t")
    assert not await bench.store.fail(asked.id, "t")
    assert not await bench.store.use(asked.id, "t", asked.hash)
    assert why(await bench.store.decide(asked.id, yes(), word(asked, "again"), nobody)) == "failed"


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_expires_is_told_once_with_the_same_commit(bench: Bench) -> None:
    asked, told = await ask(bench), Told()
    later(bench, 299)
    assert await bench.store.expire(said, told.accepted) == []
    later(bench, 1)
    assert [each.id for each in await bench.store.expire(said, told.accepted)] == [asked.id]
    assert await bench.store.expire(said, told.accepted) == []
    assert await (await bench.reopen()).expire(said, told.accepted) == []
    assert told.times == 1
    assert [each.inbound.text for each in await bench.store.unfinished()] == ["over"]


async def test_words_that_fail_leave_nothing_half_told(bench: Bench) -> None:
    asked = await ask(bench)
    later(bench, 300)

    def fails(_: Approval) -> Inbound:
        raise RuntimeError("no words")

    with pytest.raises(RuntimeError):
        await bench.store.expire(fails, nobody)
    assert [each.id for each in await bench.store.expire(said, nobody)] == [asked.id]


async def test_one_that_was_granted_and_never_ran_expires_in_silence(bench: Bench) -> None:
    asked, told = await granted(bench), Told()
    later(bench, 300)
    assert [each.id for each in await bench.store.expire(said, told.accepted)] == [asked.id]
    assert told.times == 0


async def test_a_reminder_comes_once_at_half_time_and_only_while_it_waits(bench: Bench) -> None:
    asked, decided, told = await ask(bench), await ask(bench, call="2"), Told()
    await bench.store.decide(decided.id, no(), word(decided), nobody)
    later(bench, 149)
    assert await bench.store.remind(said, told.accepted) == []
    later(bench, 1)
    assert [each.id for each in await bench.store.remind(said, told.accepted)] == [asked.id]
    later(bench, 1)
    assert await (await bench.reopen()).remind(said, told.accepted) == []
    assert told.times == 1
    late = await ask(bench, call="3")
    later(bench, 300)
    assert await bench.store.remind(said, told.accepted) == [], "it is over; nobody is reminded of that"
    assert late.id in {each.id for each in await bench.store.expire(said, nobody)}


# ── grants ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_a_yes_that_stands_is_for_that_action_person_and_place(bench: Bench, scope: str) -> None:
    asked = await ask(bench, scopes=("once", "session", "always"))
    await bench.store.decide(asked.id, yes(scope), word(asked), nobody)  # pyright: ignore[reportArgumentType]
    store = await bench.reopen()
    grant = await store.find_grant(asked.tool, asked.hash, ADA, SESSION)
    assert grant is not None
    assert (grant.id, grant.granted_by) == (asked.id, ADA)
    assert (await store.find_grant(asked.tool, asked.hash, ADA, "elsewhere") is not None) == (scope == "always")
    assert await store.find_grant("other", asked.hash, ADA, SESSION) is None
    assert await store.find_grant(asked.tool, "0" * 64, ADA, SESSION) is None
    assert await store.find_grant(asked.tool, asked.hash, BOB, SESSION) is None
    later(bench, 10**6)
    assert [each.id for each in await store.grants()] == [asked.id]
    assert await store.revoke(asked.id)
    assert not await store.revoke(asked.id)
    assert await store.find_grant(asked.tool, asked.hash, ADA, SESSION) is None


async def test_a_reset_ends_what_was_granted_for_the_session(bench: Bench) -> None:
    scopes = ("once", "session", "always")
    here, everywhere = await ask(bench, scopes=scopes), await ask(bench, call="2", scopes=scopes)
    await bench.store.decide(here.id, yes("session"), word(here), nobody)
    await bench.store.decide(everywhere.id, yes("always"), word(everywhere), nobody)
    await bench.store.reset("another")
    assert len(await bench.store.grants()) == 2
    await bench.store.reset(SESSION)
    assert [each.id for each in await bench.store.grants()] == [everywhere.id]


async def test_a_yes_for_once_leaves_nothing_standing(bench: Bench) -> None:
    asked = await ask(bench, scopes=("once", "session", "always"))
    await bench.store.decide(asked.id, yes(), word(asked), nobody)
    denied = await ask(bench, call="2", scopes=("once", "always"))
    await bench.store.decide(denied.id, replace(no(), scope="always"), word(denied), nobody)
    assert await bench.store.grants() == []


# ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_approvals_outlive_a_reset_and_a_sweep(bench: Bench) -> None:
    asked = await granted(bench)
    await bench.store.reset(SESSION)
    later(bench, timedelta(days=400).total_seconds())
    await bench.store.prune(bench.clock.now())
    found = await bench.store.approval(asked.id)
    assert found is not None
    assert found.decided_by == ADA


async def test_the_message_of_a_decision_is_an_ordinary_one(bench: Bench) -> None:
    told: list[Accepted] = []
    asked = await ask(bench)
    await bench.store.decide(asked.id, yes(), word(asked), told.append)
    (accepted,) = told
    again = await bench.store.accept(word(asked), SESSION, nobody)
    assert again.duplicate
    assert again.id == accepted.id


# ── the wall clock is set back ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("back", [timedelta(seconds=290), timedelta(hours=5), timedelta(days=400)])
async def test_setting_the_clock_back_makes_no_question_younger(bench: Bench, back: timedelta) -> None:
    """Security trial L4: a card for 300 seconds was good after an hour."""
    asked = await ask(bench)
    later(bench, 290)
    bench.clock.jump(-back)
    later(bench, 20)
    assert why(await bench.store.decide(asked.id, yes(), word(asked), nobody)) == "expired"
    assert await bench.store.approvals() == []
    found = await bench.store.approval(asked.id)
    assert found is not None
    assert found.state == "expired"
    assert await bench.store.remind(said, nobody) == []
    assert [each.id for each in await bench.store.expire(said, nobody)] == [asked.id]


async def test_setting_the_clock_back_keeps_no_yes_good(bench: Bench) -> None:
    """Security trial L4, sibling: a yes is not used after its time either."""
    decided = await granted(bench)
    later(bench, 290)
    bench.clock.jump(-timedelta(minutes=4))
    later(bench, 20)
    assert not await bench.store.use(decided.id, "t-2", decided.hash)


async def test_what_was_asked_in_the_future_is_over_after_a_restart(bench: Bench) -> None:
    """Security trial L4, sibling: nobody measured while the gateway was down."""
    asked = await ask(bench)
    bench.clock.jump(-timedelta(hours=5))
    store = await bench.reopen()
    assert why(await store.decide(asked.id, yes(), word(asked), nobody)) == "expired"


async def test_a_restart_measures_from_where_it_stands(bench: Bench) -> None:
    """Security trial L4, sibling: a question of the last process, and a clock that is set back in this one."""
    asked = await ask(bench)
    later(bench, 200)
    store = await bench.reopen()
    assert len(await store.approvals()) == 1
    bench.clock.jump(-timedelta(seconds=190))
    later(bench, 101)
    assert why(await store.decide(asked.id, yes(), word(asked), nobody)) == "expired"


async def test_a_small_correction_of_the_clock_ends_no_question(bench: Bench) -> None:
    asked = await ask(bench)
    bench.clock.jump(-timedelta(seconds=2))
    assert why(await bench.store.decide(asked.id, yes(), word(asked), nobody)) == "counted: granted"
