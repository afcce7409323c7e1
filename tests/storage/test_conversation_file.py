"""A conversation as a file: what goes out comes back in, byte for byte, and nothing else does."""

import tracemalloc
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples

from finclaw.errors import SessionError
from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message, Source, Text, Thinking, ToolCall, ToolFailure, ToolResult
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock
from finclaw.transcript.conversation_file import read_conversation, read_earlier_facts, write_conversation

# Everything UTF-8 can hold, line breaks of every script included; half characters never get into a store.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["\u2028\u2029\x85\n\r\n", "\0\x1b[31m", "👩\u200d👩\u200d👧", "가각힣", '"\\', "\ufeff"]
)
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=9)), timezone(-timedelta(hours=9, minutes=30))])
TIMES = st.datetimes(timezones=ZONES)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=8) | st.sampled_from(
    [Decimal("0.10"), Decimal("1E+30"), Decimal("-0"), Decimal("190.500")]
)
FACTS = st.builds(
    Fact, subject=TEXTS, field=TEXTS, value=DECIMALS, as_of=TIMES, source=TEXTS, currency=st.none() | TEXTS
)
FAILURES = st.builds(ToolFailure, TEXTS, TEXTS, st.none() | TEXTS)
BLOCKS = st.one_of(
    st.builds(Text, TEXTS),
    st.builds(Thinking, TEXTS, TEXTS),
    st.builds(ToolCall, TEXTS, TEXTS, OBJECTS, st.none() | TEXTS),
    st.builds(
        ToolResult,
        TEXTS,
        TEXTS,
        TEXTS,
        st.sampled_from(["ok", "error", "denied", "timeout", "skipped", "unknown"]),
        st.lists(FACTS, max_size=2).map(tuple),
        st.none() | FAILURES,
        st.floats(0, 1e6),
    ),
)
SOURCES = st.builds(Source, st.sampled_from(["user", "assistant", "tool", "system", "extension"]), TEXTS, TEXTS)
MESSAGES = st.builds(
    Message,
    TEXTS,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(BLOCKS, max_size=3).map(tuple),
    SOURCES,
    TIMES,
    OBJECTS,
)
CONVERSATIONS = st.lists(MESSAGES, max_size=6, unique_by=lambda message: message.id)
KEY = "main:web:owner:direct:%EC%82%BC+owner"


@given(CONVERSATIONS)
def test_what_is_written_is_read_and_written_again_the_same(messages: list[Message]) -> None:
    content = write_conversation(KEY, messages)
    session, read = read_conversation(content)
    assert session == KEY
    assert list(read) == messages
    assert write_conversation(session, read) == content
    assert content.count(b"\n") == len(messages) + 1, "one line each, whatever is in them"


@settings(max_examples=examples(30))
@given(messages=CONVERSATIONS, facts=st.lists(FACTS, max_size=2))
async def test_export_import_export_is_the_identity(
    messages: list[Message], facts: list[Fact], tmp_path_factory: pytest.TempPathFactory
):
    store = open_store(tmp_path_factory.mktemp("state") / "x.db", FakeClock(), threaded=False)
    try:
        await store.restore(KEY, messages, facts)
        told = await store.facts(KEY)
        first = write_conversation(KEY, await store.messages(KEY), told)
        await store.reset(KEY)
        await store.restore(KEY, read_conversation(first)[1], read_earlier_facts(first))
        assert write_conversation(KEY, await store.messages(KEY), await store.facts(KEY)) == first
        assert {each.fact for each in await store.facts(KEY)} == {each.fact for each in told}
    finally:
        await store.close()


def test_a_fact_is_in_the_header_only_where_no_message_tells_it() -> None:
    lost, told = (Fact(subject=name, field="price", value=Decimal(1), as_of=AWARE, source="x") for name in "ab")
    message = said("1", blocks=(ToolResult("c", "quote", "1", facts=(told,)),))
    facts = [SessionFact(turn_id="t", fact=each) for each in (told, lost)]
    assert read_earlier_facts(write_conversation(KEY, [message], facts)) == (lost,)
    assert read_earlier_facts(GOOD) == ()


