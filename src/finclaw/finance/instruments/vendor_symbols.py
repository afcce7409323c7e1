"""Symbols of vendors, both ways: what each source calls an instrument, computed by rules and a few exceptions.

A symbol that the rules cannot give is None and never tried out: a wrong suffix may name a stale twin. `.KS` or `.KQ`
comes from the record. KIS symbols have its market code in front, as its requests want them: `J:005930`, `NAS:AAPL`.
"""

import re
from collections.abc import Callable, Mapping
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


def own_symbol(vendor: Vendor, text: str) -> str | None:
    """Our symbol for what a vendor calls so; None for what no rule of ours has made."""
    for symbol, names in _INDICES.items():
        if names.get(vendor) == text:
            return symbol
    return _READERS[vendor](text)


def _korean_symbol(vendor: Vendor, instrument: Instrument) -> str | None:
    code = instrument.symbol
    if not is_krx_code(code):
        return None
    if vendor == "kis":
        return f"J:{code}"
    if code.startswith("Q"):  # nobody has seen what the others call an ETN
        return None
    if vendor == "yahoo":
        suffix = _KOREAN_SUFFIX.get(instrument.market)
        return f"{code}.{suffix}" if suffix else None
    return code if vendor in {"naver", "toss"} else None


def _american_symbol(vendor: Vendor, instrument: Instrument) -> str | None:
    parts = _US_SYMBOL.fullmatch(instrument.symbol)
    if parts is None:
        return None
    root, share_class, series, right, _ = parts.groups()
    if vendor in {"yahoo", "sec"}:
        return instrument.symbol.replace(".", "-")
    if series is not None:
        return f"{root}.PR{series}" if vendor in {"finnhub", "alpaca"} else None
    if right is not None:
        return None
    return _common_symbol(vendor, root, share_class, instrument)


def _common_symbol(vendor: Vendor, root: str, share_class: str | None, instrument: Instrument) -> str | None:
    match vendor:
        case "naver":
            return _reuters_symbol(root, share_class, instrument.listed_on)
        case "kis":
            market = _KIS_MARKET.get(instrument.listed_on)
            return f"{market}:{instrument.symbol.replace('.', '/')}" if market else None
        case "finnhub" | "alpaca" | "toss":
            return instrument.symbol
        case _:
            return None


def _reuters_symbol(root: str, share_class: str | None, listed_on: str) -> str:
    """Naver's form: `.O` on Nasdaq; elsewhere `.K` from four letters on and nothing below; a class in small letters."""
    suffix = ".O" if listed_on == "NASDAQ" else ".K" if len(root) > 3 else ""
    return f"{root}{(share_class or '').lower()}{suffix}"


def _rate_symbol(vendor: Vendor, base: str, quote: str) -> str | None:
    match vendor:
        case "yahoo":
            return f"{quote}=X" if base == "USD" else f"{base}{quote}=X"
        case "naver":
            return f"FX_{base}KRW" if quote == "KRW" else None
        case "toss":
            return f"{base}/{quote}" if {base, quote} == {"USD", "KRW"} else None
        case "frankfurter":
            return f"{base}/{quote}"
        case _:
            return None


def _coin_symbol(vendor: Vendor, coin: str, currency: str) -> str | None:
    match vendor:
        case "yahoo" | "coinbase":
            return f"{coin}-{currency}" if vendor == "yahoo" or currency != "KRW" else None
        case "kraken":
            return f"{_KRAKEN_BASE.get(coin, coin)}{currency}" if currency != "KRW" else None
        case "upbit" | "bithumb":
            return f"KRW-{coin}" if currency == "KRW" else None
        case _:
            return None


def _read_yahoo(text: str) -> str | None:
    if match := re.fullmatch(r"([0-9][0-9A-Z]{5})\.K[SQ]", text):
        return match[1]
    if match := re.fullmatch(r"([A-Z]{3})?([A-Z]{3})=X", text):
        return f"{match[1] or 'USD'}/{match[2]}"
    if re.fullmatch(r"[A-Z0-9]+-(USD|KRW|EUR)", text):
        return text
    return _read_dashed(text)


def _read_dashed(text: str) -> str | None:
    """`BRK-B` is a class; a preferred share (`-P`, `-PL`), a unit (`-U`) and longer endings stay as they are."""
    symbol = re.sub(r"-([A-OQ-TV-Z])$", r".\1", text)
    return symbol if _US_SYMBOL.fullmatch(symbol) else None


def _read_naver(text: str) -> str | None:
    if match := re.fullmatch(r"FX_([A-Z]{3})KRW", text):
        return f"{match[1]}/KRW"
    if match := re.fullmatch(r"([A-Z]+)([a-z])?(\.[OK])?", text):
        return f"{match[1]}.{match[2].upper()}" if match[2] else match[1]
    return text if is_krx_code(text) else None


def _read_kis(text: str) -> str | None:
    market, _, code = text.partition(":")
    if market == "J":
        return code if is_krx_code(code) else None
    return _read_dotted(code.replace("/", ".")) if market in _KIS_MARKET.values() else None


def _read_dotted(text: str) -> str | None:
    symbol = re.sub(r"\.PR([A-Z]?)$", r"-P\1", text)
    return symbol if _US_SYMBOL.fullmatch(symbol) else None


def _read_toss(text: str) -> str | None:
    return text if is_krx_code(text) else text if "/" in text else _read_dotted(text)


def _read_rate(text: str) -> str | None:
    return text if re.fullmatch(r"[A-Z]{3}/[A-Z]{3}", text) else None


def _read_won_pair(text: str) -> str | None:
    currency, _, coin = text.partition("-")
    return f"{coin}-KRW" if currency == "KRW" and coin else None


def _read_dollar_pair(text: str) -> str | None:
    return text if re.fullmatch(r"[A-Z0-9]+-(USD|EUR|GBP)", text) else None


def _read_kraken(text: str) -> str | None:
    if not (match := re.fullmatch(r"([A-Z0-9]+)(USD|EUR|GBP)", text)):
        return None
    coins = {base: coin for coin, base in _KRAKEN_BASE.items()}
    return f"{coins.get(match[1], match[1])}-{match[2]}"


_READERS: Mapping[Vendor, Callable[[str], str | None]] = {
    "yahoo": _read_yahoo,
    "naver": _read_naver,
    "kis": _read_kis,
    "toss": _read_toss,
    "finnhub": _read_dotted,
    "alpaca": _read_dotted,
    "sec": _read_dashed,
    "upbit": _read_won_pair,
    "bithumb": _read_won_pair,
    "coinbase": _read_dollar_pair,
    "kraken": _read_kraken,
    "frankfurter": _read_rate,
}
