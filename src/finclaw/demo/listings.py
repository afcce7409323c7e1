"""The instruments of the demo market: real names, made-up prices."""

from decimal import Decimal

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.venue import Kind


class Listing(Struct, frozen=True):
    """`base` is the price it moves around; `swing` is how lively it is, in percent of a calm share."""

    instrument: Instrument
    base: Decimal
    swing: int = 100
    volume: int = 0
    """Pieces on an ordinary day; none where nothing is counted, as for a rate or an index."""


def _krx(
    symbol: str, names: str, base: str, volume: int, aliases: str = "", swing: int = 100, kind: Kind = "stock"
) -> Listing:
    known_as = f"{symbol}.KS, {aliases}" if symbol.isdigit() else aliases
    return _listing("KRX", "KRW", symbol, names, base, volume, aliases=known_as, swing=swing, kind=kind)


def _us(
    exchange: str,
    symbol: str,
    names: str,
    base: str,
    volume: int,
    aliases: str = "",
    swing: int = 100,
    kind: Kind = "stock",
) -> Listing:
    return _listing(exchange, "USD", symbol, names, base, volume, aliases=aliases, swing=swing, kind=kind)


def _coin(symbol: str, names: str, base: str, volume: int, aliases: str, swing: int = 180) -> Listing:
    return _listing(
        "CRYPTO", "USD", f"{symbol}-USD", names, base, volume, aliases=f"{symbol}, {aliases}", swing=swing, kind="coin"
    )


def _rate(symbol: str, names: str, base: str, aliases: str, swing: int = 25) -> Listing:
    return _listing("FX", symbol[-3:], symbol, names, base, 0, aliases=aliases, swing=swing, kind="rate")


def _listing(  # noqa: PLR0913 - one row of the tables below
    exchange: str,
    currency: str,
    symbol: str,
    names: str,
    base: str,
    volume: int,
    *,
    aliases: str,
    swing: int,
    kind: Kind,
) -> Listing:
    name_en, _, name_ko = names.partition(" | ")
    instrument = Instrument(
        symbol=symbol,
        exchange=exchange,
        name_en=name_en,
        name_ko=name_ko or name_en,
        currency=currency,
        aliases=tuple(alias.strip() for alias in aliases.split(",") if alias.strip()),
        kind=kind,
        market="KOSPI" if exchange == "KRX" and kind != "index" else "",
    )
    return Listing(instrument, Decimal(base), swing, volume)


_KOREA = (
    _krx("005930", "Samsung Electronics | 삼성전자", "71600", 14_000_000, "삼전, Samsung, 삼성"),
    _krx(
        "005935",
        "Samsung Electronics preferred | 삼성전자우",
        "59300",
        1_900_000,
        "삼전우, 삼성전자 우선주, 삼전 우선주",
    ),
    _krx("000660", "SK hynix | SK하이닉스", "186500", 3_600_000, "hynix, 하이닉스, 하닉, 에스케이하이닉스", 130),
    _krx("035420", "NAVER | 네이버", "192800", 700_000, "네카오"),
    _krx("035720", "Kakao | 카카오", "41250", 1_500_000, "네카오"),
    _krx("323410", "KakaoBank | 카카오뱅크", "22300", 900_000, "Kakao Bank, 카뱅"),
    _krx("005380", "Hyundai Motor | 현대차", "214500", 600_000, "Hyundai, 현대, 현대자동차, 현차"),
    _krx("012330", "Hyundai Mobis | 현대모비스", "242000", 200_000, "Hyundai, 현대, Mobis, 모비스"),
    _krx("000270", "Kia | 기아", "98700", 1_000_000, "기아차, 기아자동차, Kia Motors"),
    _krx(
        "373220", "LG Energy Solution | LG에너지솔루션", "372500", 250_000, "LG, 엘지, 엘지에너지솔루션, 엔솔, 엘지엔솔"
    ),
    _krx("051910", "LG Chem | LG화학", "284000", 260_000, "LG, 엘지, 엘지화학"),
    _krx("066570", "LG Electronics | LG전자", "92300", 500_000, "LG, 엘지, 엘지전자"),
    _krx("207940", "Samsung Biologics | 삼성바이오로직스", "968000", 60_000, "Samsung, 삼성, 삼바"),
    _krx("006400", "Samsung SDI | 삼성SDI", "256500", 450_000, "Samsung, 삼성, 삼성에스디아이"),
    _krx("068270", "Celltrion | 셀트리온", "182400", 500_000),
    _krx("005490", "POSCO Holdings | POSCO홀딩스", "286000", 300_000, "POSCO, 포스코, 포스코홀딩스"),
    _krx("105560", "KB Financial Group | KB금융", "88900", 900_000, "KB, KB Financial, 케이비금융"),
    _krx("069500", "KODEX 200", "33250", 5_000_000, "코덱스 200, 코덱스200", 80, "etf"),
    _krx("KOSPI", "KOSPI index | 코스피 지수", "2560.00", 0, "코스피, 코스피지수, 종합주가지수", 70, "index"),
)

