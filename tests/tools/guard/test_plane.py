"""A class that is looked up fast finds what the class itself would."""

import re

from hypothesis import given
from hypothesis import strategies as st

from finclaw.tools.guard.plane import Seldom, or_beyond

CHARACTERS = "a-c\u200d\uac00-\uac05\U0001f600-\U0001f610"


@given(st.text(st.sampled_from("abcxyz\u200d가갔힣😀🤔\n-]^\\")))
def test_the_first_of_these_characters_is_found(text: str):
    expected, found = re.search(f"[{CHARACTERS}]x?", text), Seldom(CHARACTERS, "x?").search(text)
    assert (found and found.span()) == (expected and expected.span())


def test_within_the_first_plane_it_is_the_same_class():
    plane = "".join(map(chr, range(0x10000)))
    assert re.findall(or_beyond(CHARACTERS), plane) == re.findall(f"[{CHARACTERS}]", plane)
