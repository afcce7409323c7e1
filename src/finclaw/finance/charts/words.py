"""Words of a chart: what stands in the picture, beside it, in its place, and what a person types to get one."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from finclaw.finance.charts.chart import PERIODS, Chart, ChartStyle, thin_out
from finclaw.finance.market_data.port import Adjustment
from finclaw.finance.period import ChartPeriod, session_day
from finclaw.finance.words import (
    PERIOD_NAMES,
    describe_change,
    name_of,
    write_percent_move,
    write_price,
    write_provenance,
)
from finclaw.kernel.person import reader_zone
from finclaw.text import Language

_ADJUSTMENTS: Final[dict[Language, dict[Adjustment, str]]] = {
    "en": {
        "none": "not adjusted",
        "split": "adjusted for splits",
        "split+dividend": "adjusted for splits and dividends",
    },
    "ko": {"none": "수정하지 않은 주가", "split": "액면분할 반영", "split+dividend": "액면분할·배당 반영"},
}
_LABELS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "since": "{move} since {day}",
        "only": " (only from {0})",
        "high": "High {0}",
        "low": "Low {0}",
        "stale": "not up to date",
        "demo": "DEMO: simulated prices",
        "alt": "{style} of {name} ({symbol}), {first} to {last}: from {start} to {end}, {move}. {high}, {low}.",
        "line": "Line chart",
        "candle": "Candlestick chart",
    },
    "ko": {
        "since": "{day} 대비 {move}",
        "only": " ({0} 이후만)",
        "high": "최고 {0}",
        "low": "최저 {0}",
        "stale": "최신 아님",
        "demo": "DEMO: 모의 가격",
        "alt": "{name} ({symbol}) {style}, {first}~{last}: {start}에서 {end}까지, {move}. {high}, {low}.",
        "line": "선 차트",
        "candle": "캔들 차트",
    },
}

# ── in and beside the picture ───────────────────────────────────────────────────────────────────────────────


def title_of(chart: Chart, language: Language) -> str:
    return f"{name_of(chart.instrument, language)} ({chart.instrument.symbol}) · {period_of(chart, language)}"


def period_of(chart: Chart, language: Language) -> str:
    """With the first day where the source does not reach back as far as was asked."""
    since = _LABELS[language]["only"].format(chart.bars[0].day) if chart.is_short else ""
    return f"{PERIOD_NAMES[chart.period][language]}{since}"


def headline_of(chart: Chart, language: Language) -> str:
    move = write_percent_move(chart.change_percent, language)
    since = _LABELS[language]["since"].format(move=move, day=session_day(chart.instrument, chart.base_at))
    return f"{write_price(chart.instrument, chart.end, language)}   {since}"


def extremes_of(chart: Chart, language: Language) -> tuple[str, str]:
    labels = _LABELS[language]
    return labels["high"].format(f"{chart.highest.high:,}"), labels["low"].format(f"{chart.lowest.low:,}")


def source_of(chart: Chart, language: Language) -> str:
    end = next(fact for fact in chart.facts() if fact.field == "end")
    return " · ".join((write_provenance(chart.instrument, end, reader_zone(), language), *_notes(chart, language)))


def _notes(chart: Chart, language: Language) -> tuple[str, ...]:
    is_share = chart.instrument.kind in ("stock", "etf")
    adjusted = _ADJUSTMENTS[language][chart.adjustment] if is_share else ""
    stale = _LABELS[language]["stale"] if chart.stale else ""
    return tuple(filter(None, (adjusted, stale)))


def watermark_of(language: Language) -> str:
    return _LABELS[language]["demo"]


def caption_of(chart: Chart, language: Language) -> str:
    """Markdown, with every figure that is a fact of the chart."""
    facts = {fact.field: fact for fact in chart.facts()}
    period, notes = period_of(chart, language), _notes(chart, language)
    return describe_change(chart.instrument, facts, period, reader_zone(), language, notes)


def alt_text_of(chart: Chart, language: Language) -> str:
    high, low = extremes_of(chart, language)
    labels = _LABELS[language]
    return labels["alt"].format(
        style=labels[chart.style],
        name=name_of(chart.instrument, language),
        symbol=chart.instrument.symbol,
        first=chart.bars[0].day,
        last=chart.bars[-1].day,
        start=write_price(chart.instrument, chart.base, language),
        end=write_price(chart.instrument, chart.end, language),
        move=write_percent_move(chart.change_percent, language),
        high=high,
        low=low.lower(),
    )


_LEVELS: Final = "▁▂▃▄▅▆▇█"
SPARKLINE_WIDTH: Final = 24


def sparkline(closes: Sequence[Decimal], width: int = SPARKLINE_WIDTH) -> str:
    """The shape of a price in one line of characters, for where no picture can be shown."""
    shown = thin_out(closes, width)
    low, high = min(shown), max(shown)
    if low == high:
        return _LEVELS[3] * len(shown)
    return "".join(_LEVELS[min(7, int((each - low) * 8 / (high - low)))] for each in shown)


# ── what a person types ─────────────────────────────────────────────────────────────────────────────────────


class ChartRequest(NamedTuple):
    """A line behind `/chart`, read: the words for the instrument, the period and the style."""

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
    "line": "line",
    "선": "line",
    "라인": "line",
    "candle": "candle",
    "candles": "candle",
    "캔들": "candle",
    "봉": "candle",
}


def read_request(args: Sequence[str]) -> ChartRequest:
    """Period and style stand behind the name, in any order; what is neither is part of the name."""
    words, period, style = list(args), ChartRequest("").period, ChartRequest("").style
    while len(words) > 1:
        last = words[-1].casefold()
        if last in _PERIOD_WORDS:
            period = _PERIOD_WORDS[last]
        elif last in _STYLE_WORDS:
            style = _STYLE_WORDS[last]
        else:
            break
        words.pop()
    return ChartRequest(" ".join(words), period, style)
