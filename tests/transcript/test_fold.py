"""One fold: a running turn, the rows of SQLite and the lines of base.jsonl make the same of any events."""

from collections.abc import Sequence
from contextlib import closing

import apsw
import pytest
from hypothesis import given, settings
from tests.machine import examples
from tests.ports.nouns import said
from tests.sessions.streams import BASES, STREAMS

from finclaw.errors import SessionError
from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, Truncate, TurnEvent
from finclaw.storage.jsonl.base import MessageLine, fold_lines
from finclaw.storage.sqlite import transcript
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.transcript.conversation import Conversation
from finclaw.transcript.fold import fold, touches_only_own


@pytest.mark.spec("CS-01", "DX-60")
@given(BASES, STREAMS)
@settings(max_examples=examples(150), deadline=None)
def test_all_who_apply_events_agree(base: list[Message], stream: list[TurnEvent]) -> None:
    conversation = push_all(base, stream)
    events = conversation.events
    after = fold(base, events)
    assert list(conversation.lasting_messages) == after
    lines = fold_lines([MessageLine("old", each) for each in base], "new", events)
    assert [line.message for line in lines] == after
    assert rows_after(base, events) == after
    if touches_only_own(events):
        assert after == [*base, *fold((), events)], "what was there before need not be read"


def push_all(base: Sequence[Message], stream: Sequence[TurnEvent]) -> Conversation:
    """A turn's log: events that are refused never reach it."""
    conversation = Conversation(base)
    for event in stream:
        try:
            conversation.push(event)
        except SessionError:
            continue
    return conversation


def rows_after(base: Sequence[Message], events: Sequence[TurnEvent]) -> list[Message]:
    with closing(apsw.Connection(":memory:")) as db:
        for migration in MIGRATIONS:
            db.execute(migration)
        db.execute("INSERT INTO session (id, key, created_at) VALUES (1, 'a', 0)")
        transcript.add(db, 1, base)
        transcript.ROWS.fold(db, 1, 1, events)
        return list(transcript.messages(db, 1))


def test_messages_that_no_event_touches_are_the_very_same() -> None:
    base = [said("a"), said("b")]
    first, *_ = fold(base, [Patch("b", {"x": 1}), Append(said("c"))])
    assert first is base[0]


@pytest.mark.parametrize("event", [Truncate(2), Remove("a"), Patch("a", {"x": 1}), Replace("a", said("a"))])
def test_a_turn_that_reaches_older_messages_is_told_from_others(event: TurnEvent) -> None:
    own = [Append(said("new")), Replace("new", said("newer")), Remove("newer")]
    assert touches_only_own(own)
    assert not touches_only_own([*own, event])
