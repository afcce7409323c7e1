"""One numeral is read as it was meant, or refused: what is written by rule comes back as the same number."""

from fractions import Fraction as F

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.numerals.find import read_value
from finclaw.numerals.read import NumeralError, read_numeral
from finclaw.numerals.tables import SCALES

LARGE = {"경": 10**16, "조": 10**12, "억": 10**8, "만": 10**4, "": 1}
SMALL = {"천": 1_000, "백": 100, "십": 10, "": 1}
wholes = st.integers(1, 10**20 - 1)


def in_sections(number: int, *, grouped: bool, gap: str) -> str:
    """1조 2,345억 6,789만: a figure before each large unit."""
    parts: list[str] = []
    for unit, size in LARGE.items():
        section, number = divmod(number, size)
        if section and (unit or not parts or parts[-1][-1] == "만"):
            parts.append(f"{section:,}{unit}" if grouped else f"{section}{unit}")
    return gap.join(parts)


def in_syllables(number: int) -> str:
    """3천5백만: a digit before each unit, and none before a unit that is there once."""
    text = ""
    for large, size in LARGE.items():
        section, number = divmod(number, size)
        for small, step in SMALL.items():
            digit, section = divmod(section, step)
            text += "" if not digit else small if digit == 1 and small else f"{digit}{small}"
            if not section and text and not small:
                break
        if text and not text.endswith(tuple(LARGE)[:-1]) and large:
            text += large
    return text


@given(st.decimals(0, 10**12, places=4))
def test_grouped_digits(number: object) -> None:
    assert read_numeral(f"{number:,}").value == F(str(number))
    assert read_numeral(f"{number}").value == F(str(number))


@given(wholes.map(lambda number: number - number % 10**4), st.booleans(), st.sampled_from(["", " "]))
def test_korean_sections(number: int, grouped: bool, gap: str) -> None:
    if number:
        assert read_value(in_sections(number, grouped=grouped, gap=gap)) == number


@given(st.integers(1, 99_999_999))
def test_korean_sections_down_to_one(number: int) -> None:
    assert read_value(in_sections(number, grouped=False, gap=" ")) == number


@given(st.integers(1, 9_999), st.sampled_from(["만", "억", "조", "경", ""]))
def test_korean_syllables(number: int, large: str) -> None:
    written = in_syllables(number)
    assert read_value(written + large) == number * LARGE[large]


@given(st.decimals("0.1", 9_999, places=2), st.sampled_from(sorted(SCALES)))
def test_english_scales(number: object, scale: str) -> None:
    assert read_value(f"{number}{scale}") == F(str(number)) * SCALES[scale]
    assert read_value(f"{number} {scale.upper()}") == F(str(number)) * SCALES[scale]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", F("1234.5")),
        ("3만5천", F(35_000)),
        ("1조 2천억", F(12 * 10**11)),
        ("3천5백만", F(35_000_000)),
        ("2.5천만", F(25_000_000)),
        ("백만", F(1_000_000)),
        ("천", F(1_000)),
        ("½", F(1, 2)),
        ("2¾", F(11, 4)),
        ("1e3", F(1_000)),
        ("25bp", F(1, 400)),
        ("1.2bnusd", F(12 * 10**8)),
    ],
)
def test_numerals_as_people_write_them(text: str, value: F) -> None:
    assert read_value(text) == value


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("1,23", 2, "three digits"),
        ("1.2.3", 4, "one decimal point"),
        ("3억 5000", 4, "unit of this part"),
        ("3만 5억", 4, "operator is missing"),
        ("3만만", 2, "operator is missing"),
        ("3백5천", 3, "operator is missing"),
        ("1.5억 3만", 6, "operator is missing"),
        ("3x", 2, "no unit"),
        ("5 apples", 2, "no unit"),
        ("9" * 401, 1, "more than 400 digits"),
    ],
)
def test_what_has_two_readings_or_none_is_refused_with_its_place(text: str, at: int, why: str) -> None:
    with pytest.raises(NumeralError, match=why) as refused:
        read_value(text)
    assert refused.value.at == at


def test_commas_of_a_list_end_a_numeral() -> None:
    assert read_numeral("12, 34", commas_separate=True).end == 2
    with pytest.raises(NumeralError, match="one number or several"):
        read_numeral("1,234", commas_separate=True)
