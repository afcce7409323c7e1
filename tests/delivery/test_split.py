"""Long texts in parts: none too long, nothing lost, cut where a reader would cut."""

import random
import re
import string
import time
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.delivery.documents import FAMILY, FLAG, SYLLABLES, make_document

from finclaw.delivery.format import split_message
from finclaw.text import LengthUnit, text_length

_prose = st.text(st.sampled_from("ab다.  \n\n가\t漢🙂"), max_size=400)


@given(_prose | st.text(max_size=200), st.integers(1, 60))
def test_row_12_every_part_fits_and_nothing_but_white_space_is_lost(text: str, limit: int) -> None:
    parts = split_message(text, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(_prose | st.text(max_size=200), st.integers(4, 60), st.sampled_from(["characters", "utf16", "bytes"]))
def test_every_part_fits_as_the_platform_counts(text: str, limit: int, unit: LengthUnit) -> None:
    parts = split_message(text, limit, unit)
    assert all(0 < text_length(part, unit) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_units_are_those_of_the_platforms() -> None:
    text = "a가🙂"
    assert [text_length(text, unit) for unit in ("characters", "utf16", "bytes")] == [3, 4, 8]
    assert split_message("🙂🙂🙂", 4, "utf16") == ["🙂🙂", "🙂"]
    assert split_message("가가가", 3, "bytes") == ["가", "가", "가"]


@given(_prose, st.integers(1, 60))
def test_words_that_fit_keep_their_order(text: str, limit: int) -> None:
    rest = text
    for part in split_message(text, limit):
        assert part in rest
        rest = rest[rest.index(part) + len(part) :]
    assert not rest.strip()


def test_row_12_a_limit_of_one_works() -> None:
    assert split_message("a b\nc", 1) == ["a", "b", "c"]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_part_must_hold_something(limit: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        split_message("x", limit)


def test_row_12_what_fits_is_left_alone() -> None:
    assert split_message("short\n\ntext", 100) == ["short\n\ntext"]
    assert split_message("x" * 10, 10) == ["x" * 10]


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_nothing_is_no_part(text: str) -> None:
    assert split_message(text, 10) == []


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("first paragraph\n\nsecond one", 20, ("first paragraph", "second one")),
        ("first line\nsecond line", 15, ("first line", "second line")),
        ("One sentence. Another one", 18, ("One sentence.", "Another one")),
        ("many words without an end", 12, ("many words", "without an", "end")),
        ("주가가 올랐습니다. 내일도 볼까요", 13, ("주가가 올랐습니다.", "내일도 볼까요")),
        ("x" * 25, 10, ("x" * 10, "x" * 10, "x" * 5)),
    ],
)
def test_row_12_the_cut_is_where_a_reader_would_cut(text: str, limit: int, parts: tuple[str, ...]) -> None:
    assert split_message(text, limit) == list(parts)


@pytest.mark.spec("F-07")
def test_code_that_is_cut_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"    line_{n} = {n}" for n in range(30))
    parts = split_message(f"Look:\n\n```python\n{code}\n```\n\nDone.", 100)
    inside = [part for part in parts if "line_" in part]
    assert len(inside) > 3
    for part in inside:
        assert part.count("```python\n    line_") == 1
        assert part.count("\n```") - part.count("\n```python") == 1
        assert len(part) <= 100
    assert sum(part.count("    line_") for part in parts) == 30


@pytest.mark.spec("F-07")
def test_a_table_that_is_cut_has_its_head_in_every_part() -> None:
    rows = "\n".join(f"| AAPL{n} | {n} |" for n in range(20))
    parts = split_message(f"| name | price |\n|---|--:|\n{rows}", 80)
    assert len(parts) > 3
    assert all(part.startswith("| name | price |\n|---|--:|\n| AAPL") and part.endswith(" |") for part in parts)


@pytest.mark.spec("F-07")
@pytest.mark.parametrize(
    "block",
    [
        "```\na = 1\n\nb = 2\nc = 3\n```",
        "~~~py\na = 1\n```\nb = 2\n~~~",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |",
        "- one thing,\n  said at length\n  - and below",
        "[the label of it](https://example.com/path)",
        "`a b c d e f g h`",
        "**words that are bold**",
        "👨‍👩‍👧‍👦" * 6,
    ],
)
@pytest.mark.parametrize("before", range(0, 60, 7))
def test_what_fits_in_one_part_is_not_torn(block: str, before: int) -> None:
    parts = split_message(f"{'word ' * before}\n\n{block}\n\nand more words behind it", 64)
    assert sum(block in part for part in parts) == 1


def test_characters_are_not_torn() -> None:
    for character in (FAMILY, FLAG, "e\u0301", SYLLABLES[:3], "👍🏽", "❤️‍🔥"):
        parts = split_message(character * 100, 64, "utf16")
        assert all(part == character * (len(part) // len(character)) for part in parts)


def test_a_character_that_no_part_can_hold_is_cut_all_the_same() -> None:
    assert "".join(split_message("a" + "\u0301" * 300, 64)) == "a" + "\u0301" * 300


_FENCE_LINE = re.compile(r"^[> ]*(?:`{3,4}|~{3})(?:py|json)?$", re.MULTILINE)
_SIGNS = str.maketrans("", "", string.punctuation + string.whitespace)


def check_split(seed: int) -> None:
    """Every part within the limit and with its code closed; together they say what the document says, once."""
    chance = random.Random(seed)
    document = make_document(seed)
    limit, unit = chance.choice((64, 100, 300, 1_000)), chance.choice(get_args(LengthUnit))
    parts = split_message(document.text, limit, unit)
    assert all(0 < text_length(part, unit) <= limit for part in parts)
    assert all(len(_FENCE_LINE.findall(part)) % 2 == 0 for part in parts)
    said = _letters("\n".join(parts))
    for head in document.heads:
        first, found, rest = said.partition(head)
        said = first + found + rest.replace(head, "")
    assert said == _letters(document.text)


def _letters(text: str) -> str:
    return _FENCE_LINE.sub("", text).translate(_SIGNS)


@pytest.mark.spec("F-06", "F-07")
def test_random_documents() -> None:
    for seed in range(2_000):
        check_split(seed)


@pytest.mark.soak
def test_many_random_documents() -> None:
    for seed in range(2_000, 52_000):
        check_split(seed)


@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "a b ",
        "> ",
        "- a\n",
        "```\n",
        "~~~\ny\n",
        "|a|b|\n",
        "[a](http://x) ",
        "**a** ",
        "👨‍👩‍👧‍👦",
        "\u200d",
        "  - b\n",
    ],
)
def test_the_time_grows_with_the_length_alone(piece: str) -> None:
    def spend(size: int) -> float:
        text = piece * (size // len(piece))
        start = time.process_time()
        split_message(text, 500)
        return time.process_time() - start

    spend(2_000)
    limit = 0.1 + 14 * min(spend(4_000) for _ in range(3))
    assert any(spend(32_000) < limit for _ in range(3))
