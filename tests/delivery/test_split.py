"""Long texts in parts: none too long, nothing lost, cut where a reader would cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.delivery.limits import text_length
from finclaw.delivery.split import split_text
from finclaw.kernel.text import LengthUnit

_prose = st.text(st.sampled_from("ab다.  \n\n가\t漢🙂"), max_size=400)


@given(_prose | st.text(max_size=200), st.integers(1, 60))
def test_row_12_every_part_fits_and_nothing_but_white_space_is_lost(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(_prose | st.text(max_size=200), st.integers(4, 60), st.sampled_from(["characters", "utf16", "bytes"]))
def test_every_part_fits_as_the_platform_counts(text: str, limit: int, unit: LengthUnit) -> None:
    parts = split_text(text, limit, unit)
    assert all(0 < text_length(part, unit) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_units_are_those_of_the_platforms() -> None:
    text = "a가🙂"
    assert [text_length(text, unit) for unit in ("characters", "utf16", "bytes")] == [3, 4, 8]
    assert split_text("🙂🙂🙂", 4, "utf16") == ("🙂🙂", "🙂")
    assert split_text("가가가", 3, "bytes") == ("가", "가", "가")


@given(_prose, st.integers(1, 60))
def test_words_that_fit_keep_their_order(text: str, limit: int) -> None:
    rest = text
    for part in split_text(text, limit):
        assert part in rest
        rest = rest[rest.index(part) + len(part) :]
    assert not rest.strip()


def test_row_12_a_limit_of_one_works() -> None:
    assert split_text("a b\nc", 1) == ("a", "b", "c")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_part_must_hold_something(limit: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        split_text("x", limit)


def test_row_12_what_fits_is_left_alone() -> None:
    assert split_text("short\n\ntext", 100) == ("short\n\ntext",)
    assert split_text("x" * 10, 10) == ("x" * 10,)


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_nothing_is_no_part(text: str) -> None:
    assert split_text(text, 10) == ()


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
    assert split_text(text, limit) == parts
