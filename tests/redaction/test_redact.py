"""Secrets go, market figures stay: a corpus of both, and every way we know to slip past."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.redaction.corpus import HIDDEN, LEFT_ALONE

from finclaw.redaction.clean import clean
from finclaw.redaction.patterns import KEY_PATTERNS, LABELS
from finclaw.redaction.redact import EDGE, LONGEST, find_spans, may_hold_secrets, redact

INVISIBLE = [
    *("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u034f", "\u202e", "\u2066", "\u200f", "\ufe0f"),
    *("\U000e0041", "\U000e0100", "\u3164", "\x00", "\x07", "\x1b", "\x7f", "\x85", "\x1b[31m", "\x1b]8;;x\x07"),
]


@pytest.mark.spec("DX-31", "RG-06", "RG-08")
def test_every_secret_is_hidden():
    found = [(text, secret, redact(text)) for text, secret in HIDDEN]
    assert not [text for text, secret, redacted in found if secret in redacted.text or not redacted.kinds]


@pytest.mark.spec("DX-31")
def test_figures_are_left_alone():
    found = [(text, redact(text)) for text in LEFT_ALONE]
    assert not [redacted for text, redacted in found if redacted.text != text or redacted.kinds]


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay with 4111 1111 1111 1111.", "pay with [card …1111]."),
        ("계좌번호: 110-123-456789", "계좌번호: [account …6789]"),
        ("RRN 900101-1234567", "RRN [resident number]"),
        ("SSN 123-45-6789", "SSN [social security number]"),
        ("?api_key=abcd1234efgh&s=AAPL", "?api_key=[secret]&s=AAPL"),
        ("postgres://me:pa55w0rd@db/x", "postgres://me:[secret]@db/x"),
        ('{"password": "hunter22", "n": 1}', '{"password": "[secret]", "n": 1}'),
        ("4111 1111 1111 1111 12/26", "[card …1111] 12/26"),
    ],
)
def test_a_placeholder_says_what_was_there_and_leaves_the_rest(text: str, shown: str):
    assert redact(text).text == shown


def test_every_kind_is_reported():
    assert redact("4111111111111111, 900101-1234567").kinds == {"card", "resident number"}


@pytest.mark.spec("DX-31", "RG-02")
def test_finance_may_be_left_alone_and_keys_may_not():
    text = "4111111111111111 password=hunter22"
    assert redact(text, finance=False).text == "4111111111111111 password=[secret]"


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("other", ["123-45-6789", "110-123-456789", "4111 1111 1111 1111", "900101-1234567"])
@pytest.mark.parametrize("before", ["1234.5678.1234.5678 ", "187.44 12 ", "12345678 ", "1 2 3 - "])
def test_a_figure_before_a_number_does_not_protect_it(before: str, other: str):
    assert other not in redact(before + "\n" + other).text
    assert other not in redact(before + "; " + other).text


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("letter", ["İ", "ı", "ſ", "\u212a"])
def test_a_letter_that_only_lower_case_makes_plain_is_no_part_of_an_iban(letter: str):
    text = f"GB82 WEST 1234 5698 765{letter} 32"
    assert redact(text).text == text


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("filling", ["x" * 99, "words and more words " * 5, "1,234.5 "])
def test_what_a_replacement_uncovers_is_hidden_in_a_long_text_too(filling: str):
    key = "sk-" + "A1b2C3d4" * 1_000
    around = filling * (100_000 // len(filling))
    shown = redact(f"{around} account: 12345678{key} {around}").text
    assert "A1b2C3d4" not in shown
    assert shown == f"{around} account: [account …5678][api key] {around}"


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("before", ["", "words and more words " * 5_000])
@pytest.mark.parametrize(("line", "secret"), [("4111111111111111 ", "41111"), ("password=hunter22\n", "hunter")])
def test_a_text_of_nothing_but_secrets_is_hidden_to_its_end(before: str, line: str, secret: str):
    shown = redact(before + line * 20_000)
    assert secret not in shown.text
    assert shown.text.startswith(before + redact(line).text)
    assert "unchecked rest" in shown.kinds
    assert redact(shown.text).text == shown.text


@given(st.sampled_from(HIDDEN), st.sampled_from(INVISIBLE), st.data())
def test_nothing_invisible_helps_a_secret_through(case: tuple[str, str], hidden: str, data: st.DataObject):
    text, secret = case
    plain = redact(text).text
    start = text.index(secret)
    for place in sorted(data.draw(st.sets(st.integers(start + 1, start + len(secret) - 1), max_size=6)), reverse=True):
        text = text[:place] + hidden + text[place:]
    assert redact(text).text == plain


FULLWIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
SCRIPTS = [FULLWIDTH] + [{ord("0") + n: zero + n for n in range(10)} for zero in (0x660, 0x6F0, 0x966, 0xE50, 0x1D7CE)]
NUMBERS = [case for case in HIDDEN if case[1].replace(" ", "").replace("-", "").isdecimal() and case[0].isprintable()]


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("script", SCRIPTS)
def test_no_script_of_digits_helps_a_number_through(script: dict[int, int]):
    written = [(text, secret, secret.translate(script)) for text, secret in NUMBERS]
    assert not [text for text, secret, other in written if other in redact(text.replace(secret, other)).text]


@given(
    st.lists(
        st.sampled_from([*(text for text, _ in HIDDEN), *LEFT_ALONE, " ", "\n", "-", "1", "4111 ", "a", "="]),
        max_size=6,
    )
)
def test_redacting_twice_changes_nothing(parts: list[str]):
    once = redact("".join(parts)).text
    assert redact(once).text == once


@given(st.text(st.sampled_from("0123456789 -.:=[]계좌account…card\n"), max_size=60))
def test_redacting_any_digits_twice_changes_nothing(text: str):
    once = redact(text).text
    assert redact(once).text == once


@given(st.lists(st.sampled_from([text for text, _ in HIDDEN]), min_size=2, max_size=4))
def test_secrets_on_lines_of_their_own_do_not_protect_each_other(lines: list[str]):
    secrets = dict(HIDDEN)
    shown = redact("\n".join(lines)).text
    assert not any(secrets[line] in shown for line in lines if not line.startswith("-----"))


@given(
    st.lists(
        st.sampled_from(
            [*(text for text, _ in HIDDEN), *LEFT_ALONE, *INVISIBLE, " ", "\n", "계좌", "1", "sk-", "–", "１", "가"]
        ),
        max_size=4,
    )
)
def test_the_precheck_never_misses_what_a_search_would_find_or_cleaning_take_away(pieces: list[str]):
    text = "".join(pieces)
    if not may_hold_secrets(text):
        assert clean(text) == text
        assert not list(find_spans(text))


def test_no_secret_escapes_the_precheck():
    texts = [written for text, _ in HIDDEN for written in (text, f"한국어로 {text}, —")]
    assert not [text for text in texts if not may_hold_secrets(text)]


def test_no_label_escapes_the_precheck():
    assert not [label for label in LABELS if not may_hold_secrets(f"my {label.upper()}: 123456789")]


def test_every_kind_of_key_is_in_the_corpus():
    """And with it before the pre-check."""
    assert not [form.prefix for form in KEY_PATTERNS if not any(form.pattern.search(text) for text, _ in HIDDEN)]


TOLD = [
    "KOSPI 2,745.82 (+0.34%), as of 2026-11-13 15:30 KST.",
    "삼성전자(005930) 종가는 75,300원입니다. 거래량은 12,345,678주, 시가총액은 449조 5천억원입니다.",
    "Hello!",
    "| Ticker | Price |\n|---|---:|\n| AAPL | 187.44 |\n\nRisk-adjusted, the 52-week range is 164.08-199.62.",
    "‘금리 동결’ 전망이 우세합니다 — 연준은 12월 17~18일 회의에서 4.25%를 유지할 것으로 보입니다… 📈",
    "See https://finance.example.com/item/main?code=005930 for more.",
    '{"symbol": "AAPL", "open_price": 187.5, "change_percent": 0.42, "as_of": "2026-11-13T20:00:00Z"}',
    "market__get_quote",
]


@pytest.mark.parametrize("text", TOLD)
def test_most_lines_need_no_more_than_the_precheck(text: str):
    assert not may_hold_secrets(text)


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("before", ["KR7005930003 ", "2024-01-05  ", "123456789 - "])
def test_digits_before_a_card_written_with_dots_do_not_protect_it(before: str):
    assert redact(before + "4111.1111.1111.1111").text == before + "[card …1111]"


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("other", ["110-123-456789", "900101-1234567", "4111 1111 1111 1111", "123-45-6789"])
def test_too_long_text_of_secrets_shows_none_of_them(other: str):
    prose = "words and more words " * 2_000
    many = "4111111111111111; " * 12_000
    shown = redact(f"{prose}{other}; {many}{other}; {many}; {other}").text
    assert other not in shown
    assert "4111111111111111" not in shown
    assert shown.endswith("[unchecked rest]")
    assert redact(shown).text == shown


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize(("text", "secret"), HIDDEN)
def test_secret_across_the_size_limit_is_hidden_whole(text: str, secret: str):
    for inside in (1, len(text) // 2, len(text) - 1):
        shown = redact(("zzz, " * (LONGEST // 5))[: LONGEST - inside - 1] + "\n" + text + " more" * 99)
        assert not [at for at in range(len(secret) - 3) if secret[at : at + 4] in shown.text]
        assert "unchecked rest" in shown.kinds


def test_text_at_the_size_limit_is_shown_whole():
    text = "word " * (LONGEST // 5)
    assert redact(text).text == text
    assert len(redact(text + "one more").text) <= LONGEST - EDGE + len("[unchecked rest]")
