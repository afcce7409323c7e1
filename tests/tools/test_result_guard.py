"""The whole guard: its fields, its order, its cuts; and an error's message passes, but its stack trace does not."""

import json
import traceback
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.redaction.corpus import HIDDEN, LEFT_ALONE

from finclaw.errors import ConfigError
from finclaw.redaction.redact import redact
from finclaw.tools.result_guard import NO_RESULT, Guarded, GuardOptions, guard, strip_traceback

SMALL = GuardOptions(shown=500, stored=2_000)
LINES = "".join(f"{number}: a line of text\n" for number in range(5_000))


@pytest.mark.spec("RG-01", "RG-12")
def test_a_guarded_result_says_what_was_done_to_it():
    assert guard("fine") == Guarded("fine", False, False, False, 4, 4, None)
    hidden = guard("card 4111 1111 1111 1111", is_error=True)
    assert hidden == Guarded("card [card …1111]", True, False, True, 24, 17, None)


@pytest.mark.spec("RG-03")
def test_nothing_is_said_as_nothing():
    assert guard(None).content == NO_RESULT == "[No result returned]"


class Stranger:
    def __str__(self) -> str:
        raise RuntimeError("no")


CIRCLE = dict[str, Any]()
CIRCLE["self"] = CIRCLE


@pytest.mark.spec("RG-04")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"price": 71200, "name": "삼성"}, '{"price":71200,"name":"삼성"}'),
        ([1, 2.5, None, True], "[1,2.5,null,true]"),
        (42, "42"),
        (Decimal("187.44"), '"187.44"'),
        (10**30, str(10**30)),
        (b"bytes \xff", "bytes �"),
        ("", ""),
        (Stranger(), "[A result of type Stranger that cannot be written as JSON]"),
        (CIRCLE, "[A result of type dict that cannot be written as JSON]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_text_becomes_json(value: Any, text: str):
    assert guard(value).content == text


@pytest.mark.spec("DX-32")
def test_json_written_in_escapes_is_read_before_it_is_masked():
    assert guard('{"\\uacc4\\uc88c\\ubc88\\ud638":"110123456789"}').content == '{"계좌번호":"[account …6789]"}'
    assert guard('["4111\\u200b1111\\u200b1111\\u200b1111"]').content == '["[card …1111]"]'
    assert json.loads(guard('["\\u0022\\u005c\\n\\\\u0041\\ud83d\\ude00\\u000a"]').content) == ['"\\\n\\u0041😀\n']


@pytest.mark.spec("RG-05", "X-05", "DX-32")
def test_too_much_is_cut_inside_the_limit_and_says_how_to_read_on():
    cut = guard(LINES)
    assert cut.was_truncated
    assert cut.guarded_size == len(cut.content) <= 10_000
    assert cut.content.endswith("\n[truncated]")
    assert "call read_result" in cut.content
    assert cut.content.startswith("0: a line")
    assert "4999: a line of text\n" in cut.content
    assert cut.original_size == len(LINES)


def test_the_note_counts_what_is_missing():
    cut = guard(LINES).content
    head, rest = cut.split("\n[… ")
    note, tail = rest.split(" …]\n")
    left_out = int(note.split(" ")[0].replace(",", ""))
    assert len(head) + left_out + len(tail.removesuffix("\n[truncated]")) == len(LINES)


@pytest.mark.spec("DX-32")
def test_the_whole_is_kept_aside_when_it_was_cut():
    assert guard(LINES[:50_000]).full == LINES[:50_000]
    assert guard(LINES[:9_000]).full is None
    longest = guard(LINES).full
    assert longest is not None
    assert 95_000 < len(longest) <= 100_000


@pytest.mark.spec("T-20", "RG-02")
def test_the_defaults():
    assert GuardOptions() == GuardOptions(
        shown=10_000, stored=100_000, allow_html=False, redact_finance=True, patterns=()
    )


@pytest.mark.spec("RG-02", "RG-06")
def test_an_operators_own_patterns_are_hidden_too():
    options = GuardOptions(patterns=("EMP-####", "desk @@?+", "Falcon"))
    assert guard("emp-1234, desk abc99, FALCON, EMP-12", options).content == "[private], [private], [private], EMP-12"


@pytest.mark.parametrize("pattern", ["", "ab", "?+", "@+#"[:2], "?+?+?+x", "???", "x" * 101, "abc\\"])
def test_a_pattern_that_would_be_slow_or_hide_everything_is_refused(pattern: str):
    with pytest.raises(ConfigError, match="the pattern"):
        GuardOptions(patterns=(pattern,))


def test_limits_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match="shown"):
        GuardOptions(shown=10, stored=5)


