"""The live market: what the tools ask of a market, on top of the market data port."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Final

from finclaw.finance.instrument import InstrumentIndex
from finclaw.finance.market import Bar, Closes, Quote
from finclaw.finance.market_data.errors import DataEmpty, DataError
from finclaw.finance.market_data.port import BarRange, BarSeries, MarketData
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.port import Clock

LIVE_SOURCE: Final = "live market data"
"""The name of what was put together from several sources, or from our own calendar."""
_LOOK_BACK: Final = timedelta(days=20)


class LiveMarket:
    """Prices of real sources. Whoever opened the market data closes it."""

    def __init__(self, data: MarketData, instruments: InstrumentIndex, calendar: Calendar, clock: Clock) -> None:
        self.data = data
        self._instruments = instruments
        self._calendar = calendar
        self._clock = clock

    @property
    def source(self) -> str:
        return LIVE_SOURCE

    @property
    def instruments(self) -> InstrumentIndex:
        return self._instruments

    def now(self) -> datetime:
        return self._clock.now().astimezone(UTC)

    async def quote(self, symbol: str) -> Quote:
        answer = (await self.data.quotes([symbol]))[symbol]
        if isinstance(answer, DataError):
            raise answer
        return answer

    async def close_before(self, symbol: str, day: date) -> tuple[datetime, Decimal]:
        series = await self._bars(symbol, day - _LOOK_BACK, day - timedelta(days=1))
        return series.bars[-1].ends, series.bars[-1].close

    async def closes(self, symbol: str, since: date) -> Closes:
        series = await self._bars(symbol, since, self._today(symbol))
        return Closes(tuple((bar.ends, bar.close) for bar in series.bars), label_series(series))

    async def daily(self, symbol: str, sessions: int) -> tuple[Bar, ...]:
        past = list(islice(self._calendar.sessions_before(self._exchange(symbol), self.now()), sessions))
        series = await self._bars(symbol, past[-1].day, self._today(symbol))
        return series.bars[-sessions:]

    async def intraday(self, symbol: str, minutes: int) -> tuple[Bar, ...]:
        session = next(self._calendar.sessions_before(self._exchange(symbol), self.now()))
        series = await self.data.bars(symbol, BarRange(first=session.day, last=session.day, minutes=minutes))
        return series.bars

    async def _bars(self, symbol: str, first: date, last: date) -> BarSeries:
        if last < first:
            raise DataEmpty(f"There is no price of {symbol} before {first}. Say so and give no figure.")
        return await self.data.bars(symbol, BarRange(first=first, last=last))

    def _today(self, symbol: str) -> date:
        return self.now().astimezone(VENUES[self._exchange(symbol)].tz).date()

    def _exchange(self, symbol: str) -> str:
        found = self._instruments.get(symbol)
        return found.exchange if found else "NYSE"  # the port refuses what the records lack


def label_series(series: BarSeries) -> str:
    """The source of a series, with what its reader must know: that it is old."""
    return f"{series.source} (stale)" if series.stale else series.source
