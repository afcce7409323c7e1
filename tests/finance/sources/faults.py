"""What goes wrong at vendors, as functions of a good answer."""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from tests.finance.sources.vendors import Fault, Reply

from finclaw.errors import ToolError

# fmt: off
_PRICES: Final = frozenset({
    "closePrice", "compareToPreviousClosePrice", "openPrice", "highPrice", "lowPrice", "closePriceRaw", "fluctuations",
    "compareToPreviousClosePriceRaw", "overPrice", "currentPrice", "regularMarketPrice", "chartPreviousClose", "open",
    "high", "low", "close", "adjclose", "trade_price", "opening_price", "high_price", "low_price",
    "prev_closing_price", "change_price", "signed_change_price", "price", "bid", "ask", "a", "b", "c", "p", "l", "h",
    "o", "rate", "lastPrice", "pc", "d", "stck_prpr", "stck_sdpr", "prdy_vrss", "stck_hgpr", "stck_lwpr", "stck_oprc",
    "stck_clpr",
})
# fmt: on
_LAST: Final = frozenset(
    {"closePrice", "closePriceRaw", "regularMarketPrice", "trade_price", "price", "c", "rate", "lastPrice", "stck_prpr"}
)
_WON: Final = 1_400
_XML_RATE: Final = re.compile("rate='([^']*)'")
_XML_DAY: Final = re.compile("time='([^']*)'")


def _each_leaf(value: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    """The same tree with every leaf changed; a leaf in a list has the key of its list, or its place in a candle."""
    if isinstance(value, dict):
        return {name: _each_leaf(each, change, name) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        value = cast("list[Any]", value)
        is_candle = len(value) >= 6 and not isinstance(value[0], dict | list)
        names = [("open" if 1 <= place <= 4 else "") if is_candle else key for place in range(len(value))]
        return [_each_leaf(each, change, name) for each, name in zip(value, names, strict=True)]
    return change(key, value)


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) or value is None else float(str(value).replace(",", ""))
    except ValueError:
        return None


def _scale(factor: float, keys: frozenset[str] = _PRICES) -> Fault:
    def change(key: str, value: Any) -> Any:
        number = _number(value) if key in keys else None
        if number is None:
            return value
        scaled = round(number * factor, 6)
        return scaled if isinstance(value, int | float) else f"{scaled:.2f}"

    return _changed(change)


def _changed(change: Callable[[str, Any], Any]) -> Fault:
    def fault(vendor: str, reply: Reply) -> Reply:
        if vendor == "ecb":
            text = _XML_RATE.sub(lambda rate: f"rate='{change('rate', rate[1])}'", reply.body.decode())
            return replace(reply, body=_XML_DAY.sub(lambda day: f"time='{change('time', day[1])}'", text).encode())
        return replace(reply, body=json.dumps(_each_leaf(json.loads(reply.body), change)).encode())

    return fault


def _text_number(key: str, value: Any) -> Any:
    return "NaN" if key in _PRICES and _number(value) is not None else value


def _literal_nan(key: str, value: Any) -> Any:
    return float("nan") if key in _PRICES and _number(value) is not None else value


def _ahead(key: str, value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("2026-11-13", "2026-11-16")):
        return "2026-11-19" + value[10:]
    if isinstance(value, int) and 1_790_000_000 < value < 1_800_000_000:
        return value + 3 * 86_400
    if isinstance(value, int) and 1_790_000_000_000 < value < 1_800_000_000_000:
        return value + 3 * 86_400_000
    return value


def _wrong_currency(vendor: str, reply: Reply) -> Reply:
    """Another code where the vendor says one; else a won price in dollars, or a dollar price in won."""
    text = reply.body.decode()
    if '"currency": "' in text or '"currencyType"' in text:
        other = text.replace('"currency": "KRW"', '"currency": "JPY"').replace('"currency": "USD"', '"currency": "GBp"')
        return replace(reply, body=other.replace('"code": "USD"', '"code": "EUR"').encode())
    return _scale(_WON if vendor in ("coinbase", "kraken", "ecb", "finnhub", "alpaca") else 1 / _WON)(vendor, reply)


def _renamed(vendor: str, reply: Reply) -> Reply:
    body = reply.body
    for key in _PRICES | {"datas", "Cube currency"}:
        body = body.replace(f'"{key}":'.encode(), f'"{key}New":'.encode())
    return replace(reply, body=body.replace(b"Cube currency", b"Cube code"))


def _gives(body: bytes, status: int = 200, **headers: str) -> Fault:
    named = {"content-type": "application/json"} | {name.replace("_", "-"): each for name, each in headers.items()}
    return lambda _vendor, _reply: Reply(body, status, named)


def _breaks_off(_vendor: str, _reply: Reply) -> Reply:
    raise ToolError("the page broke off before its end; try again, or look for another source")


def truncate_gzip(_vendor: str, reply: Reply) -> Reply:
    packed = gzip.compress(reply.body)
    return replace(reply, body=packed[: len(packed) // 2], headers=reply.headers | {"content-encoding": "gzip"})


_PAGE: Final = b"<!doctype html><html><body>Service is temporarily unavailable 100,500</body></html>"

FAULTS: Final[Mapping[str, Fault]] = {
    "html": _gives(_PAGE, content_type="text/html"),
    "html called json": _gives(_PAGE),
    "error note": _gives(b'{"Information": "You have reached your limit.", "error": {"name": "400", "message": "no"}}'),
    "kraken error": _gives(b'{"error": ["EGeneral:Too many requests"]}'),
    "plain words": _gives(b"Too Many Requests", content_type="text/plain"),
    "zeros": _scale(0),
    "NaN": _changed(_literal_nan),
    "NaN as text": _changed(_text_number),
    "429": _gives(b"Too Many Requests", 429, content_type="text/plain"),
    "429 with Retry-After": _gives(b"{}", 429, retry_after="120"),
    "418": _gives(b"{}", 418),
    "403": _gives(b"{}", 403),
    "500": _gives(b"oops", 500, content_type="text/plain"),
    "breaks off": _breaks_off,
    "renamed column": _renamed,
    "empty object": _gives(b"{}"),
    "empty list": _gives(b"[]"),
    "nothing": _gives(b""),
    "nulls": _changed(lambda key, value: None if key in _PRICES else value),
    "future": _changed(_ahead),
    "wrong currency": _wrong_currency,
    "times 100": _scale(100),
    "last price times 100": _scale(100, _LAST),
}
