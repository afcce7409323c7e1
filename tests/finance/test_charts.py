"""Charts: the data, the words and the picture tell the same; where there is no picture, a line of characters does."""

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace
from tests.walks.house import House, in_virtual_time

from finclaw.builtins.answer_notes import LINES
from finclaw.demo.market import DemoMarket
from finclaw.demo.market_data import DemoMarketData
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.charts import draw
from finclaw.finance.charts.answer import ChartRequest, read_request
from finclaw.finance.charts.chart import Chart, ChartStyle, first_day, join_weeks, load_chart, sparkline, title_of
from finclaw.finance.extension import DEMO_LINES
from finclaw.finance.history import ChartPeriod
from finclaw.finance.resolve import resolve
from finclaw.kernel.person import ChartColors
from finclaw.storage.blobs.directory import ImageHeader, read_image_header
from finclaw.testing import FakeClock, call
from finclaw.testing.channel import PROFILES

TUESDAY = datetime(2026, 11, 17, 5, 0, tzinfo=UTC)
"""14:00 in Seoul, where the market is open; in New York it is night."""


async def load(
    name: str, period: ChartPeriod, style: ChartStyle = "line", colors: ChartColors = "", now: datetime = TUESDAY
) -> Chart:
    market = DemoMarket(FakeClock(now), TableCalendar())
    return await load_chart(DemoMarketData(market), resolve(market, name), period, style, colors, market.now())


# ── the data ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("period", "first"),
    [("1M", "2026-10-19"), ("3M", "2026-08-19"), ("6M", "2026-05-20"), ("YTD", "2026-01-01")],
)
async def test_a_period_ends_today_and_its_change_begins_before_it(period: ChartPeriod, first: str) -> None:
    assert first_day(period, TUESDAY.date()) == date.fromisoformat(first)
    chart = await load("005930", period)
    assert chart.bars[0].day >= date.fromisoformat(first)
    assert chart.move.starts < chart.bars[0].starts
    assert (chart.bars[-1].day, chart.move.ends) == (TUESDAY.date(), TUESDAY), "not the close that is yet to come"
    facts = {fact.field: fact for fact in chart.facts()}
    assert facts["end"].value - facts["start"].value == facts["period_change"].value
    assert facts["high"].value == max(bar.high for bar in chart.bars)
    assert all(fact.source == "demo market" for fact in facts.values())


async def test_one_day_is_counted_from_the_close_before_it() -> None:
    chart = await load("005930", "1D")
    days = await load("005930", "5D")
    assert {bar.day for bar in chart.bars} == {TUESDAY.date()}
    assert (chart.move.start, chart.move.end) == (days.bars[-2].close, days.bars[-1].close)
    assert len(days.bars) == 5
    weekend = await load("005930", "1D", now=datetime(2026, 11, 15, 5, 0, tzinfo=UTC))
    assert {bar.day for bar in weekend.bars} == {date(2026, 11, 13)}


async def test_many_candles_are_joined_to_weeks_and_a_short_past_is_said() -> None:
    days, weeks = await load("AAPL", "5Y"), await load("AAPL", "5Y", "candle")
    assert weeks.bars == join_weeks(days.bars)
    assert len(weeks.bars) < len(days.bars) / 4
    assert (weeks.highest.high, weeks.lowest.low) == (days.highest.high, days.lowest.low)
    assert sum(bar.volume for bar in weeks.bars) == sum(bar.volume for bar in days.bars)
    assert f"5 years (only from {days.bars[0].day})" in title_of(days, "en")


async def test_the_page_gets_the_same_record() -> None:
    chart = await load("AAPL", "1M", "candle")
    assert json.decode(json.encode(chart), type=Chart) == chart


# ── the words ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("AAPL", ChartRequest("AAPL", "6M", "line")),
        ("AAPL 6M candle", ChartRequest("AAPL", "6M", "candle")),
        ("aapl CANDLE ytd", ChartRequest("aapl", "YTD", "candle")),
        ("Berkshire Hathaway B 5y", ChartRequest("Berkshire Hathaway B", "5Y", "line")),
        ("삼성전자 3개월 캔들", ChartRequest("삼성전자", "3M", "candle")),
        ("올해", ChartRequest("올해", "6M", "line")),
    ],
)
def test_what_people_type(line: str, read: ChartRequest) -> None:
    assert read_request(line.split()) == read


