"""The vendors on this machine: they answer from the fixtures, or as broken as a test wants them.

`Vendors.answer` is the vendors themselves; `VendorFetcher` asks them without a socket, `serving` puts them behind one.
"""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from aiohttp import web

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.live_market import open_access
from finclaw.finance.market_data.chain import ChainedMarketData
from finclaw.finance.market_data.quotes import LastPrices
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.extension import Database
from finclaw.kernel.fetch import Fetcher, FetchReply, FetchRequest
from finclaw.kernel.port import Clock

NOW: Final = datetime(2026, 11, 16, 5, 0, tzinfo=UTC)
"""Monday, 14:00 in Seoul: KRX trades, New York closed on Friday, currencies and coins trade."""
_NOON, _DAY_BEFORE = b"Mon, 16 Nov 2026 1", b"Sun, 15 Nov 2026 1"
FIXTURES: Final = Path(__file__).parent / "fixtures"


def open_market_data(
    settings: MarketDataSettings,
    fetcher: Fetcher,
    database: Database,
    clock: Clock,
    calendar: Calendar,
    find: Callable[[str], Instrument | None],
) -> ChainedMarketData:
    """`find` gives the instrument of an exact symbol of our records."""
    access = open_access(settings, fetcher, database, clock, calendar)
    return ChainedMarketData(access, LastPrices(database), find)


@dataclass(frozen=True)
class Reply:
    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


Fault = Callable[[str, Reply], Reply]
"""What becomes of a vendor's good answer. Raises ToolError where no answer comes through."""


def load_fixture(name: str) -> Any:
    fixture = json.loads((FIXTURES / f"{name}.json").read_text())
    assert fixture["about"].startswith("shape=documented, values=synthetic")
    return fixture["body"]


def lengthen_history(body: Any, sessions: int) -> Any:
    """Yahoo's bars with so many weekdays before them, each at the price of the first one."""
    result = body["chart"]["result"][0]
    first = result["timestamp"][0]
    days = [first - number * 86_400 for number in range(1, 2 * sessions)]
    earlier = [each for each in days if datetime.fromtimestamp(each, UTC).weekday() < 5][:sessions][::-1]
    result["timestamp"] = earlier + result["timestamp"]
    for series in (*result["indicators"]["quote"], *result["indicators"].get("adjclose", ())):
        for name, values in series.items():
            series[name] = [values[0]] * len(earlier) + values
    return body


@dataclass
class Vendors:
    faults: dict[str, Fault] = field(default_factory=dict[str, Fault])
    """By the vendor's name in the settings."""
    changes: dict[str, Any] = field(default_factory=dict[str, Any])
    """Bodies that take a fixture's place, by its name."""
    asked: list[str] = field(default_factory=list[str])
    """Paths with their queries, in order."""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def count(self, vendor: str) -> int:
        return sum(path.startswith(f"/{vendor}/") for path in self.asked)

    def answer(self, url: str, headers: dict[str, str]) -> Reply:
        parts = urlsplit(url)
        self.asked.append(parts.path + (f"?{parts.query}" if parts.query else ""))
        self.headers.append({name.lower(): value for name, value in headers.items()})
        vendor, _, path = unquote(parts.path).removeprefix("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        reply = self._find_document(vendor, path) or self._answer(vendor, path.partition("/")[2], query)
        fault = self.faults.get(vendor)
        return fault(vendor, reply) if fault else reply

    def _find_document(self, vendor: str, path: str) -> Reply | None:
        """Of the vendors in `documents`. Their headlines are of noon, ahead of `NOW`: here of the day before."""
        from tests.finance.sources.documents import USUAL

        body = USUAL.get(f"{vendor}/{path}")
        kind = "application/json" if body is not None and body[:1] in (b"{", b"[") else "text/xml"
        headers = {"content-type": kind}
        return None if body is None else Reply(body.replace(_NOON, _DAY_BEFORE), headers=headers)

    def _answer(self, vendor: str, path: str, query: dict[str, str]) -> Reply:
        if vendor == "ecb":
            return Reply((FIXTURES / "ecb_daily.xml").read_bytes(), headers={"content-type": "text/xml"})
        name = _fixture_name(vendor, path)
        if name not in self.changes and not (FIXTURES / f"{name}.json").exists():
            return _missing(vendor)
        body = self.changes[name] if name in self.changes else load_fixture(name)
        return Reply(json.dumps(_select(vendor, path, query, body), ensure_ascii=False).encode())


def _fixture_name(vendor: str, path: str) -> str:
    last = path.rpartition("/")[2]
    match vendor:
        case "naver" if "realtime" in path:
            return "naver_indices" if "/index/" in path else "naver_stocks"
        case "naver" if path.startswith("chart/"):
            return f"naver_{last}s"
        case "naver":
            code = path.split("/")[2] if path.startswith("marketindex") else path.split("/")[1]
            return f"naver_{code.lstrip('.')}"
        case "yahoo":
            return f"yahoo_{last.replace('^', '').replace('=X', 'X')}"
        case _:
            kind = {"rates": "rates", "ticker": "ticker", "Ticker": "ticker"}.get(last, "days")
            return f"{vendor}_{kind}"


def _select(vendor: str, path: str, query: dict[str, str], body: Any) -> Any:
    """The entries that were asked for; what the vendor does not know is silently missing."""
    if vendor == "naver" and "realtime" in path:
        codes = path.rpartition("/")[2].split(",")
        known = {each["itemCode"]: each for each in body["datas"]}
        made_up = {code: known["000660"] | {"itemCode": code} for code in codes if code.startswith("9")}
        return body | {"datas": [(known | made_up)[code] for code in codes if code in known | made_up]}
    if vendor in ("upbit", "bithumb") and path.endswith("ticker"):
        return [each for each in body if each["market"] in query["markets"].split(",")]
    if vendor == "frankfurter":
        assert query["providers"] == "ECB"
    return body


def _missing(vendor: str) -> Reply:
    if vendor == "naver":
        return Reply(b'{"code":"StockConflict"}', 409)
    error = {"chart": {"result": None, "error": {"code": "Not Found", "description": "No data found"}}}
    return Reply(json.dumps(error).encode(), 404)


@dataclass
class VendorFetcher:
    """The fetch port straight to the vendors."""

    vendors: Vendors

    async def fetch(self, request: FetchRequest) -> FetchReply:
        reply = self.vendors.answer(request.url, dict(request.headers))
        return FetchReply(
            status=reply.status,
            url=request.url,
            host="vendors",
            media_type=reply.headers.get("content-type", ""),
            charset="utf-8",
            body=reply.body,
            truncated=False,
            headers=reply.headers,
        )


def settings_for(base: str, **others: Any) -> MarketDataSettings:
    """Every address of every source under one base."""
    urls = {f"{each.id}.{api}": f"{base}/{each.id}/{api}" for each in SOURCES.values() for api in each.urls}
    return MarketDataSettings(urls=urls, private=(urlsplit(base).netloc,), **others)


@asynccontextmanager
async def serving(vendors: Vendors) -> AsyncGenerator[str]:
    """The vendors behind a socket of this machine; gives the base of their addresses."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            reply = vendors.answer(str(request.rel_url), dict(request.headers))
        except ToolError:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return web.Response(status=reply.status, body=reply.body, headers=reply.headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