@pytest.mark.spec("DX-32")
def test_json_is_cut_between_its_values():
    rows = [{"date": f"2024-01-{day:02}", "close": 187.44, "note": "a, b"} for day in range(1, 29)] * 40
    content = guard(json.dumps(rows)).content
    head, rest = content.split("\n[… ")
    tail = rest.split(" …]\n")[1].removesuffix("\n[truncated]")
    assert json.loads(head.rstrip().removesuffix(",") + "]")[0] == rows[0]
    assert json.loads("[" + tail)[-1] == rows[-1]


@pytest.mark.spec("DX-32")
@pytest.mark.parametrize("unit", ["👩‍👩‍👧‍👦", "🇰🇷", "e\u0301", "👍🏽", "1️⃣", "각\r\n", "क्षि"])
def test_a_cut_never_takes_a_character_apart(unit: str):
    for limit in range(60, 60 + 2 * len(unit)):
        head = guard(unit * 50, GuardOptions(shown=limit)).content.removesuffix("\n[truncated]")
        assert head.rstrip("\r\n") in [(unit * count).rstrip("\r\n") for count in range(60)]
        assert not head.endswith("\r")


@pytest.mark.spec("DX-32")
def test_no_cut_shows_half_a_secret():
    assert not [text for text, secret in HIDDEN if _is_shown_in_part(text, secret)]


def _is_shown_in_part(text: str, secret: str) -> bool:
    whole = redact(text).text
    longest = max((len(part) for part in _parts(secret) if part not in whole), default=99)
    parts = [part for part in _parts(secret) if len(part) == longest and part not in whole]
    cut = (guard("x" * before + "\n" + text + "\n" + "y" * 500, SMALL).content for before in range(380, 500, 7))
    return any(part in shown for shown in cut for part in parts)


def _parts(secret: str) -> list[str]:
    """Every run of eight characters, of which nobody may see one."""
    return [secret[at : at + 8] for at in range(max(1, len(secret) - 7))]


MARKUP = ["<b>", "</td>", "<!--", "-->", "<script>", "&#49;", "<table ", ' x="', '">', "{", "\n", " "]
LONG = ["가나다라마바사 " * 20, "9" * 70, "x" * 300, "🇰🇷" * 9, "4", "sk-", "[… 5 characters left out here …]"]
PIECES = st.sampled_from([*(text for text, _ in HIDDEN), *LEFT_ALONE, *MARKUP, *LONG])


@given(st.lists(PIECES, max_size=12), st.integers(0, 700), st.booleans())
def test_guarding_twice_changes_nothing_and_the_limit_holds(parts: list[str], limit: int, allow_html: bool):
    options = GuardOptions(shown=limit, stored=2_000, allow_html=allow_html)
    once = guard("".join(parts), options)
    assert len(once.content) <= limit
    assert len(once.full or "") <= 2_000
    assert guard(once.content, options).content == once.content


@given(st.text(st.characters(codec=None, exclude_categories=())), st.integers(0, 60))
def test_any_text_is_guarded_once_and_for_all(text: str, limit: int):
    options = GuardOptions(shown=limit)
    once = guard(text, options).content
    assert len(once) <= limit
    assert once.encode().decode() == once
    assert guard(once, options).content == once


@pytest.mark.spec("DX-31", "T-20")
def test_figures_pass_the_whole_guard():
    assert not [text for text in LEFT_ALONE if guard(text).content != text]


def python_trace() -> str:
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("the symbol is unknown") from error
    except ValueError:
        return traceback.format_exc()


@pytest.mark.spec("RG-11", "T-16")
def test_a_traceback_goes_and_the_message_stays():
    said = guard(f"quote failed\n{python_trace()}", is_error=True).content
    assert "the symbol is unknown" in said
    assert "quote failed" in said
    assert ".py" not in said
    assert "Traceback" not in said
    assert "raise" not in said


@pytest.mark.spec("RG-11")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TypeError: no\n    at foo (/srv/a.js:1:2)\n    at /srv/b.js:3:4", "TypeError: no"),
        ("java.lang.Error: no\n\tat x.Y.z(Y.java:12)\n\t... 3 more", "java.lang.Error: no"),
        (python_trace().replace("\n", "\\n"), None),
    ],
)
def test_other_traces_go_too(text: str, message: str | None):
    said = strip_traceback(text)
    assert "/srv" not in said
    assert "File" not in said
    assert message is None or said == message


@pytest.mark.parametrize("text", ["plain words", "two\nlines", "", "look at 5 (five)", "File not found: a.txt", "\n"])
def test_an_error_without_a_trace_is_left_alone(text: str):
    assert strip_traceback(text) == text
