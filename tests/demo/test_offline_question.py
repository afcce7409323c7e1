"""Reading a message: its language, its clauses, its amounts and periods."""

import unicodedata
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.demo.assistant.money_words import Amount, take_amounts, take_target
from finclaw.demo.assistant.periods import take_period
from finclaw.demo.assistant.question import LONGEST, read_question
from finclaw.demo.assistant.wording import particle, won_in_words


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
        ("1조 원", "1000000000000", "KRW"),
        ("250", "250", None),
    ],
)
def test_amounts_as_people_write_them(text: str, value: str, currency: str | None) -> None:
    (amount,), _ = take_amounts(text)
    assert amount == Amount(Decimal(value), currency)


@pytest.mark.parametrize("text", ["005930", "2차전지", "S&P", "KOSPI200", "3M", "5%"])
def test_what_is_no_amount(text: str) -> None:
    assert take_amounts(text) == ((), text)


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("in won", "KRW"),
        ("to USD", "USD"),
        ("원화로는", "KRW"),
        ("달러로", "USD"),
        ("몇 엔이야", "JPY"),
        ("애플", None),
    ],
)
def test_the_currency_that_is_wanted(text: str, currency: str | None) -> None:
    assert take_target(text)[0] == currency


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("last month", "last_month"),
        ("over the last month", "month"),
        ("over the past week", "week"),
        ("ytd", "year_to_date"),
        ("1 year", "year"),
        ("over 7 days", "week"),
        ("five years", "unknown"),
        ("지난주", "last_week"),
        ("이번 달", "this_month"),
        ("최근 한 달", "month"),
        ("이번달엔", "this_month"),
        ("100주", None),
        ("3개월", "quarter"),
        ("여섯 달", "unknown"),
        ("올해", "year_to_date"),
        ("어제", "yesterday"),
        ("100달러", None),
        ("이 주식", None),
        ("세일즈포스 주가", None),
    ],
)
def test_periods_as_people_name_them(text: str, period: str | None) -> None:
    assert take_period(text)[0] == period


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("price of SK hynix, NVDA and samsung electronics", ("SK hynix", "NVDA", "samsung electronics")),
        ("price of Bank of America", ("Bank of America",)),
        ("AAPL과 TSLA 주가 알려줘", ("AAPL과", "TSLA")),
        ("오늘이엔엠 주가", ("오늘이엔엠",)),
        (unicodedata.normalize("NFD", "삼성전자 얼마야"), ("삼성전자",)),
    ],
)
def test_names_are_what_is_left(text: str, names: tuple[str, ...]) -> None:
    (clause,) = read_question(text).clauses
    assert clause.names == names


@pytest.mark.parametrize(("text", "language"), [("AAPL 얼마야", "ko"), ("ㅎㅇ", "ko"), ("AAPL?", "en"), ("", "en")])
def test_the_language_of_a_message(text: str, language: str) -> None:
    assert read_question(text).language == language


@given(st.text(max_size=2 * LONGEST))
def test_any_text_is_read(text: str) -> None:
    question = read_question(text)
    assert len(question.clauses) <= 4
    for clause in question.clauses:
        assert all(name.strip() and len(name) <= 40 for name in clause.names)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("삼성전자", "삼성전자는"),
        ("애플", "애플은"),
        ("한국거래소(KRX)", "한국거래소(KRX)는"),
        ("AMD", "AMD는"),
        ("S&P 500", "S&P 500은"),
    ],
)
def test_particles_fit(word: str, said: str) -> None:
    assert particle(word, "은/는") == said


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (19_361_295, "1,936만 원"),
        (118_367_116, "1억 1,837만 원"),
        (1_234_567_890_000, "1조 2,345억 6,789만 원"),
        (3 * 10**8, "3억 원"),
    ],
)
def test_large_won_in_words(value: int, words: str) -> None:
    assert won_in_words(Decimal(value)) == words
