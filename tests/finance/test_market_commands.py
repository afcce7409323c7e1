"""The market commands: the same figures as the tools give, in the language of the line, and no model is asked."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.finance.sources.faults import FAULTS
from tests.finance.sources.vendors import Vendors
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.live_gateway import opened

from finclaw.builtins.answer_notes import LINES
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.demo.market import DemoMarket
from finclaw.finance.answers import FxRequest, read_fx
from finclaw.finance.extension import DEMO_LINES
from finclaw.finance.market import ExtendedPrice
from finclaw.finance.words import describe_quote
from finclaw.testing import FakeClock, call
from finclaw.testing.channel import PROFILES
from finclaw.text import Language

TUESDAY = datetime(2026, 11, 17, 5, 0, tzinfo=UTC)
"""14:00 in Seoul, where the market is open; in New York it is night."""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "state", clock=FakeClock(TUESDAY))


async def reply_to(gateway: Gateway, line: str, **fields: str) -> str:
    """The command's own words, without the lines that delivery puts below every figure."""
    outcome = await gateway.ask(line, **fields)
    assert outcome.kind == "command"
    assert gateway.provider.requests == [], "a command asks no model"
    return (outcome.reply or "").partition("\n\n(")[0]


# ── /price ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("C-14")
@in_virtual_time
async def test_a_price_by_ticker_and_by_local_name(house: House) -> None:
    async with house.open() as gateway:
        assert (await reply_to(gateway, "/price AAPL")).splitlines() == [
            "**Apple (AAPL)** $215.93  ▼ $7.10 (-3.18%)",
            "previous close $223.03 · volume 35,699,328",
            "Nasdaq · market closed · as of 2026-11-16 16:00 EST · source: demo market",
        ]
        assert gateway.said[-1].endswith(f"{DEMO_LINES['en']}\n\n{LINES['retail']['figure']['en']}")
        korean = [
            "**삼성전자 (005930)** 76,600원  ▲ 1,300원 (+1.73%)",
            "직전 종가 75,300원 · 거래량 12,287,068",
            "한국거래소 · 정규장 · 2026-11-17 14:00 KST 기준 · 출처: 데모 시장",
        ]
        for line in ("/price 삼성전자", "/시세 삼성전자", "/시세 005930"):
            assert (await reply_to(gateway, line)).splitlines() == korean
        quote = await reply_to(gateway, "/quote 005930", sender="bo")
        assert quote.startswith("**Samsung Electronics (005930)** ₩76,600")
        several = await reply_to(gateway, "/price AAPL 테슬라 BTC")
        assert [line.partition("**")[2].partition(" (")[0] for line in several.splitlines()[:3]] == [
            "애플",
            "테슬라",
            "비트코인",
        ]


@pytest.mark.spec("C-14")
@in_virtual_time
async def test_called_bare_it_explains_itself_to_the_caller(house: House) -> None:
    async with house.open() as gateway:
        assert "/price AAPL" in await reply_to(gateway, "/price")
        assert gateway.channel.sent[-1].unit.outbound.ephemeral


@in_virtual_time
async def test_a_command_and_a_tool_give_the_same_facts(house: House) -> None:
    script = (call("market__quote", {"symbol": "AAPL"}), "$215.93")
    async with house.open(*script) as gateway:
        typed = await gateway.ask("/price AAPL")
        asked = await gateway.ask("How much is Apple?")
        assert typed.facts
        assert typed.facts == asked.facts


