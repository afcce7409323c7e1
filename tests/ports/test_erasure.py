"""The contract of erasure: what was said is in no file of the state any more, and what must live on has no words."""

from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.ports.approval_nouns import wish
from tests.ports.bench import BenchClock
from tests.ports.nouns import begin, ended, ending, nobody, nothing, parts, said, written
from tests.ports.state_search import found_in

from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import SessionError
from finclaw.kernel.approval import Decision
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.message import Append, Message, Source, Text
from finclaw.kernel.record import Accepted, Erased, Part, SenderId
from finclaw.kernel.store_port import Store
from finclaw.sessions.session_key import session_key
from finclaw.storage.jsonl.store import open_jsonl_store
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock
from finclaw.transcript.approval_ids import short_id

SECRET = "나는 leveraged 인버스를 산다 zebra7"
OPENERS: dict[str, Callable[[Path, FakeClock], Store]] = {
    "sqlite": lambda where, clock: open_store(where / "finclaw.db", clock),
    "jsonl": lambda where, clock: open_jsonl_store(where, where / "finclaw.db", clock, EventStream().emit),
}
ADA = SenderId("memory", "local", "ada")


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    store = OPENERS[str(request.param)](tmp_path, BenchClock())
    yield store
    await store.close()


def asked(text: str, id: str, *, sender: str = "ada", room: str | None = None) -> Inbound:
    inbound = written(text, id=id, conversation=room or sender, sender=sender)
    return inbound if room is None else replace(inbound, chat_type="group")


async def talk(store: Store, inbound: Inbound, reply: str) -> Accepted:
    """A whole turn as the gateway writes it: the question with who asked, and the answer in two places."""
    accepted = await store.accept(inbound, session_key("main", inbound), nobody)
    claim = await begin(store, accepted)
    question = Message(
        f"q2-{inbound.message_id}",
        "user",
        (Text(inbound.text),),
        Source("user", inbound.sender.id),
        accepted.accepted_at,
    )
    answer = said(f"a-{inbound.message_id}", reply, role="assistant")
    finish = ending(store, accepted, claim, reply, "and more", events=[Append(question), Append(answer)])
    assert await store.finish(replace(finish, outcome=ended(reply=reply)), nothing)
    await store.settle(*(replace(unit, state="sent") for unit in finish.units))
    return accepted


async def told(store: Store, inbound: Inbound, reply: str) -> Accepted:
    """A card or a command: it is answered without a turn, and is no part of the conversation."""
    accepted = await store.accept(inbound, session_key("main", inbound), nobody)
    units = store.plan(accepted, parts(reply), None)
    assert await store.end(accepted.id, ended("command", reply), units, nothing, begun=False)
    return accepted


def part_of(person: SenderId) -> Callable[[str], Part | None]:
    def part(key: str) -> Part | None:
        kind, peer = key.split(":")[3:5]
        return ("own" if peer == person.sender else None) if kind == "direct" else "shared"

    return part


async def test_an_erased_session_leaves_no_words_and_its_ids_are_not_given_again(store: Store, tmp_path: Path) -> None:
    first = await talk(store, asked(SECRET, "1"), f"you said: {SECRET}")
    other = await talk(store, asked("keep me", "2", sender="ben"), "kept")
    await store.remember("some", first.session, {"note": SECRET})
    assert found_in(tmp_path, SECRET)

    erased = await store.erase_session(first.session)
    await store.scrub()

    assert erased == Erased(sessions=(first.session,), messages=1)
    assert found_in(tmp_path, SECRET) == []
    assert await store.find(first.id) is None
    assert await store.turn(first.id) is None
    assert [each.key for each in (await store.sessions(10)).items] == [other.session]
    assert [message.text for message in await store.messages(other.session)][-1] == "kept"
    again = await store.accept(asked(SECRET, "1"), first.session, nobody)
    assert again.duplicate, "a platform that delivers it again is still recognised"
    new = await store.accept(asked("new", "3"), first.session, nobody)
    assert new.id not in (first.id, other.id)
    assert (await store.counts()).waiting == 1


