"""Symbols of vendors: what each source calls an instrument, computed by rules and a few exceptions.

A symbol that the rules cannot give is None and never tried out: a wrong suffix may name a stale twin. `.KS` or `.KQ`
comes from the record. KIS symbols have its market code in front, as its requests want them: `J:005930`, `NAS:AAPL`.
"""

import re
from collections.abc import Mapping
from typing import Literal

from finclaw.finance.instrument import Instrument

Vendor = Literal[
    "yahoo", "naver", "kis", "toss", "finnhub", "alpaca", "sec", "upbit", "bithumb", "coinbase", "kraken", "frankfurter"
]

_INDICES: Mapping[str, Mapping[Vendor, str]] = {
    "KOSPI": {"yahoo": "^KS11", "naver": "KOSPI", "kis": "U:0001"},
    "KOSDAQ": {"yahoo": "^KQ11", "naver": "KOSDAQ", "kis": "U:1001"},
    "KOSPI200": {"yahoo": "^KS200", "naver": "KPI200", "kis": "U:2001"},
    "SPX": {"yahoo": "^GSPC", "naver": ".INX"},
    "IXIC": {"yahoo": "^IXIC", "naver": ".IXIC"},
    "NDX": {"yahoo": "^NDX", "naver": ".NDX"},
    "DJI": {"yahoo": "^DJI", "naver": ".DJI"},
    "RUT": {"yahoo": "^RUT"},
    "SOX": {"yahoo": "^SOX", "naver": ".SOX"},
    "VIX": {"yahoo": "^VIX", "naver": ".VIX"},
    "N225": {"yahoo": "^N225", "naver": ".N225"},
    "HSI": {"yahoo": "^HSI", "naver": ".HSI"},
}
"""KIS numbers its indices otherwise than KRX, where 1001 is KOSPI; these are the numbers of KIS."""

_KOREAN_SUFFIX = {"KOSPI": "KS", "KOSDAQ": "KQ"}
_KIS_MARKET = {"NASDAQ": "NAS", "NYSE": "NYS", "AMEX": "AMS"}
_KRAKEN_BASE = {"BTC": "XBT", "DOGE": "XDG"}

_KRX_CODE = re.compile(r"[0-9][0-9A-Z]{5}|Q[0-9]{6}")
_US_SYMBOL = re.compile(r"([A-Z]+)(?:\.([A-Z])|-P([A-Z]?)|-(WS|WT|R|U|UN|RI)([A-Z]?))?")
"""A root with a class (`BRK.B`), a preferred series (`BAC-PL`), or warrants, rights and units (`-WT`, `-RI`, `-UN`)."""


def is_krx_code(text: str) -> bool:
    """Whether this is the code of a Korean stock or fund. Letters are normal in it; an ETN has a Q and six digits."""
    return _KRX_CODE.fullmatch(text) is not None


def vendor_symbol(vendor: Vendor, instrument: Instrument) -> str | None:
    """What the vendor calls it; None for what it does not have, or has under a name we do not know."""
    match instrument.kind:
        case "index":
            return _INDICES.get(instrument.symbol, {}).get(vendor)
        case "rate":
            return _rate_symbol(vendor, *instrument.symbol.split("/"))
        case "coin":
            return _coin_symbol(vendor, *instrument.symbol.split("-"))
        case _ if instrument.exchange == "KRX":
            return _korean_symbol(vendor, instrument)
        case _:
            return _american_symbol(vendor, instrument)


def own_symbol(text: str) -> str | None:
    """Our symbol for what Alpaca and Finnhub call so; None for what no rule of ours has made."""
    symbol = re.sub(r"\.PR([A-Z]?)$", r"-P\1", text)
    if _US_SYMBOL.fullmatch(symbol) is None:
        return None
    return symbol


def _korean_symbol(vendor: Vendor, instrument: Instrument) -> str | None:
    code = instrument.symbol
    if not is_krx_code(code):
        return None
    if vendor == "kis":
        return f"J:{code}"
    if code.startswith("Q"):  # nobody has seen what the others call an ETN
        return None
    if vendor == "yahoo" and instrument.market in _KOREAN_SUFFIX:
        return f"{code}.{_KOREAN_SUFFIX[instrument.market]}"
    if vendor in {"naver", "toss"}:
        return code
    return None


def _american_symbol(vendor: Vendor, instrument: Instrument) -> str | None:
    parts = _US_SYMBOL.fullmatch(instrument.symbol)
    if parts is None:
        return None
    root, share_class, series, right, _ = parts.groups()
    if vendor in {"yahoo", "sec"}:
        return instrument.symbol.replace(".", "-")
    if series is not None and vendor in {"finnhub", "alpaca"}:
        return f"{root}.PR{series}"
    if series is not None or right is not None:
        return None
    return _common_symbol(vendor, root, share_class or "", instrument)


def _common_symbol(vendor: Vendor, root: str, share_class: str, instrument: Instrument) -> str | None:
    match vendor:
        case "naver":
            return _reuters_symbol(root, share_class, instrument.listed_on)
        case "kis" if instrument.listed_on in _KIS_MARKET:
            return f"{_KIS_MARKET[instrument.listed_on]}:{instrument.symbol.replace('.', '/')}"
        case "finnhub" | "alpaca" | "toss":
            return instrument.symbol
        case _:
            return None


def _reuters_symbol(root: str, share_class: str, listed_on: str) -> str:
    """Naver's form: `.O` on Nasdaq; elsewhere `.K` from four letters on and nothing below; a class in small letters."""
    suffix = ""
    if listed_on == "NASDAQ":
        suffix = ".O"
    elif len(root) > 3:
        suffix = ".K"
    return f"{root}{share_class.lower()}{suffix}"


def _rate_symbol(vendor: Vendor, base: str, quote: str) -> str | None:
    match vendor:
        case "yahoo" if base == "USD":
            return f"{quote}=X"
        case "yahoo":
            return f"{base}{quote}=X"
        case "naver" if quote == "KRW":
            return f"FX_{base}KRW"
        case "toss" if {base, quote} == {"USD", "KRW"}:
            return f"{base}/{quote}"
        case "frankfurter":
            return f"{base}/{quote}"
        case _:
            return None


def _coin_symbol(vendor: Vendor, coin: str, currency: str) -> str | None:
    match vendor:
        case "yahoo":
            return f"{coin}-{currency}"
        case "coinbase" if currency != "KRW":
            return f"{coin}-{currency}"
        case "kraken" if currency != "KRW":
            return f"{_KRAKEN_BASE.get(coin, coin)}{currency}"
        case "upbit" | "bithumb" if currency == "KRW":
            return f"KRW-{coin}"
        case _:
            return None
