"""Answers with a chart: what `/chart` says to a person, and `market__chart` to the model."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from finclaw.errors import ToolError
from finclaw.finance.charts import draw
from finclaw.finance.charts.chart import (
    PERIODS,
    SPARKLINE_WIDTH,
    Chart,
    ChartStyle,
    alt_text_of,
    caption_of,
    load_chart,
    sparkline,
)
from finclaw.finance.history import ChartPeriod
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market
from finclaw.finance.market_data.errors import DataError
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.output import identity, record
from finclaw.finance.resolve import Settle, ask_which, find_instruments, resolve
from finclaw.finance.words import PERIOD_NAMES
from finclaw.kernel.envelope import ActionButton, Capabilities, NewFile
from finclaw.kernel.person import Person
from finclaw.kernel.port import CommandReply, CommandScope, ToolOutput
from finclaw.text import Language

_OTHER_PERIODS: Final[tuple[ChartPeriod, ...]] = ("1D", "1M", "6M", "1Y")
_NO_DATA: Final[dict[Language, str]] = {
    "en": "There are no prices to draw for {0} right now. Please try again later.",
    "ko": "지금은 {0} 차트를 그릴 시세를 가져올 수 없습니다. 잠시 뒤에 다시 시도해 주세요.",
}


class ChartRequest(NamedTuple):
    words: str
    period: ChartPeriod = "6M"
    style: ChartStyle = "line"


_PERIOD_WORDS: Final[dict[str, ChartPeriod]] = {
    **{each.casefold(): each for each in PERIODS},
    **{PERIOD_NAMES[each]["ko"]: each for each in PERIODS},
    "하루": "1D",
    "한달": "1M",
    "12m": "1Y",
}
_STYLE_WORDS: Final[dict[str, ChartStyle]] = {
    **dict.fromkeys(("line", "선", "라인"), "line"),
    **dict.fromkeys(("candle", "candles", "캔들", "봉"), "candle"),
}


def read_request(args: Sequence[str]) -> ChartRequest:
    """Period and style stand behind the name, in any order; what is neither is part of the name."""
    words = list(args)
    wanted = ChartRequest("")
    while len(words) > 1:
        last = words[-1].casefold()
        if last in _PERIOD_WORDS:
            wanted = wanted._replace(period=_PERIOD_WORDS[last])
        elif last in _STYLE_WORDS:
            wanted = wanted._replace(style=_STYLE_WORDS[last])
        else:
            break
        words.pop()
    return wanted._replace(words=" ".join(words))


class ChartAnswers:
    def __init__(self, market: Market, data: MarketData, settle: Settle, prefix: str) -> None:
        self._market = market
        self._data = data
        self._settle = settle
        self._prefix = prefix

    async def answer_tool(
        self, wanted: ChartRequest, language: Language, person: Person, channel: Capabilities
    ) -> ToolOutput:
        drawn = await self._load(resolve(self._market, wanted.words), wanted, person)
        files = await self._draw(drawn, language, channel)
        text = _describe(drawn, has_picture=bool(files))
        if files:
            return ToolOutput(text, drawn.facts(), files=files)
        return ToolOutput(text, (*drawn.facts(), *drawn.point_facts(SPARKLINE_WIDTH)))

    async def answer_command(self, args: Sequence[str], scope: CommandScope, channel: Capabilities) -> CommandReply:
        wanted = read_request(args)
        language = scope.language
        try:
            found = await find_instruments(self._market, self._settle, wanted.words, scope.person, language)
            drawn = await self._load(found[0], wanted, scope.person)
        except DataError:
            return CommandReply(_NO_DATA[language].format(wanted.words))
        except ToolError as error:
            options = f"{wanted.period} {wanted.style}"
            return ask_which(error, wanted.words, language, lambda symbol: f"{self._prefix}chart {symbol} {options}")
        files = await self._draw(drawn, language, channel)
        caption = caption_of(drawn, language)
        text = caption
        if not files:
            text = f"{caption}\n`{sparkline([bar.close for bar in drawn.bars])}`"
        buttons: tuple[ActionButton, ...] = ()
        if channel.buttons is not None:
            buttons = self._period_buttons(drawn)
        return CommandReply(text, kind="reply", facts=drawn.facts(), files=files, actions=buttons)

    async def _load(self, instrument: Instrument, wanted: ChartRequest, person: Person) -> Chart:
        now = self._market.now()
        return await load_chart(self._data, instrument, wanted.period, wanted.style, person.colors, now)

    @staticmethod
    async def _draw(chart: Chart, language: Language, channel: Capabilities) -> tuple[NewFile, ...]:
        """None where the chat shows no pictures, or nothing can draw them."""
        if "image" not in channel.media or not draw.can_draw():
            return ()
        png = await asyncio.to_thread(draw.draw_png, chart, language)
        name = f"{chart.instrument.symbol}-{chart.period}.png".replace("/", "-")
        return (NewFile(data=png, name=name, mime="image/png", alt=alt_text_of(chart, language)),)

    def _period_buttons(self, chart: Chart) -> tuple[ActionButton, ...]:
        line = f"{self._prefix}chart {chart.instrument.symbol}"
        return tuple(
            ActionButton(label=each, command=f"{line} {each} {chart.style}")
            for each in _OTHER_PERIODS
            if each != chart.period
        )


def _describe(chart: Chart, *, has_picture: bool) -> str:
    lines: dict[str, object] = {
        **identity(chart.instrument),
        "period": chart.period,
        **chart.move.lines(),
        "high": chart.highest.high,
        "low": chart.lowest.low,
        "source": chart.source,
    }
    if has_picture:
        return record({**lines, "chart": "it goes out with your answer as a picture"})
    shape = sparkline([bar.close for bar in chart.bars])
    return record({**lines, "chart": "the chat shows no picture of it", "sparkline": shape})