def said(id: str, **changes: object) -> Message:
    values: dict[str, object] = {"created_at": datetime(2026, 1, 2, tzinfo=UTC), **changes}
    values = {"role": "user", "blocks": (Text("hi"),), "source": Source("user"), **values}
    return Message(id, **values)  # pyright: ignore[reportArgumentType]


GOOD = write_conversation(KEY, [said("1")])
HEADER = GOOD.split(b"\n")[0]
AWARE = datetime(2026, 1, 2, tzinfo=UTC)
NAIVE = datetime(2026, 1, 2)  # noqa: DTZ001  that is the point
FACT = Fact(subject="A", field="price", value=Decimal(1), as_of=NAIVE, source="x")
WITH_FACT = Message(
    "1", "tool", (ToolResult("c", "t", "", facts=(FACT,)),), Source("tool"), datetime(2026, 1, 2, tzinfo=UTC)
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "line 1 is no header"),
        (b"\n", "line 1 is no header"),
        (b"\xef\xbb\xbf" + GOOD, "line 1 is no header"),
        (GOOD.replace(b"conversation", b"ledger"), "line 1 is no header"),
        (GOOD.replace(b'"version":1', b'"version":2'), "version 2 is not known here"),
        (HEADER + b"\n\n", "line 2 is no message"),
        (HEADER + b"\n{}", "line 2 is no message"),
        (GOOD + GOOD, "line 3 is no message"),
        (GOOD + b"\xff\n", "line 3 is no message"),
        (GOOD + b"[" * 100_000, "line 3 is no message"),
        (GOOD.replace(b'"role":"user"', b'"role":"god"'), "line 2 is no message: Invalid enum value 'god'"),
        (GOOD.replace(b'"text":"hi"', b'"text":"\\ud800"'), "line 2 is no message"),
        (GOOD[:-10], "line 2 is no message"),
        (write_conversation(KEY, [said("1"), said("2"), said("1")]), "line 4: id '1' was used in line 2"),
        (write_conversation(KEY, [said("1", passing="quotes")]), "line 2: a message with `passing`"),
        (write_conversation(KEY, [said("1", created_at=NAIVE)]), "line 2: a time has no zone"),
        (write_conversation(KEY, [WITH_FACT]), "line 2: a time has no zone"),
        (write_conversation(KEY, [], [SessionFact(turn_id="", fact=FACT)]), "line 1: a time has no zone"),
    ],
)
def test_anything_else_is_refused_by_its_line(content: bytes, words: str) -> None:
    with pytest.raises(SessionError) as caught:
        read_conversation(content)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def spoiled(at: int, byte: int) -> bytes:
    """A good file with one byte changed."""
    return GOOD[:at] + bytes([byte]) + GOOD[at + 1 :]


@given(st.binary(max_size=200) | st.builds(spoiled, st.integers(0, len(GOOD) - 1), st.integers(0, 255)))
def test_no_bytes_make_it_stumble(content: bytes) -> None:
    with suppress(SessionError):
        read_conversation(content)


def test_windows_line_ends_and_a_missing_last_one_are_forgiven() -> None:
    assert read_conversation(GOOD.replace(b"\n", b"\r\n")) == read_conversation(GOOD.rstrip()) == (KEY, (said("1"),))


def test_an_empty_conversation_is_a_header() -> None:
    assert read_conversation(write_conversation(KEY, [])) == (KEY, ())


def test_a_file_of_line_breaks_is_refused_in_little_memory() -> None:
    content = write_conversation("s", ()) + b"\n" * 5_000_000
    tracemalloc.start()
    try:
        with pytest.raises(SessionError, match="line 2 is no message"):
            read_conversation(content)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
