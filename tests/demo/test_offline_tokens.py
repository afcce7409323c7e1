"""Reading of amounts, periods and dates, and the time it takes to read hostile text."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.demo.talk import Talk
from tests.machine import slowness

from finclaw.demo.assistant.patterns import LONGEST, PATTERNS, clean_text, compile_pattern, read_question, read_tokens
from finclaw.demo.assistant.provider import decide
from finclaw.kernel.message import Text


def slots(text: str) -> dict[str, str] | None:
    tokens = read_tokens(clean_text(text))
    return {kind: value for kind, value in tokens.items() if kind != "text"} if tokens else None


@pytest.mark.parametrize(
    ("text", "value", "currency"),
    [
        ("$100", "100", "USD"),
        ("1,234.50 dollars", "1234.50", "USD"),
        ("USD 20", "20", "USD"),
        ("1.5k USD", "1500", "USD"),
        ("2 million won", "2000000", "KRW"),
        ("₩50,000", "50000", "KRW"),
        ("100달러는", "100", "USD"),
        ("50만원", "500000", "KRW"),
        ("3만5천원", "35000", "KRW"),
        ("1억 2천만원을", "120000000", "KRW"),
        ("1.5억원", "150000000", "KRW"),
        ("백만 원", "1000000", "KRW"),
        ("만원", "10000", "KRW"),
    ],
)
def test_amounts_as_people_write_them(text: str, value: str, currency: str) -> None:
    assert slots(text) == {"amount": value, "base": currency}


@pytest.mark.parametrize(
    "text", ["1억 2천 원", "1,5 euro", "5.000 euro", "1.234,56 euro", "-100 dollars", "1 000 euro"]
)
def test_amounts_with_two_readings_are_refused(text: str) -> None:
    assert slots(text) is None


@pytest.mark.parametrize("text", ["005930", "2차전지", "S&P", "3M", "5%", "250", "apple", "five years", "오늘이엔엠"])
def test_text_without_tokens(text: str) -> None:
    assert slots(text) == {}


@pytest.mark.parametrize(
    ("text", "slot", "value"),
    [
        ("in won", "in", "KRW"),
        ("to USD", "in", "USD"),
        ("원화로는", "in", "KRW"),
        ("몇 엔이야", "in", "JPY"),
        ("last month", "period", "last_month"),
        ("over the last month", "period", "month"),
        ("over the past week", "period", "week"),
        ("ytd", "period", "year_to_date"),
        ("1 year", "period", "year"),
        ("지난주", "period", "last_week"),
        ("이번 달", "period", "this_month"),
        ("최근 한 달", "period", "month"),
        ("이번달엔", "period", "this_month"),
        ("3개월", "period", "quarter"),
        ("여섯 달", "period", "half_year"),
        ("올해", "period", "year_to_date"),
        ("100주", "quantity", "100"),
        ("2026-03-03", "date", "2026-03-03"),
        ("3월 3일", "date", "03-03"),
        ("on march 3rd, 2026", "date", "2026-03-03"),
    ],
)
def test_other_tokens(text: str, slot: str, value: str) -> None:
    assert slots(text) == {slot: value}


@given(st.text(max_size=2 * LONGEST))
def test_any_text_is_read(text: str) -> None:
    question = read_question(text)
    assert question is None or all(question.slots.values())


@pytest.mark.parametrize("text", ["1,", "1+", "and ", "가", "삼성전자 ", "will ", "10 shares ", "한 주 ", "the "])
@pytest.mark.parametrize("size", [LONGEST, 1_200, 1 << 20])
def test_hostile_text_is_cheap(text: str, size: int) -> None:
    talk = Talk()
    talk.add("user", Text((text * size)[:size]))
    request = talk.request()
    taken = cost(lambda: decide(request), 1)
    assert taken < 0.3 or taken < 0.3 * slowness()


def test_sentence_patterns_are_cheap() -> None:
    """They are compiled when they are first used, so that the walk over all patterns does not see them."""
    for pattern in {pattern for table in PATTERNS.values() for _, pattern in table}:
        compiled = compile_pattern(pattern)
        for unit in ("a ", "가 ", "1", "the ", "<period> ", "장 ", "price "):
            text = (unit * LONGEST)[: 2 * LONGEST]
            taken = cost(lambda text=text, each=compiled: each.fullmatch(text), 3)
            assert taken < 0.02 or taken < 0.02 * slowness(), pattern


def cost(read: Callable[[], object], tries: int) -> float:
    taken: list[float] = []
    for _ in range(tries):
        began = time.process_time()
        read()
        taken.append(time.process_time() - began)
    return min(taken)