@in_virtual_time
async def test_a_name_that_is_not_certain_gives_choices_and_no_price(house: House) -> None:
    async with house.open(capabilities=PROFILES["telegram"]) as gateway:
        assert "어느 종목을 말씀하시나요?" in await reply_to(gateway, "/시세 삼성")
        commands = [each.command for each in gateway.channel.sent[-1].unit.outbound.actions]
        assert commands == ["/price 005930", "/price 207940", "/price 006400"]
        await reply_to(gateway, commands[0])
        assert [each.command for each in gateway.channel.sent[-1].unit.outbound.actions] == [
            "/chart 005930",
            "/news 005930",
            "/watch add 005930",
        ]
        unknown = await reply_to(gateway, "/price zzzzzz")
        assert unknown.startswith("“zzzzzz”에 해당하는 종목을 찾지 못했습니다.")
        assert not any(letter.isdigit() for letter in unknown)


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "After-market: ₩101,900, ▲ +1.39% against the close (NXT, 2026-11-16 18:05 KST)"),
        ("ko", "애프터마켓: 101,900원, 종가 대비 ▲ +1.39% (넥스트레이드, 2026-11-16 18:05 KST)"),
    ],
)
async def test_an_after_market_price_is_a_second_line_against_the_close(language: Language, line: str) -> None:
    at = datetime(2026, 11, 16, 9, 5, tzinfo=UTC)
    quote = await DemoMarket(FakeClock(at)).quote("005930")
    extended = ExtendedPrice(price=Decimal(101_900), phase="after", venue="NXT", as_of=at)
    quote = replace(quote, price=Decimal(100_500), close=Decimal(100_500), extended=extended)
    assert describe_quote(quote, None, language).splitlines()[-1] == line


async def test_a_live_price_names_source_delay_and_what_failed(tmp_path: Path) -> None:
    vendors = Vendors(faults={"naver": FAULTS["html"]})
    async with opened(tmp_path, vendors, "never asked") as gateway:
        text = await reply_to(gateway, "/시세 삼성전자")
        assert "출처: Yahoo Finance (20분 지연" in text
        assert "먼저 물은 출처: Naver(읽을 수 없는 응답)" in text
        assert gateway.said[-1].count("출처") == 2, "no second source line is put below"
        vendors.faults["yahoo"] = FAULTS["429"]
        text = await reply_to(gateway, "/price 000660", sender="bo")
        assert text == (
            "SK hynix (000660): not available now. Naver answered what cannot be read; Yahoo Finance was asked too "
            "often. Please try again later."
        )


async def test_many_prices_are_one_request_to_a_source_that_can(tmp_path: Path) -> None:
    vendors = Vendors()
    async with opened(tmp_path, vendors, "never asked", disabled=("yahoo",)) as gateway:
        text = await reply_to(gateway, "/price 005930 000660")
        assert text.count("- **") == 2
        assert vendors.count("naver") == 1


# ── /fx ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("100 USD KRW", FxRequest(Decimal(100), "USD", "KRW")),
        ("100 usd to eur", FxRequest(Decimal(100), "USD", "EUR")),
        ("USD/KRW", FxRequest(None, "USD", "KRW")),
        ("usdkrw", FxRequest(None, "USD", "KRW")),
        ("$250.50", FxRequest(Decimal("250.5"), "USD", None)),
        ("100달러를 원으로", FxRequest(Decimal(100), "USD", "KRW")),
        ("1만엔", FxRequest(Decimal(10_000), "JPY", None)),
        ("유로 환율", FxRequest(None, "EUR", None)),
        ("0.5 BTC in won", FxRequest(Decimal("0.5"), "BTC", "KRW")),
        ("100 XYZ", FxRequest(left="XYZ")),
        ("1 2 USD", FxRequest(left="1 2 USD")),
        ("USD KRW EUR", FxRequest(left="EUR")),
        ("1억 2천 달러", FxRequest(left="1억 2천 달러")),
        ("1억2천 원 달러", FxRequest(left="1억2천 원 달러")),
        ("1억2천만원 달러", FxRequest(Decimal(120_000_000), "KRW", "USD")),
        ("3만 5천원", FxRequest(Decimal(35_000), "KRW", None)),
    ],
)
def test_what_people_type_behind_fx(line: str, read: FxRequest) -> None:
    assert read_fx(line.split()) == read


