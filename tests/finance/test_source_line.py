"""The source line behind live prices, and the lines that the model reads about them."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE, ExtendedPrice, Quote
from finclaw.finance.output import name_sources
from finclaw.finance.quote import describe, facts_of

AT = datetime(2026, 11, 16, 5, 0, tzinfo=UTC)
SAMSUNG = Instrument(symbol="005930", exchange="KRX", name_en="Samsung", name_ko="삼성전자", currency="KRW")
QUOTE = Quote(
    instrument=SAMSUNG,
    price=Decimal(100_500),
    previous_close=Decimal(102_000),
    volume=9_000_000,
    as_of=AT,
    opening=TableCalendar().opening("KRX", AT),
    source="Naver",
    venue="KRX",
)

AFTER = {
    "phase": "closed",
    "close": Decimal(100_500),
    "extended": ExtendedPrice(price=Decimal(101_900), phase="after", venue="NXT", as_of=AT + timedelta(minutes=90)),
}


@pytest.mark.parametrize(
    ("reply", "fields", "line"),
    [
        ("Samsung is at 100,500 won.", {}, "(Source: Naver, 2026-11-16 05:00 UTC)"),
        ("삼성전자는 100,500원입니다.", {}, "(출처: Naver, 11월 16일 14:00 한국 시각 기준)"),
        (
            "삼성전자는 100,500원입니다.",
            {"source": "Yahoo Finance", "delay": 20, "is_confirmed": False},
            "(출처: Yahoo Finance (20분 지연, 미확인), 11월 16일 14:00 한국 시각 기준)",
        ),
        ("Samsung is at 100,500.", {"stale": True}, "(Source: Naver (stale), 2026-11-16 05:00 UTC)"),
        (
            "Samsung closed at 100,500 won.",
            AFTER,
            "(Source: Naver, 2026-11-16 05:00 UTC; Naver, after-market, 2026-11-16 06:30 UTC)",
        ),
        (
            "삼성전자 종가는 100,500원입니다.",
            AFTER,
            "(출처: Naver, 11월 16일 14:00 한국 시각 기준; Naver, 애프터마켓, 11월 16일 15:30 한국 시각 기준)",
        ),
    ],
)
def test_a_reply_that_does_not_name_its_source_gets_a_line(reply: str, fields: dict[str, Any], line: str) -> None:
    facts = facts_of(replace(QUOTE, **fields))
    assert name_sources(reply, facts, "?") == f"{reply}\n\n{line}"
    assert name_sources(f"{reply}\n\n{line}", facts, "?") == f"{reply}\n\n{line}"


def test_a_reply_that_names_its_source_and_a_time_is_left_alone() -> None:
    said = "삼성전자는 100,500원입니다 (14:00 KST 기준, 출처: Naver)."
    assert name_sources(said, facts_of(QUOTE), "?") == said
    demo = facts_of(replace(QUOTE, source=DEMO_SOURCE))
    assert name_sources("100,500", demo, "?") == "100,500"


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, []),
        ({"delay": 20}, ["delayed_minutes: 20"]),
        ({"is_confirmed": False}, ["unconfirmed: a second source did not confirm this price; say so"]),
        ({"stale": True}, ["stale: no source answered; this is an older price, say so with its time"]),
        ({"failed": ("Naver did not answer",)}, ["failed_sources: Naver did not answer"]),
        ({"venue": "bank posted rate"}, ["venue: bank posted rate"]),
        ({"day_basis": "09:00 KST"}, ["change_counted_from: 09:00 KST"]),
        ({"fixing": date(2026, 11, 13)}, ["fixing_of: 2026-11-13"]),
        (
            {"extended": ExtendedPrice(price=Decimal(101_900), phase="after", venue="NXT", as_of=AT)},
            [
                "after_market_price: 101900 (2026-11-16T05:00+00:00); it is not the close, tell it apart",
                "after_market_change_percent: +1.39 against the close",
            ],
        ),
    ],
)
def test_the_model_reads_what_holds_and_nothing_else(fields: dict[str, Any], lines: list[str]) -> None:
    told = describe(replace(QUOTE, **fields)).splitlines()
    assert [line for line in told if line not in describe(QUOTE).splitlines()] == lines


def test_an_after_market_price_is_a_fact_of_its_own_against_the_close() -> None:
    extended = ExtendedPrice(price=Decimal(101_900), phase="after", venue="NXT", as_of=AT)
    facts = {fact.field: fact.value for fact in facts_of(replace(QUOTE, extended=extended, close=Decimal(100_500)))}
    assert (facts["price"], facts["close"], facts["after_market_price"]) == (100_500, 100_500, 101_900)
    assert facts["after_market_change_percent"] == Decimal("1.39"), "not against the close before"


def test_facts_of_a_price_say_where_and_in_which_phase_it_was_traded() -> None:
    running = {fact.field: (fact.venue, fact.phase) for fact in facts_of(QUOTE)}
    assert (running["price"], running["change"]) == (("KRX", "regular"), ("KRX", "regular"))
    assert running["previous_close"] == ("KRX", "closed")
    over = {fact.field: (fact.venue, fact.phase) for fact in facts_of(replace(QUOTE, **AFTER))}
    assert (over["price"], over["close"]) == (("KRX", "closed"), ("KRX", "closed"))
    assert (over["after_market_price"], over["after_market_change_percent"]) == (("NXT", "after"), ("NXT", "after"))


def test_facts_of_an_old_price_are_stale() -> None:
    facts = facts_of(replace(QUOTE, stale=True))
    assert all(fact.stale and fact.source == "Naver (stale)" for fact in facts)
