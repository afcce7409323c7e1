"""Canaries of the sources: questions whose answers are known well enough to see that one is wrong.

A source that has changed its unit, its shape or what a code means answers all the same. The ranges below are wide and
dated: what is outside of one is another unit or another instrument, unless the market has truly gone there since.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Final, Literal

from msgspec import Struct

CanaryKind = Literal["quote", "bars", "fixing", "news", "filings", "earnings"]

KNOWN_ON: Final = date(2026, 11, 16)
"""The day on which the ranges were last looked at."""


_BREAK: Final = timedelta(days=12)
"""No market rests for longer."""


class Canary(Struct, frozen=True, kw_only=True):
    """A question to one source. A figure is to be in its range, a document to be no older than `max_age`."""

    source: str
    kind: CanaryKind
    symbol: str = ""
    """Of our own records; empty for what is about no single instrument."""
    low: Decimal = Decimal(0)
    high: Decimal = Decimal(0)
    above: str = ""
    """A symbol of the same source whose figure is to be lower: which of two indices is which shows no other way."""
    max_age: timedelta = timedelta(0)
    may_be_empty: bool = False
    """Whether nothing at all is an answer: a list of today's filings on a quiet day."""

    @property
    def question(self) -> str:
        return {
            "quote": f"price of {self.symbol}",
            "bars": f"last close of {self.symbol}",
            "fixing": f"fixing of {self.symbol}",
            "news": f"headlines about {self.symbol}" if self.symbol else "headlines of the market",
            "filings": f"filings of {self.symbol}",
            "earnings": "earnings dates of the next sessions",
        }[self.kind]


def _price(source: str, symbol: str, low: str, high: str, *, above: str = "") -> Canary:
    return Canary(source=source, kind="quote", symbol=symbol, low=Decimal(low), high=Decimal(high), above=above)


def _close(source: str, symbol: str, low: str, high: str) -> Canary:
    """For a source whose prices are asked for only while their market trades."""
    return Canary(source=source, kind="bars", symbol=symbol, low=Decimal(low), high=Decimal(high), max_age=_BREAK)


def _documents(source: str, kind: CanaryKind, symbol: str, days: int, *, may_be_empty: bool = False) -> Canary:
    return Canary(source=source, kind=kind, symbol=symbol, max_age=timedelta(days=days), may_be_empty=may_be_empty)


def _fixing(source: str, symbol: str, low: str, high: str) -> Canary:
    return Canary(source=source, kind="fixing", symbol=symbol, low=Decimal(low), high=Decimal(high))


_SAMSUNG: Final = ("005930", "10000", "1000000")
_APPLE: Final = ("AAPL", "30", "3000")
_BITCOIN: Final = ("BTC-USD", "10000", "1000000")
_BITCOIN_IN_WON: Final = ("BTC-KRW", "10000000", "1500000000")

_ALL: Final = (
    _price("naver", *_SAMSUNG),
    _price("naver", "KOSDAQ", "300", "5000"),
    _price("naver", "KOSPI", "500", "20000", above="KOSDAQ"),
    _price("naver", *_APPLE),
    _price("naver", "USD/KRW", "900", "2500"),
    _price("naver", "JPY/KRW", "5", "20"),
    _price("yahoo", *_APPLE),
    _price("yahoo", *_SAMSUNG),
    _price("yahoo", "SPX", "2000", "30000"),
    _price("yahoo", "USD/KRW", "900", "2500"),
    _price("upbit", *_BITCOIN_IN_WON),
    _price("bithumb", *_BITCOIN_IN_WON),
    _price("coinbase", *_BITCOIN),
    _price("kraken", *_BITCOIN),
    _fixing("frankfurter", "USD/KRW", "900", "2500"),
    _fixing("ecb", "EUR/USD", "0.8", "1.6"),
    _documents("edgar", "filings", "AAPL", 120),
    _documents("dart", "filings", "005930", 5, may_be_empty=True),
    _documents("opendart", "filings", "005930", 95),
    Canary(source="nasdaq", kind="earnings"),
    _documents("google_news", "news", "AAPL", 14),
    _documents("central_banks", "news", "", 60),
    _close("kis", *_SAMSUNG),
    _close("toss", *_SAMSUNG),
    _price("finnhub", *_APPLE),
    _close("alpaca", *_APPLE),
)

CANARIES: Final[Mapping[str, tuple[Canary, ...]]] = {
    source: tuple(group) for source, group in groupby(_ALL, key=lambda each: each.source)
}
"""By the source's name in the settings, in the order in which they are asked."""