@pytest.mark.parametrize(
    ("closes", "line"),
    [([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"), ([8, 1], "█▁"), ([5, 5, 5], "▄▄▄"), ([7], "▄"), (range(100), "▁▄█")],
)
def test_a_sparkline(closes: Any, line: str) -> None:
    assert sparkline([Decimal(each) for each in closes], width=3 if len(closes) > 8 else 24) == line


# ── the picture ─────────────────────────────────────────────────────────────────────────────────────────────


def texts(figure: Any) -> str:
    labels = [each.get_text() for each in figure.texts]
    for axes in figure.axes:
        labels += [each.get_text() for each in (*axes.texts, *axes.get_xticklabels())]
    return "\n".join(labels)


async def test_source_time_and_move_stand_in_the_picture() -> None:
    chart = await load("삼성전자", "3M", "candle")
    written = texts(draw.build_figure(chart, "ko", font="some Korean font"))
    for words_in_it in (
        "삼성전자 (005930) · 3개월",
        "하락",
        "▼",
        "출처: 데모 시장 · 2026-11-17 14:00 KST 기준",
        "DEMO",
    ):
        assert words_in_it in written
    assert f"최고 {chart.highest.high:,}" in written
    assert "11-17" in written.splitlines(), "the last day"
    real = replace(chart, move=replace(chart.move, source="Naver"), stale=True)
    written = texts(draw.build_figure(real, "en", font=None))
    assert "DEMO" not in written
    assert "Source: Naver · as of 2026-11-17 14:00 KST · adjusted for splits · not up to date" in written


def test_a_font_installed_after_matplotlib_looked_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    font_manager: Any = import_module("matplotlib.font_manager")
    latin: Any = import_module("fontTools.ttLib").TTFont(font_manager.findfont("DejaVu Sans"))
    for record in latin["name"].names:
        if record.nameID in (1, 4, 16):
            record.string = "NanumGothic"
    latin.save(tmp_path / "new.ttf")
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    known = [each for each in font_manager.fontManager.ttflist if each.name == "DejaVu Sans"]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", known)
    monkeypatch.setattr(font_manager, "X11FontDirectories", [str(tmp_path)])
    monkeypatch.setattr(font_manager, "_get_fontconfig_fonts", list)
    assert draw.korean_font.__wrapped__() == "NanumGothic"


async def test_without_a_korean_font_nothing_korean_is_written() -> None:
    written = texts(draw.build_figure(await load("삼성전자", "1M"), "ko", font=None))
    assert "Samsung Electronics (005930) · 1 month" in written
    assert not any("가" <= letter <= "힣" for letter in written)


@pytest.mark.parametrize(
    ("name", "colors", "up", "down"),
    [
        ("005930", "", "#d32f2f", "#1565c0"),
        ("AAPL", "", "#1b8a4b", "#c62828"),
        ("AAPL", "red-up", "#d32f2f", "#1565c0"),
        ("005930", "green-up", "#1b8a4b", "#c62828"),
    ],
)
async def test_colours_are_the_markets_or_the_persons(name: str, colors: ChartColors, up: str, down: str) -> None:
    from matplotlib.colors import to_hex

    chart = await load(name, "1M", "candle", colors)
    axes: Any = draw.build_figure(chart, "en", font=None).axes[0]
    bodies = sorted((each.get_x(), to_hex(each.get_edgecolor()), to_hex(each.get_facecolor())) for each in axes.patches)
    assert [(edge, face) for _, edge, face in bodies] == [
        (up, "#ffffff") if bar.close >= bar.open else (down, down) for bar in chart.bars
    ]


@pytest.mark.parametrize(("name", "period", "style"), [("BTC", "1D", "line"), ("USD/KRW", "5D", "candle")])
async def test_it_is_a_png_of_a_fixed_size(name: str, period: ChartPeriod, style: ChartStyle) -> None:
    png = draw.draw_png(await load(name, period, style), "en")
    assert read_image_header(png) == ImageHeader("image/png", 1_000, 600)


@pytest.mark.parametrize("name", ["A $x$ B", "$\\frac{$", "$" + "{" * 500 + "$", "$\\sqrt{}$"])
async def test_a_name_is_plain_text_in_the_picture(name: str) -> None:
    chart = await load("AAPL", "1M")
    chart = replace(chart, instrument=replace(chart.instrument, name_en=name))
    figure: Any = draw.build_figure(chart, "en", font=None)
    assert name in texts(figure)
    assert not any(each.get_parse_math() for each in figure.texts)
    assert draw.draw_png(chart, "en").startswith(b"\x89PNG")


# ── in a gateway ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "state", clock=FakeClock(TUESDAY))


@in_virtual_time
async def test_the_command_answers_with_a_picture_and_its_facts(house: House) -> None:
    async with house.open(capabilities=PROFILES["telegram"]) as gateway:
        outcome = await gateway.ask("/chart AAPL 6M candle")
        (sent,) = gateway.channel.sent
        (picture,) = sent.unit.outbound.attachments
        assert (picture.name, picture.mime) == ("AAPL-6M.png", "image/png")
        assert picture.alt.startswith("Candlestick chart of Apple (AAPL), 2026-05-20 to 2026-11-16: from ")
        assert read_image_header((house.state / "blobs" / picture.blob).read_bytes()) is not None
        facts = {fact.field: fact.value for fact in outcome.facts}
        assert sent.text.startswith(f"**Apple (AAPL)**, 6 months: ${facts['end']}, ▼ down ")
        assert f"({facts['period_change']:+,})" in sent.text
        assert sent.text.endswith(f"{DEMO_LINES['en']}\n\n{LINES['retail']['figure']['en']}")
        assert [each.command for each in sent.unit.outbound.actions] == [
            f"/chart AAPL {period} candle" for period in ("1D", "1M", "1Y")
        ]
        assert sent.unit.outbound.perishable


@in_virtual_time
async def test_without_pictures_it_is_a_line_of_characters(house: House) -> None:
    async with house.open(capabilities=PROFILES["plain"]) as gateway:
        text = (await gateway.ask("/차트 삼성전자 1개월")).reply or ""
        assert text.startswith("**삼성전자 (005930)**, 1개월: 76,600원,")
        assert set(text.splitlines()[2].strip("`")) <= set("▁▂▃▄▅▆▇█")
        assert gateway.channel.sent[0].unit.outbound.actions == ()


@in_virtual_time
async def test_nor_is_there_one_without_the_extra(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    async with house.open(capabilities=PROFILES["telegram"]) as gateway:
        assert "█" in ((await gateway.ask("/chart AAPL")).reply or "")
        assert gateway.channel.sent[0].unit.outbound.attachments == ()


@in_virtual_time
async def test_a_name_that_is_not_certain_is_asked_about(house: House) -> None:
    async with house.open(capabilities=PROFILES["telegram"]) as gateway:
        asked = (await gateway.ask("/차트 삼성 1Y candle")).reply
        assert asked == "“삼성”에 해당하는 종목이 여럿입니다. 어느 종목을 말씀하시나요?"
        first, *_ = gateway.channel.sent[0].unit.outbound.actions
        assert first.command.startswith("/chart ")
        assert first.command.endswith(" 1Y candle")
        assert "No such" not in ((await gateway.ask(first.command)).reply or "No such")
        assert gateway.channel.sent[-1].unit.outbound.attachments
        assert "“qqqqqq”에 해당하는 종목을 찾지 못했습니다." in ((await gateway.ask("/chart qqqqqq")).reply or "")


@in_virtual_time
async def test_the_tool_draws_for_the_person_and_tells_the_model(house: House) -> None:
    asked = call("market__chart", {"symbol": "삼성전자", "period": "3M", "language": "ko"})
    async with house.open(asked, "차트를 보내 드립니다.", capabilities=PROFILES["telegram"]) as gateway:
        outcome = await gateway.ask("삼성전자 차트 보여줘")
        (sent,) = gateway.channel.sent
        (picture,) = sent.unit.outbound.attachments
        assert picture.alt.startswith("삼성전자 (005930) 선 차트")
        (result,) = gateway.results
        assert "chart: it goes out with your answer as a picture" in result.content
        assert {fact.field for fact in outcome.facts} >= {"start", "end", "high", "low"}
