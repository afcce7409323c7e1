import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.demo.listings import DEMO_LISTINGS
from finclaw.finance.instrument import Ambiguous, Instrument, Instruments, Unknown

INSTRUMENTS = Instruments(listing.instrument for listing in DEMO_LISTINGS)


@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        ("AAPL", "AAPL"),
        ("aapl", "AAPL"),
        ("$AAPL", "AAPL"),
        ("ＡＡＰＬ", "AAPL"),
        ("Apple Inc.", "AAPL"),
        ("apple stock", "AAPL"),
        ("NASDAQ:AAPL", "AAPL"),
        ("애플의", "AAPL"),
        ("AAPL은", "AAPL"),
        ("005930", "005930"),
        ("005930.KS", "005930"),
        ("삼성전자", "005930"),
        ("삼성전자는", "005930"),
        ("삼성전자가", "005930"),
        ("삼성전자랑", "005930"),
        ("삼성 전자 주가는", "005930"),
        ("삼전", "005930"),
        (unicodedata.normalize("NFD", "삼성전자를"), "005930"),
        ("SK 하이닉스", "000660"),
        ("sk하이닉스도", "000660"),
        ("하이닉스", "000660"),
        ("네이버가", "035420"),
        ("naver", "035420"),
        ("카카오", "035720"),
        ("구글이랑", "GOOGL"),
        ("btc", "BTC-USD"),
        ("btc/usd", "BTC-USD"),
        ("비트코인", "BTC-USD"),
        ("환율", "USD/KRW"),
        ("usdkrw", "USD/KRW"),
    ],
)
def test_a_person_is_understood(query: str, symbol: str):
    found = INSTRUMENTS.find(query)
    assert isinstance(found, Instrument)
    assert found.symbol == symbol


@pytest.mark.parametrize("word", ["삼성", "Samsung", "LG", "엘지는", "현대"])
def test_the_name_of_a_group_is_asked_back(word: str):
    assert isinstance(INSTRUMENTS.find(word), Ambiguous)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("apple tesla", ("apple", "tesla")),
        ("삼성전자 애플", ("삼성전자", "애플")),
        ("SK 하이닉스 Bank of America", ("SK 하이닉스", "Bank of America")),
        ("apple and tesla", ("apple", "tesla")),
        ("네카오 애플", ("네카오", "애플")),
        ("카카오 페이", ()),
        ("apple pie", ()),
        ("apple", ("apple",)),
        ("", ()),
        ("apple " * 13, ()),
    ],
)
def test_names_without_a_joint_are_told_apart_when_every_word_is_one(query: str, names: tuple[str, ...]):
    assert INSTRUMENTS.split(query) == names


def test_one_word_for_two_companies_is_asked_back():
    found = INSTRUMENTS.find("네카오는")
    assert isinstance(found, Ambiguous)
    assert [each.name_ko for each in found.candidates] == ["네이버", "카카오"]


@pytest.mark.parametrize(
    ("query", "near"),
    [
        ("삼성전지", "삼성전자"),
        ("카카오페이", "카카오"),
        ("테슬러", "테슬라"),
        ("Teslla", "테슬라"),
        ("microsft", "마이크로소프트"),
    ],
)
def test_a_near_miss_is_offered_and_not_taken(query: str, near: str):
    found = INSTRUMENTS.find(query)
    assert isinstance(found, Unknown)
    assert found.near[0].name_ko == near


@pytest.mark.parametrize("query", ["", "   ", "?!", "xyzzy", "오늘이엔엠", "는", "은" * 5_000])
def test_nonsense_is_nothing(query: str):
    assert INSTRUMENTS.find(query) == Unknown(())


@given(st.text(max_size=30))
def test_any_text_gets_some_answer(query: str):
    assert isinstance(INSTRUMENTS.find(query), Instrument | Ambiguous | Unknown)


def test_every_word_for_an_instrument_leads_to_it():
    for instrument in INSTRUMENTS:
        for word in (instrument.symbol, instrument.name_en, instrument.name_ko):
            assert INSTRUMENTS.find(word) == instrument


def test_a_title_names_it_in_both_languages_once():
    apple = INSTRUMENTS.find("AAPL")
    assert isinstance(apple, Instrument)
    assert apple.title == "Apple (애플)"
