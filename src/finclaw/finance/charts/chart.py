"""Charts as data: the picture and every text about it are made from the same record, so that they cannot differ."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Final, Literal, TypeVar, get_args

from msgspec import Struct

from finclaw.finance import words
from finclaw.finance.history import ChartPeriod, Period, PriceChange, days_of, session_day
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Bar, join_bars
from finclaw.finance.market_data.errors import DataEmpty, DataError
from finclaw.finance.market_data.port import Adjustment, BarRange, MarketData
from finclaw.finance.output import price_fact
from finclaw.finance.venue import VENUES
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import ChartColors, reader_zone
from finclaw.text import Language

T = TypeVar("T")
ChartStyle = Literal["line", "candle"]
PERIODS: Final[tuple[ChartPeriod, ...]] = get_args(ChartPeriod)

_SAME_AS: Final[dict[ChartPeriod, Period]] = {"1M": "month", "3M": "quarter", "1Y": "year", "YTD": "year_to_date"}
_DAYS: Final[dict[ChartPeriod, int]] = {"1D": 12, "5D": 16, "6M": 182, "5Y": 1_826}
"""Days of the others; of the two shortest those that are looked through for sessions."""
_BREAK: Final = timedelta(days=20)
"""Longer than markets rest: somewhere in it is the close from which the change is counted."""
_MINUTES: Final = 10
MOST_CANDLES: Final = 270  # more cannot be told apart; a candle is then a week


class Chart(Struct, frozen=True, kw_only=True):
    """Bars over a period, oldest first. `move` is counted from the last close before them."""

    instrument: Instrument
    period: ChartPeriod
    style: ChartStyle
    colors: ChartColors
    bars: tuple[Bar, ...]
    move: PriceChange
    adjustment: Adjustment
    stale: bool = False
    is_short: bool = False  # the source reaches back less far than the period

    @property
    def source(self) -> str:
        return self.move.source

    @property
    def highest(self) -> Bar:
        return max(self.bars, key=lambda bar: bar.high)

    @property
    def lowest(self) -> Bar:
        return min(self.bars, key=lambda bar: bar.low)

    def facts(self) -> tuple[Fact, ...]:
        high = price_fact(self.instrument, "high", self.highest.high, self.highest.ends, self.source)
        low = price_fact(self.instrument, "low", self.lowest.low, self.lowest.ends, self.source)
        return (*self.move.change_facts(), high, low)

    def point_facts(self, most: int) -> tuple[Fact, ...]:
        """The closes of up to so many bars: the chart for where no picture is shown."""
        shown = thin_out(self.bars, most)
        return tuple(price_fact(self.instrument, "chart_point", bar.close, bar.ends, self.source) for bar in shown)


def thin_out(values: Sequence[T], most: int) -> list[T]:
    count = min(most, len(values))
    return [values[(place + 1) * len(values) // count - 1] for place in range(count)]


def first_day(period: ChartPeriod, today: date) -> date:
    if period in _SAME_AS:
        return days_of(_SAME_AS[period], today)[0]
    return today - timedelta(days=_DAYS[period] - 1)


async def load_chart(
    data: MarketData, instrument: Instrument, period: ChartPeriod, style: ChartStyle, colors: ChartColors, now: datetime
) -> Chart:
    venue = VENUES[instrument.exchange]
    today = now.astimezone(venue.tz).date()
    first = first_day(period, today)
    if period == "1D":
        series = await data.bars(instrument.symbol, BarRange(first=first, last=today, minutes=_MINUTES))
        bars = tuple(bar for bar in series.bars if bar.day == series.bars[-1].day)
        before: Sequence[Bar] = ()
        if bars:
            before = await _bars_before(data, instrument, bars[0].day)
    else:
        series = await data.bars(instrument.symbol, BarRange(first=first - _BREAK, last=today))
        bars = tuple(bar for bar in series.bars if bar.day >= first)
        if period == "5D":
            bars = bars[-5:]
        before = [bar for bar in series.bars if bars and bar.day < bars[0].day]
    if not bars:
        raise DataEmpty(f"There is no session of {instrument.symbol} in that time", source=series.source)
    base = bars[0].open
    base_at = bars[0].starts
    if before:
        base = before[-1].close
        base_at = before[-1].ends
    shown = bars
    if style == "candle" and len(bars) > MOST_CANDLES:
        shown = join_weeks(bars)
    return Chart(
        instrument=instrument,
        period=period,
        style=style,
        colors=colors or default_colors(instrument),
        bars=shown,
        move=PriceChange(
            instrument=instrument,
            starts=base_at,
            start=base,
            ends=min(bars[-1].ends, now),
            end=bars[-1].close,
            source=series.source,
        ),
        adjustment=series.adjustment,
        stale=series.stale,
        is_short=not before and bars[0].day - first > _BREAK,
    )


async def _bars_before(data: MarketData, instrument: Instrument, day: date) -> Sequence[Bar]:
    """Of the sessions before that day; none where nobody has them: then the change is counted from the open."""
    try:
        span = BarRange(first=day - _BREAK, last=day - timedelta(days=1))
        return (await data.bars(instrument.symbol, span)).bars
    except DataError:
        return ()


def default_colors(instrument: Instrument) -> ChartColors:
    return "red-up" if instrument.exchange == "KRX" else "green-up"


def join_weeks(bars: Sequence[Bar]) -> tuple[Bar, ...]:
    weeks = (list(week) for _, week in groupby(bars, key=lambda bar: bar.day.isocalendar()[:2]))
    return tuple(join_bars(week, week[0].starts) for week in weeks)


WATERMARK: Final[dict[Language, str]] = {"en": "DEMO: simulated prices", "ko": "DEMO: 모의 가격"}
_LABELS: Final[dict[str, dict[Language, str]]] = {
    "none": {"en": "not adjusted", "ko": "수정하지 않은 주가"},
    "split": {"en": "adjusted for splits", "ko": "액면분할 반영"},
    "split+dividend": {"en": "adjusted for splits and dividends", "ko": "액면분할·배당 반영"},
    "since": {"en": "{move} since {day}", "ko": "{day} 대비 {move}"},
    "only": {"en": " (only from {0})", "ko": " ({0} 이후만)"},
    "high": {"en": "High {0}", "ko": "최고 {0}"},
    "low": {"en": "Low {0}", "ko": "최저 {0}"},
    "stale": {"en": "not up to date", "ko": "최신 아님"},
    "alt": {
        "en": "{style} of {name} ({symbol}), {first} to {last}: from {start} to {end}, {move}. {high}, {low}.",
        "ko": "{name} ({symbol}) {style}, {first}~{last}: {start}에서 {end}까지, {move}. {high}, {low}.",
    },
    "line": {"en": "Line chart", "ko": "선 차트"},
    "candle": {"en": "Candlestick chart", "ko": "캔들 차트"},
}


def title_of(chart: Chart, language: Language) -> str:
    return f"{words.name_of(chart.instrument, language)} ({chart.instrument.symbol}) · {_period_of(chart, language)}"


def _period_of(chart: Chart, language: Language) -> str:
    period = words.PERIOD_NAMES[chart.period][language]
    if not chart.is_short:
        return period
    return f"{period}{_LABELS['only'][language].format(chart.bars[0].day)}"


def headline_of(chart: Chart, language: Language) -> str:
    move = words.write_percent_move(chart.move.change_percent, language)
    since = _LABELS["since"][language].format(move=move, day=session_day(chart.instrument, chart.move.starts))
    return f"{words.write_price(chart.instrument, chart.move.end, language)}   {since}"


def extremes_of(chart: Chart, language: Language) -> tuple[str, str]:
    high = _LABELS["high"][language].format(f"{chart.highest.high:,}")
    low = _LABELS["low"][language].format(f"{chart.lowest.low:,}")
    return high, low


def source_of(chart: Chart, language: Language) -> str:
    end = next(fact for fact in chart.facts() if fact.field == "end")
    return " · ".join(
        (words.write_provenance(chart.instrument, end, reader_zone(), language), *_notes(chart, language))
    )


def _notes(chart: Chart, language: Language) -> tuple[str, ...]:
    notes: list[str] = []
    if chart.instrument.kind in ("stock", "etf"):
        notes.append(_LABELS[chart.adjustment][language])
    if chart.stale:
        notes.append(_LABELS["stale"][language])
    return tuple(notes)


def caption_of(chart: Chart, language: Language) -> str:
    facts = {fact.field: fact for fact in chart.facts()}
    period = _period_of(chart, language)
    return words.describe_change(chart.instrument, facts, period, reader_zone(), language, _notes(chart, language))


def alt_text_of(chart: Chart, language: Language) -> str:
    high, low = extremes_of(chart, language)
    return _LABELS["alt"][language].format(
        style=_LABELS[chart.style][language],
        name=words.name_of(chart.instrument, language),
        symbol=chart.instrument.symbol,
        first=chart.bars[0].day,
        last=chart.bars[-1].day,
        start=words.write_price(chart.instrument, chart.move.start, language),
        end=words.write_price(chart.instrument, chart.move.end, language),
        move=words.write_percent_move(chart.move.change_percent, language),
        high=high,
        low=low.lower(),
    )


_LEVELS: Final = "▁▂▃▄▅▆▇█"
SPARKLINE_WIDTH: Final = 24


def sparkline(closes: Sequence[Decimal], width: int = SPARKLINE_WIDTH) -> str:
    """The shape of a price in one line of characters, for where no picture can be shown."""
    shown = thin_out(closes, width)
    low = min(shown)
    high = max(shown)
    if low == high:
        return _LEVELS[3] * len(shown)
    return "".join(_LEVELS[min(7, int((each - low) * 8 / (high - low)))] for each in shown)
