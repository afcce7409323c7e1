"""A history in pages is the tuple of its messages to everybody who looks, and opens no page that nobody looks at."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ports.nouns import said
from tests.ports.paged import page, paged

from finclaw.errors import SessionError
from finclaw.kernel.message import Message, Text, ToolCall
from finclaw.transcript.history import Messages, Page, as_messages, compress_meta, plain_texts, with_more, words_of

PLACES = st.integers(-20, 20)
BOUNDS = st.none() | PLACES


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[Message, ...], tuple[int, ...]]:
    messages = tuple(said(f"m{number}", f"word {number}") for number in range(draw(st.integers(0, 14))))
    return messages, tuple(draw(st.lists(st.integers(0, len(messages)), max_size=4)))


@pytest.mark.spec("CS-01")
@given(histories(), BOUNDS, BOUNDS, st.sampled_from([None, 1, 2, -1, -3]))
def test_every_slice_is_that_of_the_tuple(
    drawn: tuple[tuple[Message, ...], tuple[int, ...]], start: int | None, stop: int | None, step: int | None
) -> None:
    messages, ends = drawn
    part = paged(messages, *ends)[start:stop:step]
    assert tuple(part) == messages[start:stop:step]
    assert part == messages[start:stop:step]
    assert messages[start:stop:step] == part


@given(histories(), PLACES)
def test_every_place_is_that_of_the_tuple(drawn: tuple[tuple[Message, ...], tuple[int, ...]], place: int) -> None:
    messages, ends = drawn
    history = paged(messages, *ends)
    if -len(messages) <= place < len(messages):
        assert history[place] == messages[place]
        assert history[place] is history[place], "who keeps what was made of a message knows it by its identity"
    else:
        with pytest.raises(IndexError):
            history[place]


@given(histories(), histories())
def test_it_is_walked_compared_and_lengthened_like_the_tuple(
    one: tuple[tuple[Message, ...], tuple[int, ...]], other: tuple[tuple[Message, ...], tuple[int, ...]]
) -> None:
    (messages, ends), (more, _) = one, other
    history = paged(messages, *ends)
    assert (len(history), bool(history)) == (len(messages), bool(messages))
    assert with_more(history, more) == messages + more
    assert tuple(reversed(history)) == tuple(reversed(messages))
    assert tuple(history) == messages
    assert (history == paged(more, *other[1])) is (messages == more)
    assert history != list(messages)
    assert told(history) == [each.text for each in messages]


def told(history: Messages) -> list[str]:
    """What a model would be told."""
    return [
        msgspec.json.decode(words) if words else page.whole(place).text
        for page in plain_texts(history)
        for place, words in enumerate(page.words)
    ]


def test_only_the_pages_that_are_looked_at_are_opened() -> None:
    history = paged([said(f"m{number}") for number in range(30)], 10, 20)
    assert (history[-1].id, history[25:][0].id, len(history[:28]), history.open_count) == ("m29", "m25", 28, 10)
    assert [next(reversed(history)).id, history == history[:], history.open_count] == ["m29", True, 10]
    assert (history[12].id, history.open_count) == ("m12", 20)
    assert as_messages(history) is history


def test_what_was_said_is_told_without_opening_anything() -> None:
    messages = [said(f"m{number}", f"word {number}") for number in range(6)]
    history = paged(messages, 3)
    closed, behind = plain_texts(history)
    assert told(history) == [each.text for each in messages]
    assert (closed.speakers[0], list(behind.speakers)) == (b"user", [b"user"] * 3)
    assert [closed.whole(place) for place in range(3)] == messages[:3]
    assert behind.whole(1) == messages[4]
    assert history.open_count == 3, "not even for one that is asked for as a whole"


def test_words_that_stand_apart_are_only_words() -> None:
    """A picture, a call, or words for this turn only are more than that, and blanks are none."""
    plain = said("m", "안녕 \ud83d")
    call = ToolCall("c", "look", {})
    others = [
        msgspec.structs.replace(plain, blocks=blocks) for blocks in ((), (Text(" \n"),), (Text("a"), call), (call,))
    ]
    assert [words_of(each) for each in (*others, msgspec.structs.replace(plain, passing="note"))] == [""] * 5
    (page,) = plain_texts((plain, *others))
    assert page.words == ['"안녕 \ufffd"'.encode(), b"", b"", b"", b""]
    assert [page.whole(place + 1) for place in range(4)] == others


@pytest.mark.parametrize(
    "broken",
    [
        Page(1, b'{"id":"a","role":"nobody","blocks":[]}', b"\n"),
        Page(1, b'{"id":"a"}', b'user\n"words"'),
        Page(1, b"neither", b'user\n"words"'),
        Page(1, b'{"id":"a","source":{"kind":"user"},"created_at":"2026-01-01T00:00:00Z"}', b'nobody\n"words"'),
    ],
)
def test_what_is_no_message_is_said_to_be_none(broken: Page) -> None:
    for look in (lambda: broken.messages, lambda: broken.plain_text().whole(0)):
        with pytest.raises(SessionError, match="what is no message"):
            look()


def test_a_page_knows_how_much_was_written() -> None:
    closed = page([said("a", "x" * 1_000)])
    assert closed.length == 1
    assert 1_000 < closed.size < 1_500
    assert not closed.is_open
    assert closed.messages[0].id == "a"
    assert closed.is_open


def test_a_packed_page_is_the_same_page() -> None:
    messages = [said(f"m{number}", "words") for number in range(50)]
    beside = b"\n".join(map(msgspec.json.encode, messages))
    page = Page(50, compress_meta(beside), b"\n".join([b"\n"] * 50))
    size = page.size
    assert size < len(beside) / 4
    assert page.plain_text().whole(7) == messages[7]
    assert page.messages == tuple(messages)
    assert page.size > 4 * size, "what it weighs is what it has become"
