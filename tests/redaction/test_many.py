"""A secret among thousands that only look like it is found, and one that a replacement uncovers."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from finclaw.redaction.clean import fold_characters
from finclaw.redaction.numbers import passes_luhn
from finclaw.redaction.redact import find_spans, redact
from finclaw.tools.result_guard import as_text, strip_markup

CARD = "4111 1111 1111 1111"
IBAN = "GB82 WEST 1234 5698 7654 32"


@given(st.lists(st.text("0123456789", min_size=1, max_size=20), max_size=60))
@example(["4111111111111111"] * 30 + ["9" * 20] * 30 + ["0"])
def test_a_check_digit_is_right_if_the_textbook_says_so(numbers: list[str]):
    assert list(map(passes_luhn, numbers)) == list(map(textbook_luhn, numbers))


def textbook_luhn(number: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(number)):
        doubled = int(digit) * 2 if place % 2 else int(digit)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


LIKE = {
    CARD: "4111 1111 1111 1112",
    "4111111111111111": "4111111111111112",
    "110-123-456789": "110-123-45678",
    "900101-1234567": "900101-9234567",
    "123-45-6789": "000-45-6789",
    IBAN: "GB83 WEST 1234 5698 7654 32",
}


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("secret", LIKE)
@pytest.mark.parametrize("place", [0, 999, 1_000, 1_001, 2_500])
def test_a_secret_among_thousands_that_only_look_like_it_is_found(secret: str, place: int):
    lines = [LIKE[secret]] * 3_000
    assert not redact("\n".join(lines)).kinds
    lines[place] = secret
    safe = redact("\n".join(lines))
    assert secret not in safe.text
    assert len(safe.kinds) == 1


@pytest.mark.spec("DX-31")
def test_each_code_of_a_bank_is_judged_by_itself():
    codes = [f"DE{check:02}370400440532013000" for check in range(2, 99)]
    assert [span.start for span in find_spans("\n".join(codes)) if span.kind == "account"] == [
        87 * len(codes[0] + "\n")
    ]


@pytest.mark.spec("DX-31")
@pytest.mark.parametrize("between", [" ", ", ", " - "])
def test_what_a_replacement_says_about_its_neighbour_is_heard(between: str):
    """A placeholder says 'social security', however far the rest of the text is from it."""
    text = "x " * 20_000 + f"219-09-9999{between}123456789" + " y" * 20_000
    assert "123456789" not in redact(text).text


@given(st.text(st.sampled_from("１２３٤۵९①²　\xa0–－ＡＺ𝟎𝟙\U0001f100\U00010500가a1 -😀"), max_size=300))
def test_a_folded_text_is_folded_character_by_character(text: str):
    assert fold_characters(text) == "".join(map(fold_characters, text))


def test_a_text_of_more_scripts_than_are_replaced_one_by_one_is_folded_as_well():
    digits = "".join(chr(code) for code in range(0x660, 0x17000) if chr(code).isdigit())
    assert len(set(digits)) > 300
    assert fold_characters("가" + digits * 2) == "가" + "".join(map(fold_characters, digits)) * 2


@given(
    st.lists(st.sampled_from(["\\\\", '\\"', "\\n", "\\u0041", "\\uac00", "\\ud83d\\ude00", "\\u0022", "u0041", "가"]))
)
def test_json_means_the_same_when_it_is_written_out(pieces: list[str]):
    text = f'["{"".join(pieces)}"]'
    assert json.loads(as_text(text)) == json.loads(text)
    assert "\\uac00" not in as_text(text).replace("\\\\", "")


@pytest.mark.spec("DX-32")
@pytest.mark.parametrize(
    ("page", "words"),
    [
        ('<b ="<b ="x', '<b ="<b ="x'),
        ('<b ="<b ="x>y', 'y'),
        ('<x onclick="f()" <b =" z', '<b =" z'),
        ("<SCRIPT>a</sCrIpT >b", "b"),
        ("<script>a</scriptſ>b</script>c", "c"),
        ('<a title="x>y" href=z', ""),
        ("a <b class='x'>c</b> <!-- d", "a c <!-- d"),
    ],
)  # fmt: skip
def test_of_hostile_markup_the_words_are_left(page: str, words: str):
    assert strip_markup(page) == words
