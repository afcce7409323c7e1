"""Trading venues: their names, time zones, usual hours and tick sizes. `calendar.py` tells when one is open."""

from collections.abc import Mapping
from datetime import time, tzinfo
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import Literal

from msgspec import Struct

from finclaw.errors import ConfigError


class Venue(Struct, frozen=True, kw_only=True):
    """A venue and its hours. With `eve` it opens the day before: a currency's Monday begins on Sunday in New York."""

    code: str
    name_en: str
    name_ko: str
    zone: str
    opens: time
    closes: time
    weekends: bool = False
    eve: bool = False
    holidays: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def tz(self) -> tzinfo:
        return zone(self.zone)


@cache
def zone(name: str) -> tzinfo:
    """Raises ConfigError on a machine without a time zone database: a guessed hour is worse than no market."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415  `cold_cpu`: 2 ms, few need it

    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError as error:
        raise ConfigError(
            f"this machine has no time zone database ({name} is unknown), and market hours need one: install the "
            "system package tzdata, or the Python package of the same name"
        ) from error


_NEW_YORK = "America/New_York"
_US_WORDS = ("US", "USA", "US market", "US stock market", "American", "American market", "Wall Street", "New York")
_US_WORDS_KO = ("미국", "미국장", "미국 시장", "미국 증시", "미장", "뉴욕", "뉴욕 증시", "뉴욕장")

KRX = Venue(
    code="KRX",
    name_en="Korea Exchange",
    name_ko="한국거래소",
    zone="Asia/Seoul",
    opens=time(9),
    closes=time(15, 30),
    holidays="KRX",
    aliases=(
        *("Korea", "Korean", "Korean market", "Korean stock market", "Seoul", "South Korea", "KOSPI market"),
        *("한국", "한국장", "한국 시장", "한국 증시", "국장", "국내", "국내장", "국내 증시", "서울"),
        *("코스피", "코스닥"),
    ),
)
NYSE = Venue(
    code="NYSE",
    name_en="New York Stock Exchange",
    name_ko="뉴욕증권거래소",
    zone=_NEW_YORK,
    opens=time(9, 30),
    closes=time(16),
    holidays="NYSE",
    aliases=(*_US_WORDS, *_US_WORDS_KO, "뉴욕거래소"),
)
NASDAQ = Venue(
    code="NASDAQ",
    name_en="Nasdaq",
    name_ko="나스닥",
    zone=_NEW_YORK,
    opens=time(9, 30),
    closes=time(16),
    holidays="NYSE",
)
FX = Venue(
    code="FX",
    name_en="currency market",
    name_ko="외환시장",
    zone=_NEW_YORK,
    opens=time(17),
    closes=time(17),
    eve=True,
    aliases=("forex", "currency", "currencies", "foreign exchange", "외환", "환율 시장", "외환 시장"),
)
CRYPTO = Venue(
    code="CRYPTO",
    name_en="crypto market",
    name_ko="암호화폐 시장",
    zone="UTC",
    opens=time(0),
    closes=time(0),
    weekends=True,
    aliases=(
        *("crypto currency", "cryptocurrency", "coin", "coins"),
        *("코인", "코인 시장", "암호화폐", "가상자산", "가상화폐"),
    ),
)

VENUES: Mapping[str, Venue] = {venue.code: venue for venue in (KRX, NYSE, NASDAQ, FX, CRYPTO)}

Kind = Literal["stock", "etf", "index", "rate", "coin"]

_Steps = tuple[tuple[int, str], ...]
"""Below this price, this step; the last step is for everything above."""

_KRX: _Steps = (
    (2_000, "1"),
    (5_000, "5"),
    (20_000, "10"),
    (50_000, "50"),
    (200_000, "100"),
    (500_000, "500"),
    (0, "1000"),
)
"""The exchange's table of January 2023."""

_US_KINDS: tuple[Kind, ...] = ("stock", "etf", "index")
_STEPS: dict[tuple[str, Kind], _Steps] = {
    ("KRX", "stock"): _KRX,
    ("KRX", "etf"): ((2_000, "1"), (0, "5")),
    ("KRX", "index"): ((0, "0.01"),),
    **{(exchange, kind): ((0, "0.01"),) for exchange in ("NYSE", "NASDAQ") for kind in _US_KINDS},
    ("FX", "rate"): ((10, "0.0001"), (1_000, "0.01"), (0, "0.10")),
    ("CRYPTO", "coin"): ((10, "0.0001"), (0, "0.01")),
}


def tick_size(exchange: str, price: Decimal, kind: Kind = "stock") -> Decimal:
    """Raises KeyError for an exchange whose rules we do not know: no default can be right."""
    *rows, (_, top) = _STEPS[exchange, kind]
    return Decimal(next((step for below, step in rows if price < below), top))


def to_tick(exchange: str, price: Decimal, kind: Kind = "stock") -> Decimal:
    """The nearest price that can be traded. Every bound of a table is a step of the row above it too."""
    size = tick_size(exchange, price, kind)
    return (price / size).to_integral_value(ROUND_HALF_EVEN) * size
