"""Words of a chart: what stands in the picture, beside it, in its place, and what a person types to get one."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from finclaw.finance.charts.chart import PERIODS, Chart, ChartStyle, thin_out
from finclaw.finance.commands.words import write_price
from finclaw.finance.market import DEMO_SOURCE
from finclaw.finance.market_data.port import Adjustment
from finclaw.finance.period import ChartPeriod, session_day
from finclaw.finance.venue import VENUES
from finclaw.kernel.person import reader_zone
from finclaw.text import Language

_PERIOD_NAMES: Final[dict[Language, dict[ChartPeriod, str]]] = {
    "en": {
        "1D": "1 day",
        "5D": "5 days",
        "1M": "1 month",
        "3M": "3 months",
        "6M": "6 months",
        "1Y": "1 year",
        "5Y": "5 years",
        "YTD": "this year",
    },
    "ko": {
        "1D": "1일",
        "5D": "5일",
        "1M": "1개월",
        "3M": "3개월",
        "6M": "6개월",
        "1Y": "1년",
        "5Y": "5년",
        "YTD": "올해",
    },
}
_ADJUSTMENTS: Final[dict[Language, dict[Adjustment, str]]] = {
    "en": {
        "none": "not adjusted",
        "split": "adjusted for splits",
        "split+dividend": "adjusted for splits and dividends",
    },
    "ko": {"none": "수정하지 않은 주가", "split": "액면분할 반영", "split+dividend": "액면분할·배당 반영"},
}
_MOVES: Final[dict[Language, tuple[str, str, str]]] = {
    "en": ("▲ up {0}%", "▼ down {0}%", "unchanged"),
    "ko": ("▲ {0}% 상승", "▼ {0}% 하락", "변동 없음"),
}
_LABELS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "since": "{move} since {day}",
        "only": " (only from {0})",
        "high": "High {0}",
        "low": "Low {0}",
        "source": "Source: {source} · as of {as_of}",
        "stale": "not up to date",
        "demo source": DEMO_SOURCE,
        "demo": "DEMO: simulated prices",
        "caption": "**{name} ({symbol})**, {period}: {end}, {move} ({change}) since {day}.\n{high}, {low}. {source}.",
        "alt": "{style} of {name} ({symbol}), {first} to {last}: from {start} to {end}, {move}. {high}, {low}.",
        "line": "Line chart",
        "candle": "Candlestick chart",
    },
    "ko": {
        "since": "{day} 대비 {move}",
        "only": " ({0} 이후만)",
        "high": "최고 {0}",
        "low": "최저 {0}",
        "source": "출처: {source} · {as_of} 기준",
        "stale": "최신 아님",
        "demo source": "데모 시장",
        "demo": "DEMO: 모의 가격",
        "caption": "**{name} ({symbol})**, {period}: {end}, {day} 대비 {move} ({change}).\n{high}, {low}. {source}.",
        "alt": "{name} ({symbol}) {style}, {first}~{last}: {start}에서 {end}까지, {move}. {high}, {low}.",
        "line": "선 차트",
        "candle": "캔들 차트",
    },
}

# ── in and beside the picture ───────────────────────────────────────────────────────────────────────────────


def name_of(chart: Chart, language: Language) -> str:
    return chart.instrument.name_ko if language == "ko" else chart.instrument.name_en


def period_of(chart: Chart, language: Language) -> str:
    """With the first day where the source does not reach back as far as was asked."""
    since = _LABELS[language]["only"].format(chart.bars[0].day) if chart.is_short else ""
    return f"{_PERIOD_NAMES[language][chart.period]}{since}"


def title_of(chart: Chart, language: Language) -> str:
    return f"{name_of(chart, language)} ({chart.instrument.symbol}) · {period_of(chart, language)}"


def format_price(chart: Chart, value: Decimal, language: Language) -> str:
    return write_price(chart.instrument, value, language)


def move_of(chart: Chart, language: Language) -> str:
    """A sign and a word, so that nobody has to know the colours."""
    up, down, still = _MOVES[language]
    words = up if chart.change > 0 else down if chart.change < 0 else still
    return words.format(abs(chart.change_percent))


def headline_of(chart: Chart, language: Language) -> str:
    since = _LABELS[language]["since"].format(
        move=move_of(chart, language), day=session_day(chart.instrument, chart.base_at)
    )
    return f"{format_price(chart, chart.end, language)}   {since}"


def extremes_of(chart: Chart, language: Language) -> tuple[str, str]:
    labels = _LABELS[language]
    return labels["high"].format(f"{chart.highest.high:,}"), labels["low"].format(f"{chart.lowest.low:,}")


def source_of(chart: Chart, language: Language) -> str:
    labels = _LABELS[language]
    at = chart.as_of.astimezone(reader_zone() or VENUES[chart.instrument.exchange].tz)
    source = labels["demo source"] if chart.is_demo else chart.source
    told = labels["source"].format(source=source, as_of=f"{at:%Y-%m-%d %H:%M %Z}")
    is_share = chart.instrument.kind in ("stock", "etf")
    adjusted = _ADJUSTMENTS[language][chart.adjustment] if is_share else ""
    return " · ".join(filter(None, (told, adjusted, labels["stale"] if chart.stale else "")))


def watermark_of(language: Language) -> str:
    return _LABELS[language]["demo"]


def caption_of(chart: Chart, language: Language) -> str:
    """Markdown, with every figure that is a fact of the chart."""
    high, low = extremes_of(chart, language)
    return _LABELS[language]["caption"].format(
        name=name_of(chart, language),
        symbol=chart.instrument.symbol,
        period=period_of(chart, language),
        end=format_price(chart, chart.end, language),
        move=move_of(chart, language),
        change=f"{chart.change:+,}",
        day=session_day(chart.instrument, chart.base_at),
        high=high,
        low=low.lower(),
        source=source_of(chart, language),
    )


def alt_text_of(chart: Chart, language: Language) -> str:
    high, low = extremes_of(chart, language)
    labels = _LABELS[language]
    return labels["alt"].format(
        style=labels[chart.style],
        name=name_of(chart, language),
        symbol=chart.instrument.symbol,
        first=chart.bars[0].day,
        last=chart.bars[-1].day,
        start=format_price(chart, chart.base, language),
        end=format_price(chart, chart.end, language),
        move=move_of(chart, language),
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
    **{name.replace(" ", ""): each for each, name in _PERIOD_NAMES["ko"].items()},
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
