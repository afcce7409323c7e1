"""Figures in running text: what they are worth, what they are, and that a date is no amount."""

import time
from fractions import Fraction as F
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine import is_quick

from finclaw.numerals.find import Figure, find_figures

AROUND = [("", ""), ("pay ", " now"), ("약 ", "을 냈다"), ("(", ")"), ("It was ", ".")]


def read(text: str) -> list[tuple[str, str, F, F | None, str]]:
    return [
        (each.kind, text[each.start : each.end], each.value, each.high, each.currency) for each in find_figures(text)
    ]


@pytest.mark.parametrize(
    ("text", "kind", "value", "high", "currency"),
    [
        ("1,234.5", "amount", F("1234.5"), None, ""),
        ("12.5%", "percent", F(1, 8), None, ""),
        ("-3.25%", "percent", F("-0.0325"), None, ""),
        ("25bp", "percent", F(1, 400), None, ""),
        ("$1.2bn", "amount", F(12 * 10**8), None, "USD"),
        ("₩50,000", "amount", F(50_000), None, "KRW"),
        ("EUR 12", "amount", F(12), None, "EUR"),
        ("2½ dollars", "amount", F(5, 2), None, "USD"),
        ("one euro", "amount", F(1), None, "EUR"),
        ("3만5천원", "amount", F(35_000), None, "KRW"),
        ("1조 2천억 원", "amount", F(12 * 10**11), None, "KRW"),
        ("만원", "amount", F(10_000), None, "KRW"),
        ("½", "amount", F(1, 2), None, ""),
        ("5-10%", "percent", F(1, 20), F(1, 10), ""),
        ("5%~10%", "percent", F(1, 20), F(1, 10), ""),
        ("$10–12", "amount", F(10), F(12), "USD"),
        ("3~5만원", "amount", F(30_000), F(50_000), "KRW"),
        ("10만~20만 원", "amount", F(100_000), F(200_000), "KRW"),
        ("2026-11-16", "date", F(0), None, ""),
        ("2026년 11월 16일", "date", F(0), None, ""),
        ("11월 16일", "date", F(0), None, ""),
        ("March 5, 2026", "date", F(0), None, ""),
        ("3Q2025", "date", F(0), None, ""),
        ("3억 5000", "unclear", F(0), None, ""),
        ("1,5", "unclear", F(0), None, ""),
    ],
)
def test_figures_of_both_languages(text: str, kind: str, value: F, high: F | None, currency: str) -> None:
    for before, after in AROUND:
        assert read(before + text + after) == [(kind, text, value, high, currency)], (before, after)


@pytest.mark.parametrize(
    "text", ["KOSPI", "KOSPI200", "2차전지", "version 1.2.3x", "S&P", "market", "만나서 반가워", "A1B2"]
)
def test_what_is_no_figure(text: str) -> None:
    assert [each for each in find_figures(text) if each.kind != "unclear"] == []


def test_a_date_beside_an_amount_stays_a_date() -> None:
    text = "11월 16일에 5만원, on 2026-11-16 for $187.20"
    kinds = [(kind, written) for kind, written, *_ in read(text)]
    assert kinds == [("date", "11월 16일"), ("amount", "5만원"), ("date", "2026-11-16"), ("amount", "$187.20")]
    assert find_figures(text)[-1].decimals == 2


money = st.decimals(0, 10**9, places=2)


@given(money, st.sampled_from(["$", "€", "£", "₩"]), st.sampled_from(AROUND))
def test_an_amount_is_found_where_it_was_written(number: object, sign: str, around: tuple[str, str]) -> None:
    written = f"{sign}{number:,}"
    (found,) = find_figures(around[0] + written + around[1])
    assert (found.kind, found.value, found.decimals) == ("amount", F(str(number)), 2)
    assert (found.start, found.end) == (len(around[0]), len(around[0]) + len(written))


@given(st.integers(1, 9_999), st.integers(1, 9_999), st.sampled_from(AROUND))
def test_won_in_words_are_found(large: int, small: int, around: tuple[str, str]) -> None:
    written = f"{large:,}억 {small:,}만 원"
    (found,) = find_figures(around[0] + written + around[1])
    assert (found.value, found.currency) == (large * 10**8 + small * 10**4, "KRW")


@given(st.dates(), st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%Y년 %m월 %d일"]), st.sampled_from(AROUND))
def test_no_date_is_taken_for_an_amount(day: object, form: str, around: tuple[str, str]) -> None:
    written = format(day, form).rjust(10, "0")
    assert [each.kind for each in find_figures(around[0] + written + around[1])] == ["date"]


@given(
    st.text(max_size=200) | st.lists(st.sampled_from([*"0123456789,.-~$%½만억천원 ", "bn", "usd", "월"])).map("".join)
)
def test_any_text_is_read_and_figures_do_not_overlap(text: str) -> None:
    found = find_figures(text)
    assert all(isinstance(each, Figure) and 0 <= each.start < each.end <= len(text) for each in found)
    assert all(one.end <= two.start for one, two in pairwise(found))


@pytest.mark.parametrize("end", ["", "x", "9x"])
@pytest.mark.parametrize("piece", ["9", "9,", "9.", "1만 ", "1만", "$", "- ", "9-", "1월 ", "a ", "usd ", "½", "2025-"])
def test_no_text_makes_it_slow(piece: str, end: str) -> None:
    began = time.process_time()
    find_figures(f"x{piece * (20_000 // len(piece))}{end}")
    find_figures(piece * (20_000 // len(piece)) + end)
    assert is_quick(time.process_time() - began, 1.0)
