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
            symbols = _INDICES.get(instrument.symbol, {})
        case "rate":
            symbols = _rate_symbols(*instrument.symbol.split("/"))
        case "coin":
            symbols = _coin_symbols(*instrument.symbol.split("-"))
        case _ if instrument.exchange == "KRX":
            symbols = _korean_symbols(instrument)
        case _:
            symbols = _american_symbols(instrument)
    return symbols.get(vendor)


def own_symbol(text: str) -> str | None:
    """Our symbol for what Alpaca and Finnhub call so; None for what no rule of ours has made."""
    symbol = re.sub(r"\.PR([A-Z]?)$", r"-P\1", text)
    if _US_SYMBOL.fullmatch(symbol) is None:
        return None
    return symbol


def _korean_symbols(instrument: Instrument) -> Mapping[Vendor, str]:
    code = instrument.symbol
    if not is_krx_code(code):
        return {}
    symbols: dict[Vendor, str] = {"kis": f"J:{code}"}
    if not code.startswith("Q"):  # nobody has seen what the others call an ETN
        symbols |= {"naver": code, "toss": code}
        if instrument.market in _KOREAN_SUFFIX:
            symbols["yahoo"] = f"{code}.{_KOREAN_SUFFIX[instrument.market]}"
    return symbols


def _american_symbols(instrument: Instrument) -> Mapping[Vendor, str]:
    symbol = instrument.symbol
    parts = _US_SYMBOL.fullmatch(symbol)
    if parts is None:
        return {}
    root, share_class, series, right, _ = parts.groups()
    dashed = symbol.replace(".", "-")
    symbols: dict[Vendor, str] = {"yahoo": dashed, "sec": dashed}
    if series is not None:
        symbols |= {"finnhub": f"{root}.PR{series}", "alpaca": f"{root}.PR{series}"}
    elif right is None:
        symbols |= {"finnhub": symbol, "alpaca": symbol, "toss": symbol}
        symbols["naver"] = _reuters_symbol(root, share_class or "", instrument.listed_on)
        if instrument.listed_on in _KIS_MARKET:
            symbols["kis"] = f"{_KIS_MARKET[instrument.listed_on]}:{symbol.replace('.', '/')}"
    return symbols


def _reuters_symbol(root: str, share_class: str, listed_on: str) -> str:
    """Naver's form: `.O` on Nasdaq; elsewhere `.K` from four letters on and nothing below; a class in small letters."""
    suffix = ""
    if listed_on == "NASDAQ":
        suffix = ".O"
    elif len(root) > 3:
        suffix = ".K"
    return f"{root}{share_class.lower()}{suffix}"


def _rate_symbols(base: str, quote: str) -> Mapping[Vendor, str]:
    symbols: dict[Vendor, str] = {"yahoo": f"{base}{quote}=X".removeprefix("USD"), "frankfurter": f"{base}/{quote}"}
    if quote == "KRW":
        symbols["naver"] = f"FX_{base}KRW"
    if {base, quote} == {"USD", "KRW"}:
        symbols["toss"] = f"{base}/{quote}"
    return symbols


def _coin_symbols(coin: str, currency: str) -> Mapping[Vendor, str]:
    dashed = f"{coin}-{currency}"
    if currency == "KRW":
        return {"yahoo": dashed, "upbit": f"KRW-{coin}", "bithumb": f"KRW-{coin}"}
    return {"yahoo": dashed, "coinbase": dashed, "kraken": f"{_KRAKEN_BASE.get(coin, coin)}{currency}"}
