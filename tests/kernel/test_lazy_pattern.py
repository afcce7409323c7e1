"""A pattern that is compiled later finds what one that is compiled at once does."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.agent.window.compaction import facts
from finclaw.kernel.lazy_pattern import LazyPattern
from finclaw.tools.approval import shown
from finclaw.tools.guard import clean, fold, markup

HOMES = (clean, facts, fold, markup, shown)
SOURCE = r"([a-c]+)[- ]"


@given(st.text("abc- x\n가"))
def test_it_finds_what_a_compiled_one_finds(text: str) -> None:
    late, early = LazyPattern(SOURCE, re.IGNORECASE), re.compile(SOURCE, re.IGNORECASE)
    for find in ("search", "match", "fullmatch"):
        found, expected = getattr(late, find)(text), getattr(early, find)(text)
        assert (found and found.span()) == (expected and expected.span())
    assert [each.span() for each in late.finditer(text)] == [each.span() for each in early.finditer(text)]
    assert late.split(text) == early.split(text)
    assert late.sub(r"<\1>", text) == early.sub(r"<\1>", text)


def test_a_place_to_begin_and_to_end_is_kept_to() -> None:
    late = LazyPattern("b")
    assert late.search("abab", 2, 3) is None
    assert [each.start() for each in late.finditer("abab", 2)] == [3]


def test_it_is_compiled_when_it_is_first_used_and_not_before() -> None:
    broken = LazyPattern("(")
    assert broken.pattern == "("
    with pytest.raises(re.error):
        broken.search("")


def test_it_is_compiled_once() -> None:
    late = LazyPattern("a")
    assert late.compiled is late.compiled
    assert late.search is late.search


def test_every_one_of_ours_compiles() -> None:
    patterns = [value for home in HOMES for value in vars(home).values() if isinstance(value, LazyPattern)]
    assert len(patterns) > 20
    for pattern in patterns:
        assert pattern.compiled.pattern == pattern.pattern
