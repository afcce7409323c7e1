"""Addresses and markup made harmless, in time that grows with the text and nothing else."""

import time

import pytest

from finclaw.delivery.links import make_links_safe, may_hold_links

NAMED = {"https://good.example/a", "https://good.example/X_(Y)"}


def shown(text: str) -> str:
    return make_links_safe(text, lambda address: address in NAMED)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("https://good.example/a", "https://good.example/a"),
        ("https://good.example/a.", "https://good.example/a."),
        ("[x](https://good.example/a)", "[x](https://good.example/a)"),
        ("[x](https://good.example/X_(Y))", "[x](https://good.example/X_(Y))"),
        ("![x](https://good.example/a)", "[x](https://good.example/a)"),
        ("[x](docs/a.md#b)", "[x](docs/a.md#b)"),
        ("https://evil.example/a.", "hxxps://evil[.]example/a."),
        ("HTTP://evil.example", "HxxP://evil[.]example"),
        ("[x](https://evil.example/b)", "x (hxxps://evil[.]example/b)"),
        ("[](https://evil.example/b)", "(hxxps://evil[.]example/b)"),
        ("[https://evil.example](https://good.example/a)", "[hxxps://evil[.]example](https://good.example/a)"),
        ("<b>bold</b>", "< b>bold< /b>"),
        ("3 <4 and 5> 4", "3 <4 and 5> 4"),
        ("leak.evil.example, a.b and e.g. this", "leak[.]evil[.]example, a.b and e.g. this"),
        ("mail ada@mail.good.example or 1.2.3", "mail ada@mail.good.example or 1.2.3"),
        ("mail ada@good.example today", "mail ada@good.example today"),
        ("v1.2/3 and 1.5/2", "v1.2/3 and 1.5/2"),
    ],
)
def test_a_text_as_it_is_shown(text: str, seen: str) -> None:
    assert shown(text) == seen


@pytest.mark.parametrize("text", ["Apple is at $223.03, up 1.2%.", "안녕하세요. 잘 지내요?", "a - b: c; d (e) [f]"])
def test_most_answers_are_not_looked_at_twice(text: str) -> None:
    assert not may_hold_links(text)


@pytest.mark.parametrize(
    "part",
    ["[", "![", "](", "[a](", "<a", "<", "a.", "https://", "//a.", "www.", "\\", "(", "a.b/", "http", "x" * 50 + "."],
)
def test_no_text_takes_long(part: str) -> None:
    text = part * (100_000 // len(part))
    began = time.process_time()
    may_hold_links(text)
    shown(text)
    assert time.process_time() - began < 2
