"""A conversation is base plus events: by a model of its own, in memory, and in the database, always the same."""

from collections.abc import Sequence
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.machine import examples
from tests.ports.nouns import said
from tests.sessions.streams import BASES, STREAMS

from finclaw.errors import SessionError
from finclaw.kernel.event import Event, MessageTargetMissing
from finclaw.kernel.message import (
    Append,
    Message,
    Patch,
    Remove,
    Replace,
    ToolEnded,
    ToolStarted,
    Truncate,
    TurnEvent,
)
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.storage.sqlite.transcript import ROWS
from finclaw.transcript.conversation import Conversation, RecentConversations

# ── what may happen ─────────────────────────────────────────────────────────────────────────────────────────


# ── the model: a plain list, and each event in the dullest way ──────────────────────────────────────────────


def index_of(messages: Sequence[Message], target: str) -> int | None:
    for place, message in enumerate(messages):
        if message.id == target:
            return place
    return None


def expected(messages: list[Message], event: TurnEvent) -> list[Message] | str:
    """The messages after the event, or why there are none: `missing` target or `taken` id."""
    match event:
        case Append(message):
            taken = [each for each in messages if each.id == message.id]
            own = bool(message.passing) and all(each.passing == message.passing for each in taken)
            return "taken" if taken and not own else expected_append(messages, message)
        case Truncate(keep):
            lasting = [message.id for message in messages if not message.passing]
            gone = lasting[: max(0, len(lasting) - max(0, keep))]
            return [message for message in messages if message.id not in gone]
        case ToolStarted() | ToolEnded():
            return messages
        case Replace() | Remove() | Patch():
            place = index_of(messages, event.target)
            return "missing" if place is None else expected_at(messages, event, place)


def expected_append(messages: list[Message], message: Message) -> list[Message]:
    """A passing message takes the place of the one with its key."""
    if message.passing and any(each.passing == message.passing for each in messages):
        return [message if each.passing == message.passing else each for each in messages]
    return [*messages, message]


def expected_at(messages: list[Message], event: Replace | Remove | Patch, place: int) -> list[Message] | str:
    before, old, after = messages[:place], messages[place], messages[place + 1 :]
    if isinstance(event, Remove):
        return before + after
    if isinstance(event, Patch):
        merged: dict[str, Any] = dict(old.metadata)
        merged.update(event.metadata)
        patched = Message(old.id, old.role, old.blocks, old.source, old.created_at, merged, old.passing)
        return [*before, patched, *after]
    if event.message.role != old.role:
        return "another role"
    taken = event.message.id != event.target and index_of(messages, event.message.id) is not None
    return "taken" if taken else [*before, structs.replace(event.message, passing=old.passing), *after]


# ── properties ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CS-01", "CS-05", "CS-07")
@given(BASES, STREAMS)
@settings(max_examples=examples(150), deadline=None)
def test_next_is_base_plus_events_by_an_independent_model(base: list[Message], stream: list[TurnEvent]):
    told: list[Event] = []
    conversation = Conversation(base, emit=told.append)
    messages = list(base)
    for event in stream:
        after = expected(messages, event)
        warned, counted = len(told), len(conversation.events)
        if after in ("taken", "another role"):
            with pytest.raises(SessionError, match="unique" if after == "taken" else "keeps the role"):
                conversation.push(event)
        else:
            conversation.push(event)
        assert (len(told) > warned) == (after == "missing")
        assert (len(conversation.events) > counted) == isinstance(after, list)
        messages = after if isinstance(after, list) else messages
        assert list(conversation.next_messages) == messages
    assert conversation.base_messages == tuple(base), "the base does not change while the turn runs"
    assert len({message.id for message in messages}) == len(messages)


@pytest.mark.spec("CS-05", "DX-60", "DX-61b")
@given(BASES, STREAMS)
@settings(max_examples=examples(100), deadline=None)
def test_a_replay_of_the_events_gives_the_same_messages(base: list[Message], stream: list[TurnEvent]):
    first = pushed(base, stream)
    again = Conversation(base, first.events)
    assert again.next_messages == first.next_messages
    assert again.events == first.events


def pushed(base: Sequence[Message], stream: Sequence[TurnEvent]) -> Conversation:
    """What a turn would have logged: events with a taken id are refused and never reach the log."""
    conversation = Conversation(base)
    for event in stream:
        try:
            conversation.push(event)
        except SessionError:
            continue
    return conversation


def folded(base: Sequence[Message], turns: Sequence[Sequence[TurnEvent]]) -> list[tuple[Message, ...]]:
    """The base in a real database after each turn."""
    db = apsw.Connection(":memory:")
    try:
        for migration in MIGRATIONS:
            db.execute(migration)
        ROWS.fold(db, 1, 1, [Append(message) for message in base])
        ROWS.fold(db, 2, 2, [Append(said("m1", "of another session"))])
        states: list[tuple[Message, ...]] = []
        for events in turns:
            ROWS.fold(db, 1, 1, events)
            states.append(tuple(ROWS.messages(db, 1)))
        assert [message.text for message in ROWS.messages(db, 2)] == ["of another session"]
        return states
    finally:
        db.close()


