"""What rows hold is what was given, though empty fields are left out; and rows of earlier releases are read."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ports.nouns import adds, begin, ending, nothing, said, take, written

from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import ActionButton, Attachment, Embed, Inbound, Limits, Outbound, OutboundFile, Sender
from finclaw.kernel.message import Append
from finclaw.kernel.record import OutboxItem
from finclaw.kernel.scope import Outcome, StageEntry, ToolUse
from finclaw.storage.sqlite import transcript
from finclaw.storage.sqlite.codec import (
    from_micros,
    read_inbound,
    read_outcome,
    read_unit,
    to_micros,
    write,
    write_inbound,
    write_outcome,
    write_unit,
)
from finclaw.storage.sqlite.database import DATABASE, open_database
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock
from finclaw.transcript.history import PagedHistory

WORDS = st.sampled_from(["", "api", "local", "main", "한국어", 'a "b" \\', "\x00"])
MAYBE = st.none() | WORDS
FLAGS = st.booleans()
MOMENTS = st.datetimes(timezones=st.just(UTC))
SENDERS = st.builds(Sender, WORDS, WORDS, st.lists(WORDS, max_size=2).map(tuple), FLAGS, FLAGS)
INBOUNDS = st.builds(
    Inbound,
    text=WORDS,
    channel=WORDS,
    account=WORDS,
    conversation=WORDS,
    message_id=WORDS,
    sender=SENDERS,
    chat_type=st.sampled_from(["direct", "group", "channel"]),
    thread=MAYBE,
    reply_to=MAYBE,
    attachments=st.lists(st.builds(Attachment, id=WORDS, kind=st.just("image")), max_size=2).map(tuple),
    mentions_us=FLAGS,
    forwarded=FLAGS,
    edited=FLAGS,
    kind=st.sampled_from(["message", "edit", "delete", "reaction", "action"]),
    target=MAYBE,
    sent_at=st.none() | MOMENTS,
    reissue_of=MAYBE,
    from_extension=MAYBE,
    limits=st.none() | st.builds(Limits, max_steps=st.none() | st.integers(0, 9)),
)
STAGES = st.builds(
    StageEntry, WORDS, st.sampled_from(["continue", "skip", "abort"]), st.floats(0, 9), st.sampled_from(["", "why"])
)
OUTCOMES = st.builds(
    Outcome,
    kind=st.sampled_from(["answered", "failed", "skipped"]),
    reason=WORDS,
    reply=MAYBE,
    turn_id=MAYBE,
    stages=st.lists(STAGES, max_size=3).map(tuple),
    tools=st.lists(st.builds(ToolUse, WORDS, st.just("ok")), max_size=2).map(tuple),
    usage=st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    cost=st.sampled_from([Decimal(0), Decimal("0.10"), Decimal("1E-7")]),
    duration_ms=st.floats(0, 9),
)
OUTBOUNDS = st.builds(
    Outbound,
    text=WORDS,
    kind=st.sampled_from(["reply", "notice", "confirmation"]),
    reply_to=MAYBE,
    thread=MAYBE,
    embeds=st.lists(st.builds(Embed, title=WORDS, url=MAYBE), max_size=2).map(tuple),
    ephemeral=FLAGS,
    perishable=FLAGS,
    attachments=st.lists(st.builds(OutboundFile, blob=WORDS, name=WORDS, alt=WORDS), max_size=2).map(tuple),
    actions=st.lists(
        st.builds(ActionButton, label=WORDS, command=WORDS, style=st.sampled_from(["normal", "primary", "danger"])),
        max_size=2,
    ).map(tuple),
    rendered=MAYBE,
    plain=MAYBE,
)


@pytest.mark.spec("DX-60")
@given(INBOUNDS, OUTCOMES, OUTBOUNDS)
def test_what_is_read_is_what_was_written(inbound: Inbound, outcome: Outcome, outbound: Outbound):
    assert read_inbound(write_inbound(inbound)) == inbound
    assert read_outcome(write_outcome(outcome)) == outcome
    assert read_unit(write_unit(unit_of(outbound))).outbound == outbound


@given(INBOUNDS, OUTCOMES, OUTBOUNDS)
def test_rows_that_were_written_in_full_are_read_as_well(inbound: Inbound, outcome: Outcome, outbound: Outbound):
    assert read_inbound(write(inbound)) == inbound
    assert read_outcome(write(outcome)) == outcome
    full = msgspec.to_builtins(outbound)
    body = {"channel": "c", "account": "a", "conversation": "r", "outbound": full, "turn_id": None}
    assert read_unit(write(body)).outbound == outbound


def test_a_unit_of_an_earlier_release_shows_its_text():
    body = '{"channel":"c","account":"a","conversation":"r","outbound":{"text":"**hi**","kind":"reply"},"turn_id":null}'
    old = read_unit(body).outbound
    assert (old.formatted, old.fallback, old.actions, old.attachments) == ("**hi**", "**hi**", (), ())


def unit_of(outbound: Outbound) -> OutboxItem:
    return OutboxItem(
        id="u-x-1-0",
        session="s",
        inbound_id="m-x-1",
        turn_id=None,
        seq=0,
        channel="c",
        account="a",
        conversation="r",
        outbound=outbound,
        planned_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_nothing_is_left_out_that_says_something():
    """A later release may have another default; the row still says what was meant."""
    told: dict[str, Any] = msgspec.json.decode(write_inbound(Inbound(text="hi")))
    assert set(told) == {"text", "channel", "account", "conversation", "message_id", "sender", "chat_type"}
    assert set(msgspec.json.decode(write_unit(unit_of(Outbound(text="hi"))))["outbound"]) == {"text", "kind"}


def test_a_noun_of_a_wrong_type_is_kept_as_it_is():
    wrong: Any = 7
    assert '"thread":7' in write_inbound(Inbound(text="hi", thread=wrong))
    assert '"reason":7' in write_outcome(Outcome(kind="failed", reason=wrong))


def test_half_a_character_is_mended_in_lean_rows_too():
    assert read_inbound(write_inbound(Inbound(text="a\ud83d"))).text == "a\ufffd"
    assert read_outcome(write_outcome(Outcome(kind="failed", reason="\udc00"))).reason == "\ufffd"


@given(st.integers(0, 400), st.integers(1, 3), st.data())
def test_messages_are_read_in_order_however_many_there_are(count: int, sessions: int, data: st.DataObject):
    """Through several pages, beside those of other sessions, and any part of them."""
    db = apsw.Connection(":memory:")
    for migration in MIGRATIONS:
        db.execute(migration)
    spoken = [said(f"m{number}", f'{number} "," 값') for number in range(count)]
    for place, message in enumerate(spoken):
        transcript.add(db, place % sessions, [message])
    first = data.draw(st.integers(0, count + 1))
    last = data.draw(st.integers(first, count + 1))
    for session in range(sessions):
        rows = {row: message for row, message in enumerate(spoken, start=1) if (row - 1) % sessions == session}
        assert transcript.messages(db, session) == tuple(rows.values())
        part = tuple(message for row, message in rows.items() if first <= row <= last)
        assert transcript.messages(db, session, first, last) == part


@given(MOMENTS)
def test_a_moment_is_kept_to_the_microsecond(moment: datetime):
    assert from_micros(to_micros(moment)) == moment
    assert to_micros(moment) == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


# ── messages in the order of conversations, as they stood before ────────────────────────────────────────────


def older_database(path: Path) -> None:
    """Two conversations of the schema in which a message's number began with its session's."""
    db = apsw.Connection(str(path))
    for migration in MIGRATIONS[:5]:
        db.execute(migration)
    db.execute("INSERT INTO meta VALUES ('name', 'older'), ('boot', 7)")
    db.execute("INSERT INTO session (id, key, created_at, version) VALUES (1, 'one', 5, 2), (2, 'two', 5, 1)")
    for row, session in ((1, 1), (2, 2), (3, 1)):
        base = session << 32
        first = base + (3 if row == 3 else 1)
        db.execute(
            "INSERT INTO inbound (id, name, digest, session, ticket, body, accepted_at, state, kind, ended_at) "
            "VALUES (?1, CAST(?1 AS BLOB), x'00', ?2, ?1, ?3, 7, 'ended', 'answered', 8)",
            (row, session, write(written(id=str(row)))),
        )
        db.execute("INSERT INTO outcome VALUES (?, ?)", (row, write(Outcome(kind="answered", reply="ok"))))
        for number in (first, first + 1):
            message = said(f"o-{number - base}")
            db.execute("INSERT INTO message VALUES (?, ?, ?)", (number, message.id, write(message)))
        db.execute(
            "INSERT INTO turn (id, session, epoch, status, started_at, ended_at, first_message, last_message) "
            "VALUES (?, ?, 0, 'completed', 7, 8, ?, ?)",
            (row, session, first, first + 1),
        )
    db.execute("UPDATE session SET turns = 3 - id")
    db.execute("PRAGMA user_version = 5")
    db.close()


@pytest.mark.spec("DX-60")
async def test_conversations_of_the_earlier_order_go_on_where_they_were(tmp_path: Path):
    older_database(tmp_path / "x.db")
    store = open_store(tmp_path / "x.db", FakeClock(), threaded=False)
    for session in ("one", "two"):
        accepted = await take(store, written(id=f"new-{session}"), session)
        claim = await begin(store, accepted)
        assert await store.finish(ending(store, accepted, claim, "ok", events=adds(f"a-{session}")), nothing)
    assert [message.id for message in await store.messages("one")] == [
        *("o-1", "o-2", "o-3", "o-4"),
        *("q-new-one", "a-one"),
    ]
    assert [message.id for message in await store.messages("two")] == ["o-1", "o-2", "q-new-two", "a-two"]
    third = await store.turn("t-older-3")
    assert third is not None
    assert third.whole
    assert [message.id for message in third.before] == ["o-1", "o-2"]
    assert [message.id for message in third.messages] == ["o-3", "o-4"]
    page = await store.sessions(10)
    assert {each.key: (each.messages, each.turns) for each in page.items} == {"one": (6, 3), "two": (4, 2)}
    await store.close()


async def test_numbers_of_a_conversation_that_is_gone_may_become_anothers(tmp_path: Path):
    """Its turns then have no messages left; they are never told with the words of somebody else."""
    store = open_store(tmp_path / "x.db", FakeClock(), threaded=False)
    turns: list[str] = []
    for key in ("mine", "theirs"):
        accepted = await take(store, written(id=key), key)
        claim = await begin(store, accepted)
        turns.append(claim.turn_id)
        assert await store.finish(ending(store, accepted, claim, "ok", events=[Append(said(f"a-{key}"))]), nothing)
        if key == "mine":
            await store.reset("mine")
    mine, theirs = [await store.turn(turn_id) for turn_id in turns]
    assert mine is not None
    assert theirs is not None
    assert (mine.before, mine.messages, mine.whole) == ((), (), False)
    assert [message.id for message in theirs.messages] == ["q-theirs", "a-theirs"]
    assert (theirs.before, theirs.whole) == ((), True)
    await store.close()


@pytest.mark.spec("CS-01")
@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 144, 145, 400, 401, 1_000])
def test_a_conversation_in_pages_is_the_one_in_rows(tmp_path: Path, length: int) -> None:
    with closing(open_database(tmp_path / DATABASE)) as db:
        db.execute("INSERT INTO session (id, key, created_at) VALUES (1, 'a', 0), (2, 'b', 0)")
        for number in range(length):  # between those of another
            transcript.add(db, 1, [said(f"m{number}", "반\n" * (number % 3))])
            transcript.add(db, 2, [said(f"o{number}")])
        read = transcript.ROWS.messages(db, 1)
        assert len(read) == length
        assert isinstance(read, PagedHistory) == (length > 128)
        opened = read.open_count if isinstance(read, PagedHistory) else length
        assert opened <= 128
        assert tuple(read) == transcript.messages(db, 1)
        assert [each.id for each in read] == [f"m{number}" for number in range(length)]
