"""A chart as data: the bars of one instrument over a period, and what the price did in it.

The picture, the words and the page are made from the same record, so that they cannot differ.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Final, Literal, TypeVar, get_args

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE, Bar, percent
from finclaw.finance.market_data.errors import DataEmpty, DataError
from finclaw.finance.market_data.port import Adjustment, BarRange, MarketData
from finclaw.finance.output import plain_fact, price_fact
from finclaw.finance.period import ChartPeriod, Period, days_of
from finclaw.finance.venue import VENUES
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import ChartColors

T = TypeVar("T")
ChartStyle = Literal["line", "candle"]
PERIODS: Final[tuple[ChartPeriod, ...]] = get_args(ChartPeriod)

_SAME_AS: Final[dict[ChartPeriod, Period]] = {"1M": "month", "3M": "quarter", "1Y": "year", "YTD": "year_to_date"}
_DAYS: Final[dict[ChartPeriod, int]] = {"1D": 12, "5D": 16, "6M": 182, "5Y": 1_826}
"""Days of the others; of the two shortest those that are looked through for sessions."""
_BREAK: Final = timedelta(days=20)
"""Longer than markets rest: somewhere in it is the close from which the change is counted."""
_MINUTES: Final = 10
MOST_CANDLES: Final = 270
"""More cannot be told apart; a candle is then a week."""


class Chart(Struct, frozen=True, kw_only=True):
    """Bars over a period, oldest first. `base` is the last close before them, from which the change is counted."""

    instrument: Instrument
    period: ChartPeriod
    style: ChartStyle
    colors: ChartColors
    bars: tuple[Bar, ...]
    base: Decimal
    base_at: datetime
    as_of: datetime
    source: str
    adjustment: Adjustment
    stale: bool = False
    is_short: bool = False
    """The source reaches back less far than the period."""

    @property
    def is_demo(self) -> bool:
        return self.source == DEMO_SOURCE

    @property
    def end(self) -> Decimal:
        return self.bars[-1].close

    @property
    def change(self) -> Decimal:
        return self.end - self.base

    @property
    def change_percent(self) -> Decimal:
        return percent(self.change, self.base)

    @property
    def highest(self) -> Bar:
        return max(self.bars, key=lambda bar: bar.high)

    @property
    def lowest(self) -> Bar:
        return min(self.bars, key=lambda bar: bar.low)

    def facts(self) -> tuple[Fact, ...]:
        of, at, source = self.instrument, self.as_of, self.source
        return (
            price_fact(of, "start", self.base, self.base_at, source),
            price_fact(of, "end", self.end, at, source),
            price_fact(of, "period_change", self.change, at, source),
            plain_fact(of.symbol, "period_change_percent", self.change_percent, "%", at, source),
            price_fact(of, "high", self.highest.high, self.highest.ends, source),
            price_fact(of, "low", self.lowest.low, self.lowest.ends, source),
        )

    def point_facts(self, most: int) -> tuple[Fact, ...]:
        """The closes of up to so many bars: the chart for where no picture is shown."""
        of, source = self.instrument, self.source
        return tuple(price_fact(of, "chart_point", bar.close, bar.ends, source) for bar in thin_out(self.bars, most))


def thin_out(values: Sequence[T], most: int) -> list[T]:
    """Up to so many of them, evenly spread, the last one included."""
    count = min(most, len(values))
    return [values[(place + 1) * len(values) // count - 1] for place in range(count)]


def first_day(period: ChartPeriod, today: date) -> date:
    """The first day of a period that ends today."""
    same = _SAME_AS.get(period)
    return today - timedelta(days=_DAYS[period] - 1) if same is None else days_of(same, today)[0]


async def load_chart(
    data: MarketData,
    instrument: Instrument,
    period: ChartPeriod,
    style: ChartStyle,
    colors: ChartColors,
    now: datetime,
) -> Chart:
    """Raises DataError where there are no bars to be had."""
    venue = VENUES[instrument.exchange]
    today = now.astimezone(venue.tz).date()
    first = first_day(period, today)
    if period == "1D":
        series = await data.bars(instrument.symbol, BarRange(first=first, last=today, minutes=_MINUTES))
        bars = tuple(bar for bar in series.bars if bar.day == series.bars[-1].day)
        before: Sequence[Bar] = await _bars_before(data, instrument, bars[0].day) if bars else ()
    else:
        series = await data.bars(instrument.symbol, BarRange(first=first - _BREAK, last=today))
        bars = tuple(bar for bar in series.bars if bar.day >= first)
        bars = bars[-5:] if period == "5D" else bars
        before = [bar for bar in series.bars if bars and bar.day < bars[0].day]
    if not bars:
        raise DataEmpty(f"There is no session of {instrument.symbol} in that time", source=series.source)
    return Chart(
        instrument=instrument,
        period=period,
        style=style,
        colors=colors or default_colors(instrument),
        bars=join_weeks(bars) if style == "candle" and len(bars) > MOST_CANDLES else bars,
        base=before[-1].close if before else bars[0].open,
        base_at=before[-1].ends if before else bars[0].starts,
        as_of=min(bars[-1].ends, now),
        source=series.source,
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
    """As the market's own screens show them."""
    return "red-up" if instrument.exchange == "KRX" else "green-up"


def join_weeks(bars: Sequence[Bar]) -> tuple[Bar, ...]:
    """One bar a calendar week."""
    weeks = (tuple(week) for _, week in groupby(bars, key=lambda bar: bar.day.isocalendar()[:2]))
    return tuple(
        Bar(
            day=week[0].day,
            starts=week[0].starts,
            ends=week[-1].ends,
            open=week[0].open,
            high=max(bar.high for bar in week),
            low=min(bar.low for bar in week),
            close=week[-1].close,
            volume=sum(bar.volume for bar in week),
        )
        for week in weeks
    )
