import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.tools.result_guard import guard_result

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.spec("RG-03")
def test_nothing_is_said_as_nothing():
    assert guard_result(None) == "[No result returned]"


@pytest.mark.spec("RG-09")
def test_control_characters_go_except_tab_and_line_ends():
    every = "".join(map(chr, range(0x21)))
    assert guard_result(every) == "\t\n\r "


@pytest.mark.spec("RG-05")
def test_too_much_is_cut_and_marked_inside_the_limit():
    cut = guard_result("가" * 100_001)
    assert len(cut) == 100_000
    assert cut.endswith("[truncated]")
    assert guard_result("가" * 100_000) == "가" * 100_000


def test_halves_of_characters_are_joined_or_replaced():
    assert guard_result("\ud83d\ude00") == "😀"
    assert guard_result("a\ud83db") == "a�b"


@given(ANY_TEXT, st.integers(0, 60))
def test_guarded_text_is_short_storable_and_stays_as_it_is(text: str, limit: int):
    guarded = guard_result(text, limit)
    assert len(guarded) <= limit
    assert guarded.encode().decode() == guarded
    assert guard_result(guarded, limit) == guarded
