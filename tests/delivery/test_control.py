"""Control tokens: heard on a line of their own at either end of the text, never shown; anywhere else just text."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.delivery.control import ControlToken, extract_control

TOKENS: tuple[ControlToken, ...] = get_args(ControlToken)


@pytest.mark.parametrize("token", TOKENS)
def test_row_09_each_token_is_heard_and_taken_out(token: ControlToken) -> None:
    assert extract_control(f"<<{token}>>") == ("", frozenset({token}))
    assert extract_control(f"<<{token}>>\nHello") == ("Hello", frozenset({token}))
    assert extract_control(f"Hello\n<<{token}>>") == ("Hello", frozenset({token}))


def test_row_09_several_tokens_at_both_ends() -> None:
    text = "<<ATTACH_QUOTE>>\n\n  <<ATTACH_DISCLAIMER>>  \nAAPL is up.\nReally.\n\n<<NEED_INPUT>>\n<<NEED_INPUT>>\n"
    assert extract_control(text) == (
        "AAPL is up.\nReally.",
        frozenset[ControlToken]({"ATTACH_QUOTE", "ATTACH_DISCLAIMER", "NEED_INPUT"}),
    )


@pytest.mark.parametrize("text", ["", "Hello", "\n\nHello \n", "a < b << c", "Hello\n\n\nyou"])
def test_row_09_a_text_without_tokens_is_left_alone(text: str) -> None:
    assert extract_control(text) == (text, frozenset())


@pytest.mark.parametrize(
    "text",
    [
        "before\n<<NO_REPLY>>\nafter",
        "I would say <<NO_REPLY>>",
        "<<NO_REPLY>> is a token",
        "```\n<<NO_REPLY>>\n```",
        "`<<NO_REPLY>>`",
        "<<UNKNOWN>>",
        "<<no_reply>>",
        "<NO_REPLY>",
        "NO_REPLY",
        "<< NO_REPLY >>",
        "<<NO_REPLY",
        "<<<<NO_REPLY>>>>",
    ],
)
def test_row_09_elsewhere_or_otherwise_written_it_is_just_text(text: str) -> None:
    assert extract_control(text) == (text, frozenset())


_line = st.sampled_from([*(f"<<{token}>>" for token in TOKENS), "", "  ", "text", "a <<NO_REPLY>> b", "```"])


@given(st.lists(_line, max_size=8))
def test_what_is_left_has_nothing_more_to_say(lines: list[str]) -> None:
    rest, _ = extract_control("\n".join(lines))
    assert extract_control(rest) == (rest, frozenset())


@given(st.lists(_line, max_size=8))
def test_no_word_is_lost_but_the_tokens(lines: list[str]) -> None:
    rest, _ = extract_control("\n".join(lines))
    kept = [line for line in lines if line.strip()]
    while kept and kept[0].strip("<>") in TOKENS:
        kept.pop(0)
    while kept and kept[-1].strip("<>") in TOKENS:
        kept.pop()
    assert [line for line in rest.split("\n") if line.strip()] == kept
