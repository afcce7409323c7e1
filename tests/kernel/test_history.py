"""A history in pages is the tuple of its messages to everybody who looks, and opens no page that nobody looks at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ports.nouns import said
from tests.ports.paged import page, paged

from finclaw.errors import SessionError
from finclaw.kernel.history import Page, as_messages, said_in, with_more
from finclaw.kernel.message import Message

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
    assert [message.blocks for told, _ in said_in(history) for message in told] == [each.blocks for each in messages]


def test_only_the_pages_that_are_looked_at_are_opened() -> None:
    history = paged([said(f"m{number}") for number in range(30)], 10, 20)
    assert (history[-1].id, history[25:][0].id, len(history[:28]), history.opened) == ("m29", "m25", 28, 10)
    assert [next(reversed(history)).id, history == history[:], history.opened] == ["m29", True, 10]
    assert (history[12].id, history.opened) == ("m12", 20)
    assert as_messages(history) is history


def test_what_was_said_is_told_without_opening_anything() -> None:
    messages = [said(f"m{number}", f"word {number}") for number in range(6)]
    history = paged(messages, 3)
    (told, whole), (behind, own) = said_in(history)
    assert [each.blocks for each in (*told, *behind)] == [each.blocks for each in messages]
    assert (whole(2), own(1)) == (messages[2], messages[4])
    assert history.opened == 3, "not even for one that is asked for as a whole"


def test_what_is_no_message_is_said_to_be_none() -> None:
    broken = Page(1, b'{"id":"a","role":"nobody","blocks":[]}')
    for look in (lambda: broken.messages, broken.said):
        with pytest.raises(SessionError, match="what is no message"):
            look()


def test_a_page_knows_how_much_was_written() -> None:
    closed = page([said("a", "x" * 1_000)])
    assert closed.length == 1
    assert 1_000 < closed.size < 1_500
    assert not closed.is_open
    assert closed.messages[0].id == "a"
    assert closed.is_open