@pytest.mark.spec("CS-10", "DX-60")
@given(BASES, st.lists(STREAMS, min_size=1, max_size=3))
@settings(max_examples=examples(150), deadline=None)
def test_the_fold_in_the_database_is_the_fold_in_memory(base: list[Message], streams: list[list[TurnEvent]]):
    """The cache between turns holds what memory says, the disk what SQL says: they must never differ."""
    conversations: list[Conversation] = []
    start: Sequence[Message] = base
    for stream in streams:
        conversations.append(pushed(start, stream))
        start = conversations[-1].lasting_messages
    states = folded(base, [conversation.events for conversation in conversations])
    assert states == [conversation.lasting_messages for conversation in conversations]


@given(BASES, STREAMS)
@settings(max_examples=examples(100), deadline=None)
def test_events_whose_target_is_gone_change_nothing_in_the_database_either(
    base: list[Message], stream: list[TurnEvent]
):
    """After a reset a turn's log is folded on another base than the one it was written for."""
    fresh = [event for event in stream if not isinstance(event, Append | Replace)]
    conversation = pushed(base, fresh)
    assert folded(base, [fresh]) == [conversation.lasting_messages]


# ── by hand ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-61")
@pytest.mark.parametrize(
    ("event", "action"),
    [(Remove("x"), "remove"), (Replace("x", said("y")), "replace"), (Patch("x", {"a": 1}), "patch")],
)
def test_a_missing_target_is_told_and_changes_nothing(event: TurnEvent, action: str):
    told: list[Event] = []
    conversation = Conversation([said("a")], emit=told.append)
    conversation.push(event)
    assert told == [MessageTargetMissing(target="x", action=action)]
    assert conversation.events == ()
    assert conversation.next_messages == (said("a"),)
    Conversation([], [event])  # nobody listens, nothing breaks


@pytest.mark.spec("DX-61", "MT-01")
def test_an_id_is_used_once():
    conversation = Conversation([said("a"), said("b")])
    for event in (Append(said("a")), Replace("a", said("b"))):
        with pytest.raises(SessionError, match="unique"):
            conversation.push(event)
    conversation.push(Replace("a", said("a", "the same id, another text")))
    assert [message.text for message in conversation.next_messages] == ["the same id, another text", "b"]
    assert len(conversation.events) == 1


# ── conversations kept in memory ────────────────────────────────────────────────────────────────────────────


def some(count: int) -> tuple[Message, ...]:
    return tuple(said(f"m{number}") for number in range(count))


def test_what_was_used_longest_ago_goes_first():
    recent = RecentConversations(limit=10)
    recent.keep("a", 1, some(4))
    recent.keep("b", 1, some(4))
    assert recent.get("a") == (1, some(4))
    recent.keep("c", 1, some(4))
    assert recent.get("b") is None
    assert recent.get("a") is not None
    assert recent.get("c") is not None


def test_a_conversation_kept_again_counts_once():
    recent = RecentConversations(limit=10)
    for version in range(50):
        recent.keep("a", version, some(6))
    recent.keep("b", 1, some(4))
    assert recent.get("a") == (49, some(6))
    assert recent.get("b") == (1, some(4))


def test_one_that_is_too_long_stays_while_it_is_spoken_in_and_takes_the_others_with_it_only_for_now():
    recent = RecentConversations(limit=10)
    recent.keep("a", 1, some(4))
    recent.keep("huge", 1, some(11))
    assert recent.get("huge") == (1, some(11))
    assert recent.get("a") is None
    recent.keep("a", 2, some(10))
    assert recent.get("huge") is None
    assert recent.get("a") == (2, some(10))


def test_what_is_forgotten_makes_room():
    recent = RecentConversations(limit=10)
    recent.keep("a", 1, some(9))
    recent.forget("a")
    recent.forget("never kept")
    recent.keep("b", 1, some(9))
    assert recent.get("a") is None
    assert recent.get("b") is not None


STEPS = st.lists(
    st.tuples(st.sampled_from(["keep", "get", "forget"]), st.sampled_from("abcdef"), st.integers(0, 8)), max_size=60
)


@given(STEPS)
@settings(max_examples=examples(100), deadline=None)
def test_never_more_than_the_limit_and_never_somebody_elses(steps: list[tuple[str, str, int]]):
    recent, latest = RecentConversations(limit=12), dict[str, int]()
    for version, (what, session, size) in enumerate(steps):
        if what == "keep":
            recent.keep(session, version, some(size))
            latest[session] = version
        elif what == "forget":
            recent.forget(session)
            latest.pop(session, None)
        kept = {name: found for name in "abcdef" if (found := recent.get(name)) is not None}
        assert sum(len(messages) for _, messages in kept.values()) <= 12 or len(kept) == 1
        assert all(latest[name] == found[0] for name, found in kept.items())
