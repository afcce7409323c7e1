"""ThinkingField among the words are thoughts, however the stream is cut; words are what they were."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.openai_streams import DONE, finish, ours, say

from finclaw.kernel.chunk import Chunk, TextDelta, ThinkingDelta
from finclaw.providers.openai.answer import ThinkTag


def read(pieces: Iterable[str]) -> tuple[str, str]:
    """ThinkingField and words."""
    tag = ThinkTag(0, 1)
    chunks: list[Chunk] = []
    for piece in pieces:
        chunks += (TextDelta(piece, 1),) if tag.passed else tag.feed(piece)
    chunks += tag.close()
    thoughts = "".join(each.text for each in chunks if isinstance(each, ThinkingDelta))
    return thoughts, "".join(each.text for each in chunks if isinstance(each, TextDelta))


@pytest.mark.parametrize(
    ("text", "thoughts", "words"),
    [
        ("<think>Hm. 75,300?</think>\n\nIt closed at 75,300.", "Hm. 75,300?", "It closed at 75,300."),
        ("\n<think>\n</think>\n\nYes", "\n", "Yes"),
        ("<think>only thoughts</think>", "only thoughts", ""),
        ("<think>cut in the mid", "cut in the mid", ""),
        ("<think>cut in the </thi", "cut in the </thi", ""),
        ("<think>a < b </ c</think>x", "a < b </ c", "x"),
        ("no thoughts <think>here</think>", "", "no thoughts <think>here</think>"),
        ("<thinking> is a word", "", "<thinking> is a word"),
        ("<thi", "", "<thi"),
        ("  spaced", "", "  spaced"),
        ("", "", ""),
        ("<think>a</think><think>b</think>", "a", "<think>b</think>"),
    ],
)
@given(cuts=st.lists(st.integers(0, 60), max_size=12))
def test_thoughts_and_words(text: str, thoughts: str, words: str, cuts: Sequence[int]) -> None:
    places = [0, *sorted(min(each, len(text)) for each in cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(places)]
    assert read(pieces) == (thoughts, words)
    assert read(text) == (thoughts, words)


@given(st.lists(st.text(alphabet="<think>/ a\n", max_size=12)))
def test_nothing_but_tags_and_space_is_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    thoughts, words = read(pieces)
    if thoughts or not text.lstrip().startswith("<think>"):
        kept = f"<think>{thoughts}</think>{words}" if thoughts else words
        assert "".join(kept.split()) in ("".join(text.split()), "".join(text.split()) + "</think>")


def test_in_an_answer_as_a_server_sends_it() -> None:
    stream = b"".join((say("<thi"), say("nk>Hm"), say(".</think>\n\n"), say("\nYes"), finish("stop"), DONE))
    for pieces in ([stream], [bytes([each]) for each in stream]):
        told = ours(pieces)
        assert "".join(each.text for each in told if isinstance(each, ThinkingDelta)) == "Hm."
        assert "".join(each.text for each in told if isinstance(each, TextDelta)) == "Yes"


def test_empty_lines_without_end_are_not_held_back() -> None:
    tag = ThinkTag(0, 1)
    for _ in range(2_000):
        tag.feed("\n")
    assert tag.passed