async def test_what_earlier_removals_left_in_free_pages_goes_too(store: Store, tmp_path: Path) -> None:
    """A reset takes a conversation out of its table and leaves its bytes in free pages."""
    first = await talk(store, asked(SECRET, "1"), SECRET)
    for number in range(40):
        await talk(store, asked(f"{SECRET} {number}" * 100, f"n{number}"), "ok")
    await store.reset(first.session)
    await store.erase_session(first.session)
    await store.scrub()
    assert found_in(tmp_path, SECRET) == []


async def test_a_session_with_a_message_that_waits_is_not_erased(store: Store) -> None:
    first = await talk(store, asked("hello", "1"), "hi")
    await store.accept(asked("wait", "2"), first.session, nobody)
    with pytest.raises(SessionError, match="not answered yet"):
        await store.erase_session(first.session)
    assert await store.find(first.id) is not None
    assert await store.messages(first.session)


async def test_a_dry_run_erases_nothing(store: Store) -> None:
    first = await talk(store, asked("hello", "1"), "hi")
    assert await store.erase_session(first.session, dry_run=True) == Erased(sessions=(first.session,), messages=1)
    assert await store.find(first.id) is not None


async def test_erasing_what_is_not_there_is_no_error(store: Store) -> None:
    assert await store.erase_session("main:memory:local:direct:nobody") == Erased()


async def test_the_sessions_of_helpers_go_with_the_turn_that_started_them(store: Store, tmp_path: Path) -> None:
    first = await talk(store, asked("delegate", "1"), "done")
    turn = first.id.replace("m-", "t-", 1)
    helper = Inbound(
        text=SECRET,
        channel="delegate",
        account="memory",
        conversation=turn,
        message_id="c",
        sender=Sender("ada"),
        thread="c",
    )
    stranger = replace(helper, text="kept", conversation=f"{turn}9")
    await talk(store, helper, SECRET)
    kept = await talk(store, stranger, "kept")
    await store.erase_session(first.session)
    await store.scrub()
    assert found_in(tmp_path, SECRET) == []
    assert [each.key for each in (await store.sessions(10)).items] == [kept.session]


async def test_forgetting_a_person_erases_their_chats_and_their_part_of_a_group(store: Store, tmp_path: Path) -> None:
    own = await talk(store, asked(SECRET, "1"), SECRET)
    before = await talk(store, asked("ben was first", "2", sender="ben", room="club"), "welcome")
    theirs = await talk(store, asked(SECRET, "3", room="club"), f"noted: {SECRET}")
    after = await talk(store, asked("what did ada say?", "4", sender="ben", room="club"), f"she said {SECRET}")
    alone = await talk(store, asked(SECRET, "5", room="monologue"), SECRET)
    bens = await talk(store, asked("mine", "6", sender="ben"), "yours")

    erased = await store.erase_person(ADA, part_of(ADA))
    await store.scrub()

    assert set(erased.sessions) == {own.session, alone.session}
    assert erased.shared == (before.session,)
    assert found_in(tmp_path, SECRET) == []
    assert await store.find(theirs.id) is None
    assert await store.messages(before.session) == ()
    first, later = await store.find(before.id), await store.find(after.id)
    assert first is not None
    assert first.outcome is not None
    assert first.outcome.reply == "welcome"
    assert later is not None
    assert later.outcome is not None
    assert later.outcome.reply is None
    assert [message.text for message in await store.messages(bens.session)][-1] == "yours"
    assert await store.erase_person(ADA, part_of(ADA)) == Erased()


async def test_a_person_whose_records_were_pruned_is_found_by_what_the_conversation_says(
    store: Store, tmp_path: Path
) -> None:
    """Only the conversation of a group in use is left of old messages."""
    group = asked("hello", "1", sender="ben", room="club")
    key = session_key("main", group)
    old = Message("m1", "user", (Text(SECRET),), Source("user", "ada"), FakeClock().now())
    bens = Message("m2", "user", (Text("mine"),), Source("user", "ben"), FakeClock().now())
    await store.restore(key, [old, bens])
    erased = await store.erase_person(ADA, part_of(ADA))
    await store.scrub()
    assert erased.shared == (key,)
    assert found_in(tmp_path, SECRET) == []
    assert await store.messages(key) == ()


