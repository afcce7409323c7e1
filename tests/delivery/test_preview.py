"""What may be seen of an answer in the making: whole pieces, no control token, nothing that is taken back."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.pipeline.reply_sequencer import Preview
from finclaw.tools.control_tokens import extract_control_tokens


def show(*pieces: str) -> str:
    preview = Preview()
    return "".join(preview.feed(piece) for piece in pieces)


def test_a_sentence_is_shown_when_it_is_whole() -> None:
    preview = Preview()
    assert preview.feed("Apple is at $2") == ""
    assert preview.feed("31.50") == ""
    assert preview.feed(". And") == "Apple is at $231.50."
    assert preview.feed(" more.\n") == " And more."


@pytest.mark.parametrize(
    "text", ["<<NO_REPLY>>\n", "Hello there.\n<<NO_REPLY>>\n", "<<NO_REPLY>>\nHi. \n<<SILENT_REPLY>>\n"]
)
def test_a_control_token_never_flashes_up(text: str) -> None:
    for cut in range(len(text) + 1):
        assert "<<" not in show(text[:cut], text[cut:])


def test_a_token_in_the_middle_turns_out_to_be_text() -> None:
    assert show("One.\n<<NO_REPLY>>\nTwo.\n") == "One.\n<<NO_REPLY>>\nTwo."


def test_a_fence_is_shown_whole() -> None:
    preview = Preview()
    assert preview.feed("See:\n```py\nx = 1. \ny = 2\n") == "See:"
    assert preview.feed("```\n") == "\n```py\nx = 1. \ny = 2\n```"


_WORDS = st.text(st.sampled_from("ab가. \n!<>`1"), max_size=60) | st.lists(
    st.sampled_from(["<<NO_REPLY>>", "\n", "Hi. ", "```\n", "- item\n", " ", "끝입니다.\n", "x"]), max_size=12
).map("".join)


@given(text=_WORDS, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_what_was_shown_is_always_the_beginning_of_what_will_be_seen(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    shown = show(*(text[start:end] for start, end in pairwise(edges)))
    assert extract_control_tokens(text).clean_content.strip().startswith(shown)


@given(text=_WORDS, cuts=st.lists(st.integers(0, 60), max_size=6))
def test_the_quick_way_shows_what_the_long_way_shows(text: str, cuts: list[int]) -> None:
    """Where a fence may follow, every segment is looked at by itself; a backquote at the end makes it so."""
    text = text.replace("`", "").replace("<<", "")
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    quick, slow = Preview(), Preview()
    for start, end in pairwise(places):
        quick.feed(text[start:end])
        slow.feed(text[start:end])
    assert quick.feed("One. Two!\n three?) ") == slow.feed("One. Two!\n three?) `")
    assert Preview().feed(text) == Preview().feed(text + "`")
