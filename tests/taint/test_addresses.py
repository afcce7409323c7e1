"""Whole addresses of a text, each in a few spellings, in time that grows with the text and nothing else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.taint.addresses import addresses_in, written_addresses


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("see https://a.example/b, or (https://c.example/d).", ["https://a.example/b", "https://c.example/d"]),
        ("[x](https://a.example/b)", ["https://a.example/b"]),
        ('{"url":"https://a.example/b?c=d&e=f"}', ["https://a.example/b?c=d&e=f"]),
        ("https://a.example/X_(Y)", ["https://a.example/X_(Y)"]),
        ("nothttps://a.example/b", ["nothttps://a.example/b"]),
        ("http://[::1]:8080/x", ["http://[::1]:8080/x"]),
        ("https://a.example/?u=https://b.example/", ["https://a.example/?u=https://b.example/"]),
        ("a.b https:// http://", []),
        ("no address at all", []),
    ],
)
def test_addresses_are_whole_words(text: str, written: list[str]) -> None:
    assert list(written_addresses(text)) == written


def test_a_person_may_leave_the_scheme_out() -> None:
    assert set(written_addresses("read a.example/b를 and c.example", bare=True)) == {
        "https://a.example/b를",
        "https://c.example",
    }


@given(st.text(alphabet="htps:/.exampl?&#()%A é를", max_size=60), st.text(alphabet="htps:/.exampl?&#()%A", max_size=60))
def test_few_spellings_come_of_one_text(before: str, after: str) -> None:
    """However it is made: not more than a handful for each address that stands there."""
    text = f"{before} https://evil.example/{after}"
    assert len(addresses_in(text)) <= 12 * len(list(written_addresses(text)))


@pytest.mark.parametrize(
    "part", ["https://", "a.", "https://a.example/", "a-", "x" * 60 + ".", ")", "https://a(", "가.", "//:", "a:"]
)
def test_no_text_takes_long(part: str) -> None:
    text = part * (200_000 // len(part))
    began = time.process_time()
    addresses_in(text, bare=True)
    assert time.process_time() - began < 3