_AMERICA = (
    _us("NASDAQ", "AAPL", "Apple | 애플", "228.40", 48_000_000, "Apple Inc"),
    _us("NASDAQ", "MSFT", "Microsoft | 마이크로소프트", "421.90", 20_000_000, "마소"),
    _us("NASDAQ", "NVDA", "NVIDIA | 엔비디아", "138.20", 210_000_000, "", 150),
    _us("NASDAQ", "TSLA", "Tesla | 테슬라", "262.70", 90_000_000, "테슬", 180),
    _us("NASDAQ", "GOOGL", "Alphabet | 알파벳", "176.30", 24_000_000, "Google, 구글"),
    _us("NASDAQ", "AMZN", "Amazon | 아마존", "198.60", 38_000_000),
    _us("NASDAQ", "META", "Meta Platforms | 메타", "574.50", 13_000_000, "Meta, Facebook, 메타 플랫폼스, 페이스북"),
    _us("NASDAQ", "AMD", "AMD", "141.30", 40_000_000, "Advanced Micro Devices, 에이엠디", 140),
    _us(
        "NYSE",
        "BRK.B",
        "Berkshire Hathaway | 버크셔 해서웨이",
        "468.20",
        3_500_000,
        "BRK-B, BRK B, Berkshire, 버크셔",
        70,
    ),
    _us("NYSE", "JPM", "JPMorgan Chase | JP모건", "243.10", 9_000_000, "JPMorgan, JP Morgan, 제이피모건"),
    _us("NYSE", "BAC", "Bank of America | 뱅크오브아메리카", "45.80", 35_000_000, "BofA, 뱅크 오브 아메리카"),
    _us("NYSE", "KO", "Coca-Cola | 코카콜라", "63.40", 15_000_000, "Coke, The Coca-Cola Company", 60),
    _us(
        "NYSE",
        "JNJ",
        "Johnson & Johnson | 존슨앤드존슨",
        "154.60",
        8_000_000,
        "J&J, Johnson and Johnson, 존슨앤존슨",
        60,
    ),
    _us("NYSE", "DIS", "Walt Disney | 월트 디즈니", "111.20", 10_000_000, "Disney, 디즈니"),
    _us("NYSE", "SPY", "SPDR S&P 500 ETF", "592.30", 52_000_000, "S&P 500 ETF, 에스피와이", 70, "etf"),
    _us("NASDAQ", "QQQ", "Invesco QQQ", "508.70", 34_000_000, "QQQ ETF, 나스닥 100 ETF", 90, "etf"),
    _us(
        "NYSE",
        "SPX",
        "S&P 500 index | S&P 500 지수",
        "5930.00",
        0,
        "S&P 500, S&P, SP500, 에스앤피 500, 에스앤피",
        70,
        "index",
    ),
)

_COINS = (
    _coin("BTC", "Bitcoin | 비트코인", "91200.00", 28_000, "XBT, 비트"),
    _coin("ETH", "Ethereum | 이더리움", "3120.00", 310_000, "Ether, 이더, 이더리움 코인"),
    _coin("SOL", "Solana | 솔라나", "214.00", 4_200_000, "솔라나 코인", 200),
    _coin("XRP", "XRP | 리플", "1.1200", 900_000_000, "Ripple, 엑스알피", 200),
)

_RATES = (
    _rate(
        "USD/KRW",
        "US dollar in won | 원/달러 환율",
        "1392.00",
        "USD, KRW=X, dollar, US dollar, dollar won, won dollar, exchange rate, dollar exchange rate, won, "
        "달러, 미국 달러, 환율, 달러 환율, 원달러 환율, 달러원 환율, 달러/원, 달러/원 환율, 원/달러, 미국 환율",
    ),
    _rate(
        "EUR/USD",
        "euro in US dollars | 유로/달러 환율",
        "1.0560",
        "EUR, euro, euro dollar, euro exchange rate, 유로, 유로화, 유로 환율, 유로 달러",
    ),
    _rate(
        "USD/JPY",
        "US dollar in yen | 달러/엔 환율",
        "154.30",
        "JPY, yen, dollar yen, yen exchange rate, 엔, 엔화, 엔 환율, 엔화 환율, 엔달러 환율",
    ),
    _rate(
        "GBP/USD",
        "British pound in US dollars | 파운드/달러 환율",
        "1.2680",
        "GBP, pound, sterling, pound exchange rate, 파운드, 파운드화, 파운드 환율",
    ),
)

DEMO_LISTINGS = (*_KOREA, *_AMERICA, *_COINS, *_RATES)
