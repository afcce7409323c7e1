"""Control tokens: heard on a line of their own at either end of the text, never shown; anywhere else just text."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.tools.control_tokens import (
    CONTROL_TOKENS,
    ControlToken,
    ControlTokenStream,
    ExtractedTokens,
    extract_control_tokens,
    neutralize_control_tokens,
)


@pytest.mark.spec("K-09", "K-10", "DX-21f")
@pytest.mark.parametrize("token", CONTROL_TOKENS)
def test_each_token_is_heard_taken_out_and_flagged(token: ControlToken) -> None:
    for text in (f"<<{token}>>\nHello", f"Hello\n<<{token}>>", f"Hello\n\n  <<{token}>>  \n"):
        heard = extract_control_tokens(text)
        assert (heard.clean_content, heard.tokens) == ("Hello", (token,))
        assert [known for known in CONTROL_TOKENS if heard.has(known)] == [token]
    assert extract_control_tokens(f"<<{token}>>").clean_content == ""


@pytest.mark.spec("K-08", "K-10")
def test_several_tokens_at_both_ends_are_listed_once_in_order() -> None:
    text = "<<ATTACH_QUOTE>>\n\n  <<ATTACH_DISCLAIMER>>  \nAAPL is up.\nReally.\n\n<<NEED_INPUT>>\n<<NEED_INPUT>>\n"
    heard = extract_control_tokens(text)
    assert heard.clean_content == "AAPL is up.\nReally."
    assert heard.tokens == ("ATTACH_QUOTE", "ATTACH_DISCLAIMER", "NEED_INPUT")
    assert text[heard.start :].startswith(heard.clean_content)


@pytest.mark.parametrize("text", ["", "Hello", "\n\nHello \n", "a < b << c", "Hello\n\n\nyou", "No", "NOTE: 끝입니다."])
def test_a_text_without_tokens_is_left_alone(text: str) -> None:
    assert extract_control_tokens(text) == ExtractedTokens(text)


ORDINARY = [
    "before\n<<NO_REPLY>>\nafter",
    "I would say <<NO_REPLY>>",
    "<<NO_REPLY>> is a token",
    "```\n<<NO_REPLY>>\n```",
    "See:\n```text\nx\n<<NO_REPLY>>",
    "See:\n~~~\nx\n```\n<<NO_REPLY>>\n",
    "Write:\n\n    <<NO_REPLY>>",
    "`<<NO_REPLY>>`",
    "> <<NO_REPLY>>",
    "You wrote:\n> hello\n> <<NO_REPLY>>",
    "<<UNKNOWN>>",
    "Hello\n<<SILENT_REPLY_TOKEN>>",
    "<<no_reply>>",
    "<NO_REPLY>",
    "NO_REPLY",
    "<< NO_REPLY >>",
    "<<NO_REPLY",
    "<<<<NO_REPLY>>>>",
    "<<NO_<<NO_REPLY>>REPLY>>",
]


@pytest.mark.spec("K-08", "K-10", "DX-21c", "DX-21f")
@pytest.mark.parametrize("text", ORDINARY)
def test_elsewhere_or_otherwise_written_it_is_just_text(text: str) -> None:
    assert extract_control_tokens(text) == ExtractedTokens(text)


def test_behind_words_that_were_sent_a_text_has_an_end_only() -> None:
    heard = extract_control_tokens("<<NO_REPLY>>\nmore\n<<NEED_INPUT>>", begun=True)
    assert (heard.clean_content, heard.tokens) == ("<<NO_REPLY>>\nmore", ("NEED_INPUT",))


LINES = st.sampled_from(
    [
        *(f"<<{token}>>" for token in CONTROL_TOKENS),
        "",
        "  ",
        "text",
        "a <<NO_REPLY>> b",
        "```",
        "~~~",
        "> <<NO_REPLY>>",
    ]
)


@given(st.lists(LINES, max_size=8))
def test_what_is_left_has_nothing_more_to_say(lines: list[str]) -> None:
    rest = extract_control_tokens("\n".join(lines)).clean_content
    assert extract_control_tokens(rest) == ExtractedTokens(rest)


@given(st.lists(LINES, max_size=8))
def test_no_word_is_lost_but_the_tokens(lines: list[str]) -> None:
    text = "\n".join(lines)
    heard = extract_control_tokens(text)
    gone = text.replace(heard.clean_content, "", 1) if heard.clean_content else text
    assert {line.strip() for line in gone.split("\n")} <= {"", *(f"<<{token}>>" for token in heard.tokens)}


# ── while it is being written ──────────────────────────────────────────────────────────────────────────────


def show(*pieces: str) -> str:
    stream = ControlTokenStream()
    return "".join(stream.feed(piece) for piece in pieces)


@pytest.mark.spec("K-01", "K-10", "DX-21c")
@pytest.mark.parametrize("token", CONTROL_TOKENS)
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("", "\nHello."), ("Hello.\n", ""), ("안녕하세요.\n\n", "\n\n")]
)
def test_no_part_of_a_token_is_seen_however_it_is_split(token: ControlToken, before: str, after: str) -> None:
    text = f"{before}<<{token}>>{after}"
    splits = [
        (text[:one], text[one:two], text[two:]) for one, two in product(range(len(text) + 1), repeat=2) if one <= two
    ]
    for pieces in [*splits, tuple(text)]:
        stream, shown = ControlTokenStream(), ""
        for piece in pieces:
            shown += stream.feed(piece)
            assert "<" not in shown
            assert extract_control_tokens(text).clean_content.startswith(shown)


@pytest.mark.parametrize(
    "text", [*ORDINARY, "No", "NOTE: this.", "네, 알겠습니다.", "N", "1 << 2", "<b>bold</b>", "< <"]
)
def test_what_is_no_token_is_shown_as_soon_as_it_cannot_be_one(text: str) -> None:
    assert show(*text, "\nMore.") == f"{text}\nMore."


@given(st.lists(LINES, max_size=8).map("\n".join), st.lists(st.integers(0, 60), max_size=6))
def test_what_was_shown_is_the_beginning_of_what_will_be_seen(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    shown = show(*(text[start:end] for start, end in pairwise(edges)))
    assert extract_control_tokens(text).clean_content.strip().startswith(shown)


@pytest.mark.spec("K-01")
def test_behind_a_silent_token_nothing_is_shown() -> None:
    assert show("<<NO_REPLY>>\nI keep ", "this to myself.\n") == ""


# ── in what others say ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-21c")
@given(st.lists(st.sampled_from([*CONTROL_TOKENS, "<<", ">>", "<", ">", " ", "\n", "x"]), max_size=12).map("".join))
def test_a_neutral_text_says_nothing_and_stays_as_it_is(text: str) -> None:
    neutral = neutralize_control_tokens(text)
    assert not extract_control_tokens(neutral).tokens
    assert neutralize_control_tokens(neutral) == neutral
    assert neutral.replace("<", "").replace(">", "") == text.replace("<", "").replace(">", "")