async def test_another_account_or_channel_is_another_person(store: Store) -> None:
    await talk(store, asked("hello", "1"), "hi")
    for other in (SenderId("memory", "second", "ada"), SenderId("web", "local", "ada")):
        erased = await store.erase_person(other, lambda _: None)
        assert erased == Erased()


async def test_long_conversations_with_bound_pages_are_erased(store: Store, tmp_path: Path) -> None:
    group = asked("hello", "1")
    key = session_key("main", group)
    at = FakeClock().now()
    many = [
        Message(f"m{number}", "user", (Text(f"{SECRET} {number}"),), Source("user", "ada"), at, {"note": SECRET})
        for number in range(700)
    ]
    await store.restore(key, many)
    await talk(store, group, "hi")
    await store.erase_session(key)
    await store.scrub()
    assert found_in(tmp_path, SECRET) == []


@pytest.mark.parametrize("kind", OPENERS)
async def test_prune_takes_what_erasure_left_after_its_time(kind: str, tmp_path: Path) -> None:
    clock = BenchClock()
    store = OPENERS[kind](tmp_path, clock)
    first = await talk(store, asked("hello", "1"), "hi")
    await talk(store, asked("hello", "2", sender="ben"), "hi")
    await store.erase_session(first.session)
    assert (await store.prune(clock.now())).messages == 0
    clock.jump(timedelta(days=40))
    await talk(store, asked("hello", "3", sender="ben"), "hi")
    assert (await store.prune(clock.now())).messages == 2
    await store.close()


@pytest.mark.parametrize("kind", OPENERS)
async def test_a_session_without_messages_does_not_stay_listed_for_ever(kind: str, tmp_path: Path) -> None:
    """User trial B6: sessions with 0 messages stayed listed. Who asks for it by its key still finds it."""
    clock = BenchClock()
    store = OPENERS[kind](tmp_path, clock)
    empty = await talk(store, asked("hello", "1"), "hi")
    full = await talk(store, asked("hello", "2", sender="ben"), "hi")
    await store.reset(empty.session)
    assert {each.key for each in (await store.sessions(10)).items} == {empty.session, full.session}
    clock.jump(timedelta(days=2))
    assert [each.key for each in (await store.sessions(10)).items] == [full.session]
    assert [each.key for each in (await store.sessions(10, containing=empty.session)).items] == [empty.session]
    await store.close()


async def test_the_words_of_an_approval_go_wherever_they_were_shown(store: Store, tmp_path: Path) -> None:
    """Its arguments, the card in an approver's chat, and the answer to the approver, who typed the short id."""
    mine = await talk(store, asked("order it", "1"), "awaiting")
    approval = wish(FakeClock().now(), args={"note": SECRET}, session=mine.session)
    await store.ask(approval)
    card = replace(asked(f"Order {SECRET}?", f"{approval.id}:card:1", sender="ben"), from_extension="approvals")
    await told(store, card, SECRET)
    await told(store, asked(f"/approve {short_id(approval.id)}", "2", sender="ben"), f"Approved: {SECRET}")
    kept = await talk(store, asked("mine", "3", sender="ben"), "yours")
    erased = await store.erase_session(mine.session)
    await store.scrub()
    assert erased.messages == 3
    assert await store.approval(approval.id) is None
    assert await store.find(kept.id) is not None
    assert found_in(tmp_path, SECRET) == []


async def test_reasons_that_a_person_gave_for_decisions_about_others_are_forgotten(
    store: Store, tmp_path: Path
) -> None:
    bens = await talk(store, asked("order it", "1", sender="ben"), "awaiting")
    approval = wish(FakeClock().now(), session=bens.session)
    await store.ask(approval)
    decision = Decision(verdict="denied", by=str(ADA), reason=SECRET)
    words = replace(asked(f"Denied: {SECRET}", f"{approval.id}:denied:1", sender="ben"), from_extension="approvals")
    await store.decide(approval.id, decision, words, nobody)
    (left,) = await store.unfinished()
    assert await store.end(left.id, ended("command", SECRET), (), nothing, begun=False)
    await store.erase_person(ADA, part_of(ADA))
    await store.scrub()
    assert found_in(tmp_path, SECRET) == []
    assert await store.approval(approval.id) is not None
