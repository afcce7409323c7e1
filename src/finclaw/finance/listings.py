"""The instruments of the demo market: real names, made-up prices."""

from dataclasses import dataclass
from decimal import Decimal

from finclaw.finance.instrument import Instrument


@dataclass(frozen=True, slots=True)
class Listing:
    """`base` is the price it moves around; `swing` is how lively it is, in percent of a calm share."""

    instrument: Instrument
    base: Decimal
    swing: int = 100


def _krx(symbol: str, name_en: str, name_ko: str, base: str, *aliases: str) -> Listing:
    known_as = (f"{symbol}.KS", *aliases)
    return Listing(
        Instrument(symbol=symbol, exchange="KRX", name_en=name_en, name_ko=name_ko, currency="KRW", aliases=known_as),
        Decimal(base),
    )


def _nasdaq(symbol: str, name_en: str, name_ko: str, base: str, *aliases: str, swing: int = 100) -> Listing:
    return Listing(
        Instrument(symbol=symbol, exchange="NASDAQ", name_en=name_en, name_ko=name_ko, currency="USD", aliases=aliases),
        Decimal(base),
        swing,
    )


_BITCOIN = Instrument(
    symbol="BTC-USD",
    exchange="CRYPTO",
    name_en="Bitcoin",
    name_ko="비트코인",
    currency="USD",
    aliases=("BTC", "XBT", "비트"),
)
_DOLLAR = Instrument(
    symbol="USD/KRW",
    exchange="FX",
    name_en="US dollar in won",
    name_ko="원/달러 환율",
    currency="KRW",
    aliases=(
        *("USD", "KRW=X", "dollar", "US dollar", "dollar won", "won dollar", "exchange rate", "dollar exchange rate"),
        *("달러", "미국 달러", "환율", "달러 환율", "달러/원", "달러/원 환율", "원/달러"),
    ),
)

DEMO_LISTINGS = (
    _krx("005930", "Samsung Electronics", "삼성전자", "71600", "삼전"),
    _krx("000660", "SK hynix", "SK하이닉스", "186500", "hynix", "하이닉스", "하닉", "에스케이하이닉스"),
    _krx("035420", "NAVER", "네이버", "192800", "네카오"),
    _krx("035720", "Kakao", "카카오", "41250", "네카오"),
    _nasdaq("AAPL", "Apple", "애플", "228.40", "Apple Inc"),
    _nasdaq("MSFT", "Microsoft", "마이크로소프트", "421.90", "마소"),
    _nasdaq("NVDA", "NVIDIA", "엔비디아", "138.20", swing=150),
    _nasdaq("TSLA", "Tesla", "테슬라", "262.70", "테슬", swing=180),
    _nasdaq("GOOGL", "Alphabet", "알파벳", "176.30", "Google", "구글"),
    _nasdaq("AMZN", "Amazon", "아마존", "198.60"),
    Listing(_BITCOIN, Decimal("91200.00"), swing=220),
    Listing(_DOLLAR, Decimal("1392.00"), swing=25),
)
