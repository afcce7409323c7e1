"""A gateway with live market data, whose vendors are on this machine: from a question to an answer with its source."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.finance.sources.faults import FAULTS, truncate_gzip
from tests.finance.sources.vendors import NOW, Vendors, lengthen_history, load_fixture
from tests.walks.live_gateway import opened

from finclaw.testing import call, reply, say


@pytest.mark.parametrize(
    ("asked", "figure", "line"),
    [
        ("삼성전자 현재 주가 알려줘", "100,500", "2026-11-16 13:59 KST 기준 · 출처: Naver"),
        ("What is Samsung Electronics trading at?", "100,500", "as of 2026-11-16 13:59 KST · source: Naver"),
        ("애플 주가 알려줘", "250.12달러", "장 마감 · 2026-11-14 06:00 KST 기준 · 출처: Yahoo Finance"),
        ("How much is Apple?", "$251.30", "market closed · as of 2026-11-13 16:00 EST · source: Yahoo Finance"),
        ("What is bitcoin at?", "$100,210.55", "source: Coinbase (change since 00:00 UTC)"),
        ("비트코인 얼마야?", "141,000,000원", "출처: Upbit (등락 기준 시각 09:00 KST)"),
    ],
)
async def test_a_price_is_answered_with_its_source_and_time(tmp_path: Path, asked: str, figure: str, line: str) -> None:
    vendors = Vendors()
    async with opened(tmp_path, vendors) as gateway:
        outcome = await gateway.ask(asked)
    assert outcome.kind == "answered"
    said = "\n".join(gateway.said)
    assert figure in said
    assert line in said
    assert said.count("출처") + said.count("ource:") == 1
    assert "데모" not in said
    assert "emo" not in said


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        ("Compare Apple and Coca-Cola", ("Changes, past month", "**Apple (AAPL)** ", "Source: Yahoo Finance")),
        ("애플이랑 코카콜라 비교해줘", ("최근 한 달 등락", "**애플 (AAPL)** ", "출처: Yahoo Finance")),
        ("When does the Korean market open?", ("**Korea Exchange** open · closes at 2026-11-16 15:30 KST",)),
        ("한국 장 언제 열어?", ("**한국거래소** 열림 · 2026-11-16 15:30 KST 마감",)),
        ("/news AAPL", ("Apple rises & falls", "Example Times", "Source: Google News")),
        ("/뉴스 애플", ("Apple rises & falls", "Example Times", "출처: Google News")),
    ],
)
async def test_what_a_new_user_asks_next_is_answered_by_the_vendors(
    tmp_path: Path, asked: str, answers: tuple[str, ...]
) -> None:
    history = {name: lengthen_history(load_fixture(name), 40) for name in ("yahoo_AAPL", "yahoo_KO")}
    async with opened(tmp_path, Vendors(changes=history)) as gateway:
        await gateway.ask(asked)
    said = "\n".join(gateway.said)
    assert [each for each in answers if each not in said] == [], said


async def test_the_model_reads_what_must_be_said_of_a_price(tmp_path: Path) -> None:
    vendors = Vendors(faults={"naver": truncate_gzip})
    script = (reply(call("market__quote", {"symbol": "005930"})), reply(say("100,600원입니다.")))
    async with opened(tmp_path, vendors, *script) as gateway:
        await gateway.ask("삼성전자")
        (result,) = gateway.results
    assert "source: Yahoo Finance" in result.content
    assert "delayed_minutes: 20" in result.content
    assert "failed_sources: Naver did not answer" in result.content
    assert "(출처: Yahoo Finance (20분 지연" in gateway.said[-1]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("삼성전자 현재 주가 알려줘", "Naver(읽을 수 없는 응답), Yahoo Finance(읽을 수 없는 응답)"),
        ("What is Samsung Electronics trading at?", "(Naver answered what cannot be read; Yahoo Finance answered"),
    ],
)
async def test_no_price_at_all_is_said_without_a_figure_and_says_who_failed(
    tmp_path: Path, asked: str, why: str
) -> None:
    vendors = Vendors(faults=dict.fromkeys(("naver", "yahoo"), FAULTS["html"]))
    async with opened(tmp_path, vendors) as gateway:
        await gateway.ask(asked)
    said = "\n".join(gateway.said)
    assert why in said
    assert not any(figure in said for figure in ("100,", "71,", "102,"))


@pytest.mark.parametrize(
    ("tool", "arguments", "lines"),
    [
        ("market__quote", {"symbol": "AAPL"}, ["price: 250.12", "previous_close: 251.30", "source: Yahoo Finance"]),
        ("market__quote", {"symbol": "KOSPI"}, ["price: 3951.24", "source: Naver"]),
        ("market__quote", {"symbol": "BTC-KRW"}, ["price: 141000000", "change_counted_from: 09:00 KST"]),
        ("fx__convert", {"amount": "100", "from": "USD", "to": "KRW"}, ["result: 140050 KRW", "source: Naver"]),
        (
            "fx__convert",
            {"amount": "100", "from": "JPY", "to": "KRW"},
            ["rate JPY/KRW: 9.082", "result: 908 KRW", "source: Naver"],
        ),
        (
            "fx__convert",
            {"amount": "2", "from": "BTC", "to": "KRW"},
            ["rate BTC-KRW: 141000000", "result: 282000000 KRW"],
        ),
        ("market__history", {"symbol": "005930", "period": "week"}, ["end: 100500 (2026-11-16T05:00+00:00)"]),
        ("market__history", {"symbol": "005930", "period": "day"}, ["source: Naver"]),
        ("market__history", {"symbol": "005930", "on": "2026-11-13"}, ["close: 102000", "source: Naver"]),
    ],
)
async def test_every_tool_speaks_with_the_sources_words(
    tmp_path: Path, tool: str, arguments: dict[str, Any], lines: list[str]
) -> None:
    script = (reply(call(tool, arguments)), reply(say("Here.")))
    async with opened(tmp_path, Vendors(), *script) as gateway:
        await gateway.ask("?")
        (result,) = gateway.results
    assert result.status == "ok", result.content
    assert [line for line in lines if line not in result.content.splitlines()] == [], result.content


async def test_a_history_that_begins_too_late_gives_no_change(tmp_path: Path) -> None:
    """The fixture begins on the second: there is no close from which a month's change could start."""
    script = (reply(call("market__history", {"symbol": "005930", "period": "month"})), reply(say("Sorry.")))
    async with opened(tmp_path, Vendors(), *script) as gateway:
        await gateway.ask("?")
        (result,) = gateway.results
    assert result.status == "error"
    assert "begin on 2026-11-02" in result.content
    assert not result.facts


