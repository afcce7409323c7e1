"""What each vendor calls an instrument. Rows 12 to 14 of the handbook's trap list are here."""

import pytest

from finclaw.finance.instrument import Instrument
from finclaw.finance.instruments.vendor_symbols import Vendor, is_krx_code, own_symbol, vendor_symbol
from finclaw.finance.venue import Kind


def _record(symbol: str, exchange: str, market: str = "", kind: Kind = "stock") -> Instrument:
    return Instrument(
        symbol=symbol, exchange=exchange, market=market, kind=kind, name_en=symbol, name_ko=symbol, currency="USD"
    )


SAMSUNG = _record("005930", "KRX", "KOSPI")
SAMSUNG_PREFERRED = _record("005935", "KRX", "KOSPI")
ECOPRO = _record("247540", "KRX", "KOSDAQ")
CJ_PREFERRED = _record("00104K", "KRX", "KOSPI")
NEW_CODE = _record("0126Z0", "KRX", "KOSPI")
ETN = _record("Q500061", "KRX", "KOSPI", "etf")
APPLE = _record("AAPL", "NASDAQ")
COKE = _record("KO", "NYSE")
BERKSHIRE = _record("BRK.B", "NYSE")
ALIBABA = _record("BABA", "NYSE")
SPY = _record("SPY", "NYSE", "AMEX", "etf")
SOXL = _record("SOXL", "NYSE", "AMEX", "etf")
BAC_PREFERRED = _record("BAC-PL", "NYSE")
KOSPI = _record("KOSPI", "KRX", kind="index")
KOSDAQ = _record("KOSDAQ", "KRX", kind="index")
SP500 = _record("SPX", "NYSE", kind="index")
WON = _record("USD/KRW", "FX", kind="rate")
EURO = _record("EUR/USD", "FX", kind="rate")
BITCOIN_WON = _record("BTC-KRW", "CRYPTO", kind="coin")
BITCOIN = _record("BTC-USD", "CRYPTO", kind="coin")

CASES: tuple[tuple[Instrument, Vendor, str], ...] = (
    (SAMSUNG, "yahoo", "005930.KS"),
    (SAMSUNG, "naver", "005930"),
    (SAMSUNG, "kis", "J:005930"),
    (SAMSUNG, "toss", "005930"),
    (SAMSUNG_PREFERRED, "yahoo", "005935.KS"),
    (ECOPRO, "yahoo", "247540.KQ"),
    (CJ_PREFERRED, "yahoo", "00104K.KS"),
    (CJ_PREFERRED, "naver", "00104K"),
    (CJ_PREFERRED, "kis", "J:00104K"),
    (NEW_CODE, "yahoo", "0126Z0.KS"),
    (NEW_CODE, "naver", "0126Z0"),
    (NEW_CODE, "kis", "J:0126Z0"),
    (NEW_CODE, "toss", "0126Z0"),
    (ETN, "kis", "J:Q500061"),
    (APPLE, "yahoo", "AAPL"),
    (APPLE, "naver", "AAPL.O"),
    (APPLE, "kis", "NAS:AAPL"),
    (APPLE, "sec", "AAPL"),
    (COKE, "naver", "KO"),
    (COKE, "kis", "NYS:KO"),
    (ALIBABA, "naver", "BABA.K"),
    (SPY, "naver", "SPY"),
    (SPY, "kis", "AMS:SPY"),
    (SOXL, "naver", "SOXL.K"),
    (BERKSHIRE, "yahoo", "BRK-B"),
    (BERKSHIRE, "naver", "BRKb"),
    (BERKSHIRE, "kis", "NYS:BRK/B"),
    (BERKSHIRE, "toss", "BRK.B"),
    (BERKSHIRE, "finnhub", "BRK.B"),
    (BERKSHIRE, "alpaca", "BRK.B"),
    (BERKSHIRE, "sec", "BRK-B"),
    (BAC_PREFERRED, "yahoo", "BAC-PL"),
    (BAC_PREFERRED, "alpaca", "BAC.PRL"),
    (KOSPI, "yahoo", "^KS11"),
    (KOSPI, "kis", "U:0001"),
    (KOSDAQ, "yahoo", "^KQ11"),
    (KOSDAQ, "kis", "U:1001"),
    (SP500, "yahoo", "^GSPC"),
    (SP500, "naver", ".INX"),
    (WON, "yahoo", "KRW=X"),
    (WON, "naver", "FX_USDKRW"),
    (WON, "toss", "USD/KRW"),
    (EURO, "yahoo", "EURUSD=X"),
    (EURO, "frankfurter", "EUR/USD"),
    (BITCOIN_WON, "upbit", "KRW-BTC"),
    (BITCOIN_WON, "bithumb", "KRW-BTC"),
    (BITCOIN, "coinbase", "BTC-USD"),
    (BITCOIN, "kraken", "XBTUSD"),
    (BITCOIN, "yahoo", "BTC-USD"),
)


@pytest.mark.parametrize(("instrument", "vendor", "theirs"), CASES)
def test_vendor_symbol_follows_the_rules_of_the_vendor(instrument: Instrument, vendor: Vendor, theirs: str) -> None:
    assert vendor_symbol(vendor, instrument) == theirs
    if vendor in ("alpaca", "finnhub"):
        assert own_symbol(theirs) == instrument.symbol


def test_what_is_not_known_is_not_tried_out() -> None:
    # A Korean stock without its market would be .KS or .KQ by chance; the dollar price of a coin is not at Upbit.
    assert vendor_symbol("yahoo", _record("005930", "KRX")) is None
    assert vendor_symbol("yahoo", ETN) is None
    assert vendor_symbol("upbit", BITCOIN) is None
    assert vendor_symbol("coinbase", BITCOIN_WON) is None
    assert vendor_symbol("sec", SAMSUNG) is None
    assert vendor_symbol("naver", EURO) is None


def test_korean_codes_have_letters() -> None:
    assert all(map(is_krx_code, ("005930", "00104K", "0126Z0", "28513K", "Q500061")))
    assert not any(map(is_krx_code, ("5930", "AAPL", "A005930", "Q50006", "00593", "00104k")))


def test_an_id_survives_a_move_between_exchanges() -> None:
    assert _record("PLTR", "NYSE").id == _record("PLTR", "NASDAQ").id == "US:PLTR"
    assert SAMSUNG.id == "KRX:005930"
    assert (BITCOIN.bare_symbol, BERKSHIRE.bare_symbol) == ("BTC", "BRK.B")
