"""Market data on vendors that a test can break, with an instrument of every class."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.finance.sources.documents import KEYS
from tests.finance.sources.vendors import NOW, VendorFetcher, Vendors, open_market_data, settings_for

from finclaw.demo.listings import DEMO_LISTINGS
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instrument import Instrument
from finclaw.finance.instruments.catalogue import priced_in
from finclaw.finance.live_market import MIGRATIONS
from finclaw.finance.market import Quote
from finclaw.finance.market_data.chain import ChainedMarketData
from finclaw.finance.market_data.errors import DataError
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.testing import FakeClock

BASE: Final = "http://127.0.0.1:9"
CASES: Final = [
    ("naver", "005930"),
    ("naver", "KOSPI"),
    ("naver", "USD/KRW"),
    ("yahoo", "AAPL"),
    ("yahoo", "005930"),
    ("upbit", "BTC-KRW"),
    ("bithumb", "BTC-KRW"),
    ("coinbase", "BTC-USD"),
    ("kraken", "BTC-USD"),
]
KEYED: Final = [("kis", "005930"), ("toss", "005930"), ("finnhub", "AAPL"), ("alpaca", "AAPL")]
"""Sources that want a key. Each stands first in its chain, so that its fault is met."""


def _index(symbol: str, name: str) -> Instrument:
    return Instrument(symbol=symbol, exchange="KRX", name_en=name, name_ko=name, currency="KRW", kind="index")


INSTRUMENTS: Final = {
    each.symbol: each
    for each in (
        *(each.instrument for each in DEMO_LISTINGS),
        *(priced_in(each.instrument, "KRW") for each in DEMO_LISTINGS),
        _index("KOSDAQ", "KOSDAQ"),
        _index("KOSPI200", "KOSPI 200"),
        Instrument(symbol="JPY/KRW", exchange="FX", name_en="yen", name_ko="엔", currency="KRW", kind="rate"),
        *(
            Instrument(symbol=f"9{number:05}", exchange="KRX", name_en="x", name_ko="x", currency="KRW", market="KOSPI")
            for number in range(500)
        ),
    )
}


@dataclass
class Bench:
    """Everything between the port and the vendors, on a state directory."""

    state: Path
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))
    vendors: Vendors = field(default_factory=Vendors)

    def open(self, **settings: Any) -> ChainedMarketData:
        database = ExtensionDatabase(self.state, "finance", MIGRATIONS, threaded=False)
        fetcher = VendorFetcher(self.vendors)
        made = settings_for(BASE, **settings)
        return open_market_data(made, fetcher, database, self.clock, TableCalendar(), INSTRUMENTS.get)

    async def quote(self, symbol: str, **settings: Any) -> Quote:
        return await quote_of(self.open(**settings), symbol)


def open_keyed(state: Path, vendors: Vendors, vendor: str, **settings: Any) -> ChainedMarketData:
    keys = {name: key for name, key in KEYS.items() if name.startswith(f"{vendor}.")}
    return Bench(state, vendors=vendors).open(keys=keys, **settings)


async def quote_of(data: ChainedMarketData, symbol: str) -> Quote:
    answer = (await data.quotes([symbol]))[symbol]
    assert isinstance(answer, Quote), answer
    return answer


async def error_of(data: ChainedMarketData, symbol: str) -> DataError:
    answer = (await data.quotes([symbol]))[symbol]
    assert isinstance(answer, DataError), answer
    return answer


async def quotes_of(data: ChainedMarketData, symbols: Sequence[str]) -> dict[str, Quote]:
    answers = await data.quotes(symbols)
    assert all(isinstance(each, Quote) for each in answers.values()), answers
    return {symbol: each for symbol, each in answers.items() if isinstance(each, Quote)}