@in_virtual_time
async def test_an_amount_is_converted_with_the_rate_told(house: House) -> None:
    async with house.open() as gateway:
        assert (await reply_to(gateway, "/환율 100달러")).splitlines() == [
            "**100달러 = 136,410원**",
            "적용 환율 USD/KRW 1,364.10 · 2026-11-17 14:00 KST 기준 · 출처: 데모 시장",
        ]
        euros = await reply_to(gateway, "/fx 100 USD to EUR", sender="bo")
        assert euros.startswith("**$100 = €93.33**\nrate used EUR/USD 1.0715")
        assert (await reply_to(gateway, "/환율 엔")).startswith("**100엔 = ")
        rates = await reply_to(gateway, "/fx", sender="bo")
        assert rates.count("- **") == 4
        assert "**US dollar in won (USD/KRW)** ₩1,364.10 ▲" in rates
        assert "I cannot convert “abc”" in await reply_to(gateway, "/fx abc", sender="bo")
        assert "모두 USD" in await reply_to(gateway, "/환율 달러 USD")


# ── /market, /news ──────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_the_market_is_its_hours_and_its_indices(house: House) -> None:
    async with house.open() as gateway:
        lines = (await reply_to(gateway, "/market")).splitlines()
        assert lines[:3] == [
            "**Korea Exchange** open · closes at 2026-11-17 15:30 KST",
            "**New York Stock Exchange** closed (before the open) · opens at 2026-11-17 09:30 EST",
            "Hours: as of 2026-11-17 05:00 UTC, source: FinClaw market calendar",
        ]
        assert "**S&P 500 index (SPX)**" in "\n".join(lines)
        outcome = await gateway.ask("/시장 미국")
        assert (outcome.reply or "").splitlines() == [
            "**뉴욕증권거래소** 닫힘 (개장 전) · 2026-11-17 09:30 EST (2026-11-17 23:30 KST) 개장",
            "개장 시간: 2026-11-17 14:00 KST 기준, 출처: FinClaw 시장 달력",
        ]
        assert {fact.source for fact in outcome.facts} == {"FinClaw market calendar"}
        assert DEMO_LINES["ko"] not in gateway.said[-1], "the hours are real"


@in_virtual_time
async def test_headlines_with_their_links_and_made_up_ones_are_called_so(house: House) -> None:
    async with house.open() as gateway:
        text = await reply_to(gateway, "/뉴스 삼성전자")
        assert "삼성전자: 데모 시장의 지어낸 제목" in text
        assert "https://example.com/demo/005930" in text
        assert text.endswith("출처: 데모 시장. 데모 시장의 지어낸 제목입니다. 실제 뉴스가 아닙니다.")
        assert (await reply_to(gateway, "/news", sender="bo")).startswith("Market news\n")
        assert "Which one" in await reply_to(gateway, "/news Samsung", sender="bo")


# ── what the commands stand on ──────────────────────────────────────────────────────────────────────────────

ROOT = Path(__file__).parents[2]
CORE = ("app", "agent", "composition", "delivery", "extensions", "pipeline", "sessions", "storage")


@pytest.mark.spec("P-50")
def test_finance_adds_commands_and_context_through_the_public_interface_only(tmp_path: Path) -> None:
    names = {each.name for each in load_registrar(Settings(state=tmp_path)).commands if each.category == "finance"}
    assert names == {"price", "fx", "market", "news", "chart", "watch"}
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src" / "finclaw" / "finance").rglob("*.py")}
    assert [str(path) for path, code in sources.items() if re.search(rf"finclaw\.({'|'.join(CORE)})\b", code)] == []
    assert any("api.context" in code for code in sources.values())
    # Nor does the core know a command or a field of finance by its name.
    core = [path for part in ("pipeline", "extensions") for path in (ROOT / "src" / "finclaw" / part).rglob("*.py")]
    assert core
    assert [str(path) for path in core if "finclaw.finance" in path.read_text(encoding="utf-8")] == []


@pytest.mark.spec("C-18")
def test_each_part_of_the_commands_has_a_test_of_its_own() -> None:
    """Help, price, unknown names, roles, the registry with its aliases, and categories: a proof of each row."""
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    proved = {row for marks in re.findall(r"mark\.spec\(([^)]*)\)", tests) for row in re.findall(r'"(C-\d+)"', marks)}
    assert {"C-12", "C-14", "C-08", "C-09", "C-06", "C-02"} <= proved