@pytest.mark.parametrize(
    ("asked", "close", "after"),
    [
        (
            "삼성전자 주가 알려줘",
            "**삼성전자 (005930)** 100,500원",
            "\n애프터마켓: 101,900원, 종가 대비 ▲ +1.39% (2026-11-16 17:28 KST)",
        ),
        (
            "What is Samsung Electronics at?",
            "**Samsung Electronics (005930)** ₩100,500",
            "\nAfter-market: ₩101,900, ▲ +1.39% against the close (2026-11-16 17:28 KST)",
        ),
        ("/price 005930", "₩100,500", "\nAfter-market: ₩101,900, ▲ +1.39% against the close (2026-11-16 17:28 KST)"),
        ("/시세 삼성전자", "100,500원", "\n애프터마켓: 101,900원, 종가 대비 ▲ +1.39% (2026-11-16 17:28 KST)"),
    ],
)
async def test_an_after_market_price_is_a_second_line(tmp_path: Path, asked: str, close: str, after: str) -> None:
    vendors, body = Vendors(), load_fixture("naver_stocks")
    body["datas"][0]["localTradedAt"] = "2026-11-16T15:30:21+09:00"
    body["datas"][0]["overMarketPriceInfo"] |= {"overPrice": "101,900", "localTradedAt": "2026-11-16T17:28:00+09:00"}
    vendors.changes["naver_stocks"] = body
    async with opened(tmp_path, vendors, now=NOW + timedelta(hours=3, minutes=30)) as gateway:
        outcome = await gateway.ask(asked)
    said = outcome.reply or ""
    assert close in said.splitlines()[0]
    assert after in said
    facts = {fact.field: fact.phase for fact in outcome.facts}
    assert (facts["close"], facts["after_market_price"]) == ("closed", "after")
