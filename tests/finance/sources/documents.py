"""Vendors of news, filings, dates and US prices on this machine, with answers in their documented shapes.

shape=documented, values=synthetic: every company's figures and every headline here are made up.
"""

import io
import json
import zipfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.finance.sources.vendors import open_market_data

from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instrument import Instrument
from finclaw.finance.live_market import MIGRATIONS
from finclaw.finance.market_data.chain import ChainedMarketData
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.kernel.fetch import FetchReply, FetchRequest
from finclaw.redaction import Secret
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.testing import FakeClock

NOW: Final = datetime(2026, 11, 16, 17, 0, tzinfo=UTC)
"""Monday, noon in New York: the session runs there, and has ended in Seoul."""

APPLE = Instrument(symbol="AAPL", exchange="NASDAQ", name_en="Apple", name_ko="애플", currency="USD", cik=320193)
BERKSHIRE = Instrument(symbol="BRK.B", exchange="NYSE", name_en="Berkshire", name_ko="버크셔", currency="USD")
SAMSUNG = Instrument(
    symbol="005930", exchange="KRX", name_en="Samsung Electronics", name_ko="삼성전자", currency="KRW", market="KOSPI"
)
INSTRUMENTS: Final = {each.symbol: each for each in (APPLE, BERKSHIRE, SAMSUNG)}

SUBMISSIONS: Final[dict[str, Any]] = {
    "cik": "0000320193",
    "name": "Apple Inc.",
    "sicDescription": "Electronic Computers",
    "fiscalYearEnd": "0928",
    "filings": {
        "recent": {
            "accessionNumber": ["0000320193-26-000101", "0000320193-26-000099"],
            "filingDate": ["2026-10-30", "2026-11-02"],
            "form": ["10-K", "8-K"],
            "primaryDocument": ["aapl-20260926.htm", "a8k.htm"],
            "primaryDocDescription": ["10-K", ""],
        },
        "files": [],
    },
}
FACTS: Final[dict[str, Any]] = {
    "cik": 320193,
    "entityName": "Apple Inc.",
    "facts": {
        "us-gaap": {
            "Revenues": {
                "units": {
                    "USD": [
                        # The same year in two filings, a quarter, a year to date, and an older year under a newer `fy`.
                        {"start": "2025-09-28", "end": "2026-09-26", "val": 400, "filed": "2026-10-30", "form": "10-K"},
                        {
                            "start": "2025-09-28",
                            "end": "2026-09-26",
                            "val": 410,
                            "filed": "2026-11-10",
                            "form": "10-K/A",
                        },
                        {"start": "2026-06-28", "end": "2026-09-26", "val": 90, "filed": "2026-10-30", "form": "10-K"},
                        {"start": "2025-09-28", "end": "2026-06-27", "val": 310, "filed": "2026-07-30", "form": "10-Q"},
                        {
                            "start": "2024-09-29",
                            "end": "2025-09-27",
                            "val": 380,
                            "filed": "2026-11-10",
                            "form": "10-K/A",
                        },
                    ]
                }
            },
            "EarningsPerShareDiluted": {
                "units": {
                    "USD/shares": [
                        {"start": "2025-09-28", "end": "2026-09-26", "val": 6.15, "filed": "2026-10-30", "form": "10-K"}
                    ]
                }
            },
        }
    },
}
EARNINGS: Final[dict[str, Any]] = {
    "data": {
        "asOf": "Tue, Nov 17, 2026",
        "rows": [
            {"symbol": "AAPL", "name": "Apple Inc.", "time": "time-after-hours", "epsForecast": "$1.20"},
            {"symbol": "LOSS", "name": "Loss Corp", "time": "time-pre-market", "epsForecast": "($0.15)"},
            {"symbol": "NONE", "name": "None Corp", "time": "time-not-supplied", "epsForecast": ""},
        ],
    },
    "status": {"rCode": 200},
}
GOOGLE: Final = """<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"><channel><title>q</title>
<item><title>Apple rises &amp;amp; falls - Example Times</title><link>https://news.google.com/rss/articles/1?oc=5</link>
<pubDate>Mon, 16 Nov 2026 12:00:00 GMT</pubDate><source url="https://times.example">Example Times</source></item>
<item><title>Apple rises &amp;amp; falls - Example Times</title><link>https://news.google.com/rss/articles/2</link>
<pubDate>Mon, 16 Nov 2026 11:00:00 GMT</pubDate><source url="https://times.example">Example Times</source></item>
<item><title>Old news - Old Paper</title><link>https://news.google.com/rss/articles/3</link>
<pubDate>Mon, 02 Nov 2026 12:00:00 GMT</pubDate><source url="https://old.example">Old Paper</source></item>
<item><title>From tomorrow - X</title><link>https://news.google.com/rss/articles/4</link>
<pubDate>Tue, 17 Nov 2026 12:00:00 GMT</pubDate><source url="https://x.example">X</source></item>
<item><title>No web address</title><link>javascript:alert(1)</link>
<pubDate>Mon, 16 Nov 2026 12:00:00 GMT</pubDate></item>
<item><title>No zone</title><link>https://x.example/5</link><pubDate>2026-11-16 12:00:00</pubDate></item>
</channel></rss>"""
ATOM: Final = """<?xml version="1.0" encoding="ISO-8859-1" ?><feed xmlns="http://www.w3.org/2005/Atom">
<title>Apple Inc.</title><entry><title>8-K  - Current report</title>
<link rel="alternate" type="text/html" href="https://www.sec.gov/Archives/edgar/data/320193/1-index.htm"/>
<updated>2026-11-13T16:30:05-05:00</updated></entry></feed>"""
DART: Final = """<?xml version="1.0" encoding="UTF-8"?><rss xmlns:dc="http://purl.org/dc/elements/1.1/" version="2.0">
<channel><title>DART</title>
<item><title>(유가증권)삼성전자 - 분기보고서 (2026.09)</title><link>https://dart.fss.or.kr/api/link.jsp?rcpNo=20261116000123</link>
<pubDate>Mon, 16 Nov 2026 05:00:00 GMT</pubDate><dc:creator>삼성전자</dc:creator></item>
<item><title>(기타)삼성전자서비스 - 감사보고서</title><link>https://dart.fss.or.kr/api/link.jsp?rcpNo=20261116000124</link>
<pubDate>Mon, 16 Nov 2026 05:10:00 GMT</pubDate><dc:creator>삼성전자서비스</dc:creator></item>
</channel></rss>"""
OPENDART_LIST: Final[dict[str, Any]] = {
    "status": "000",
    "message": "정상",
    "page_no": 1,
    "list": [
        {
            "corp_code": "00126380",
            "corp_name": "삼성전자",
            "stock_code": "005930",
            "report_nm": "[기재정정]분기보고서 (2026.09)",
            "rcept_no": "20261113000123",
            "rcept_dt": "20261113",
        }
    ],
}
PRESS: Final = """<rss version="2.0"><channel><item><title>{0} decides</title><link>https://bank.example/{0}</link>
<pubDate>Fri, 13 Nov 2026 10:00:00 GMT</pubDate></item></channel></rss>"""
ALPACA_BARS: Final[dict[str, Any]] = {
    "bars": {
        "AAPL": [
            {"t": "2026-11-12T05:00:00Z", "o": 248.0, "h": 251.0, "l": 247.0, "c": 250.0, "v": 50_000_000},
            {"t": "2026-11-13T05:00:00Z", "o": 250.0, "h": 252.0, "l": 249.0, "c": 251.3, "v": 48_000_000},
            {"t": "2026-11-16T05:00:00Z", "o": 251.0, "h": 252.5, "l": 250.5, "c": 252.0, "v": 9_000_000},
        ]
    },
    "next_page_token": None,
}
ALPACA_SNAPSHOTS: Final[dict[str, Any]] = {
    "AAPL": {
        "latestTrade": {"t": "2026-11-16T16:59:30.123456789Z", "x": "V", "p": 252.1, "s": 100},
        "dailyBar": {"t": "2026-11-16T05:00:00Z", "o": 251, "h": 252, "l": 251, "c": 252.1, "v": 90_000},
        "prevDailyBar": {"t": "2026-11-13T05:00:00Z", "o": 250, "h": 252, "l": 249, "c": 251.1, "v": 900_000},
    }
}
ALPACA_NEWS: Final[dict[str, Any]] = {
    "news": [
        {
            "headline": "Apple &amp; others",
            "url": "https://wire.example/1",
            "created_at": "2026-11-16T15:00:00Z",
            "source": "wire",
            "symbols": ["AAPL", "BRK.B"],
        }
    ]
}


def corp_codes(*rows: tuple[str, str, str]) -> bytes:
    """OpenDART's archive of companies: number, code and day of change."""
    text = "".join(
        f"<list><corp_code>{number}</corp_code><corp_name>x</corp_name><stock_code>{code}</stock_code>"
        f"<modify_date>{day}</modify_date></list>"
        for number, code, day in rows
    )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("CORPCODE.xml", f'<?xml version="1.0" encoding="UTF-8"?><result>{text}</result>')
    return packed.getvalue()


KIS_PRICE: Final[dict[str, Any]] = {
    "rt_cd": "0",
    "msg_cd": "MCA00000",
    "msg1": "정상처리 되었습니다.",
    "output": {
        "stck_prpr": "100500",
        "prdy_vrss": "-1500",
        "prdy_vrss_sign": "5",
        "stck_sdpr": "102000",
        "stck_hgpr": "102500",
        "stck_lwpr": "100000",
        "acml_vol": "9000000",
        "stck_shrn_iscd": "005930",
    },
}


def kis_day(day: str, close: int) -> dict[str, str]:
    prices = {"stck_oprc": close, "stck_hgpr": close + 500, "stck_lwpr": close - 500, "stck_clpr": close}
    return {"stck_bsop_date": day, "acml_vol": "1000"} | {name: str(price) for name, price in prices.items()}


KIS_DAYS: Final[dict[str, Any]] = {
    "rt_cd": "0",
    "msg_cd": "MCA00000",
    "output1": {},
    "output2": [kis_day("20261113", 102_000), kis_day("20261112", 101_000), {}],
}
FINNHUB_QUOTE: Final[dict[str, Any]] = {
    "c": 250.1,
    "d": -1.2,
    "dp": -0.4775,
    "h": 252.4,
    "l": 249.2,
    "o": 251.0,
    "pc": 251.3,
    "t": 1_794_603_600,
}
FINNHUB_NEWS: Final[list[dict[str, Any]]] = [
    {
        "category": "company",
        "datetime": 1_794_700_800,
        "headline": "Apple &amp; suppliers",
        "id": 1,
        "image": "",
        "related": "AAPL",
        "source": "Example Wire",
        "summary": "not shown",
        "url": "https://wire.example/2",
    }
]
FINNHUB_EARNINGS: Final[dict[str, Any]] = {
    "earningsCalendar": [
        {
            "date": "2026-11-17",
            "epsActual": None,
            "epsEstimate": 1.2,
            "hour": "amc",
            "quarter": 4,
            "revenueActual": None,
            "revenueEstimate": 1_000_000,
            "symbol": "AAPL",
            "year": 2026,
        }
    ]
}


def toss_candle(moment: str, close: str, low: str, high: str, currency: str = "KRW") -> dict[str, str]:
    prices = {"openPrice": close, "highPrice": high, "lowPrice": low, "closePrice": close}
    return {"timestamp": moment, "volume": "9000000", "currency": currency} | prices


TOSS_PRICES: Final[dict[str, Any]] = {
    "result": [{"symbol": "005930", "timestamp": "2026-11-16T13:59:30+09:00", "lastPrice": "100500", "currency": "KRW"}]
}
TOSS_CANDLES: Final[dict[str, Any]] = {
    "result": {
        "candles": [
            toss_candle("2026-11-16T00:00:00+09:00", "100500", "100000", "102500"),
            toss_candle("2026-11-13T00:00:00+09:00", "102000", "101000", "102800"),
            toss_candle("2026-11-12T00:00:00+09:00", "101500", "100600", "102300"),
        ],
        "nextBefore": None,
    }
}
"""shape=documented, values=synthetic, as all here."""
USUAL: Final[dict[str, bytes]] = {
    "finnhub/api/quote": json.dumps(FINNHUB_QUOTE).encode(),
    "finnhub/api/company-news": json.dumps(FINNHUB_NEWS).encode(),
    "finnhub/api/calendar/earnings": json.dumps(FINNHUB_EARNINGS).encode(),
    "toss/api/oauth2/token": json.dumps(
        {"access_token": "toss-token-made-up", "token_type": "Bearer", "expires_in": 86_400}
    ).encode(),
    "toss/api/api/v1/prices": json.dumps(TOSS_PRICES).encode(),
    "toss/api/api/v1/candles": json.dumps(TOSS_CANDLES).encode(),
    "kis/api/oauth2/tokenP": json.dumps({"access_token": "kis-token-made-up", "expires_in": 86_400}).encode(),
    "kis/api/uapi/domestic-stock/v1/quotations/inquire-price": json.dumps(KIS_PRICE).encode(),
    "kis/api/uapi/domestic-stock/v1/quotations/inquire-daily-itemchartprice": json.dumps(KIS_DAYS).encode(),
    "edgar/data/submissions/CIK0000320193.json": json.dumps(SUBMISSIONS).encode(),
    "edgar/data/api/xbrl/companyfacts/CIK0000320193.json": json.dumps(FACTS).encode(),
    "edgar/www/cgi-bin/browse-edgar": ATOM.encode("latin-1"),
    "nasdaq/api/api/calendar/earnings": json.dumps(EARNINGS).encode(),
    "google_news/api/rss/search": GOOGLE.encode(),
    "dart/api/api/todayRSS.xml": DART.encode(),
    "opendart/api/corpCode.xml": corp_codes(
        ("00999999", "005930", "20170101"), ("00126380", "005930", "20260101"), ("00000001", " ", "20260101")
    ),
    "opendart/api/list.json": json.dumps(OPENDART_LIST).encode(),
    "central_banks/fed/feeds/press_all.xml": PRESS.format("Fed").encode(),
    "central_banks/ecb/rss/press.html": PRESS.format("ECB").encode(),
    "central_banks/bok/portal/bbs/P0000559/news.rss": PRESS.format("BoK").encode(),
    "alpaca/api/v2/stocks/bars": json.dumps(ALPACA_BARS).encode(),
    "alpaca/api/v2/stocks/snapshots": json.dumps(ALPACA_SNAPSHOTS).encode(),
    "alpaca/api/v1beta1/news": json.dumps(ALPACA_NEWS).encode(),
}
KEYS: Final = {
    "opendart.key": Secret("dart-key-made-up-40-characters-long-0000"),
    "kis.key": Secret("kis-key-made-up"),
    "kis.secret": Secret("kis-secret-made-up"),
    "toss.id": Secret("toss-id-made-up"),
    "toss.secret": Secret("toss-secret-made-up"),
    "finnhub.key": Secret("finnhub-key-made-up"),
    "alpaca.id": Secret("alpaca-id-made-up"),
    "alpaca.secret": Secret("alpaca-secret-made-up"),
}


@dataclass
class DocumentBench:
    """Market data on these vendors. `answers` may be changed: a body, or a status with a body."""

    state: Path
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))
    answers: dict[str, bytes | tuple[int, bytes]] = field(default_factory=lambda: dict(USUAL))
    requests: list[FetchRequest] = field(default_factory=list[FetchRequest])

    def open(self, **settings: Any) -> ChainedMarketData:
        from finclaw.finance.market_data.source_info import SOURCES

        urls = {f"{each.id}.{api}": f"http://vendors/{each.id}/{api}" for each in SOURCES.values() for api in each.urls}
        settings.setdefault("contact", "ops@example.com")
        made = MarketDataSettings(urls=urls, **settings)
        database = ExtensionDatabase(self.state, "finance", MIGRATIONS, threaded=False)
        return open_market_data(made, self, database, self.clock, TableCalendar(), INSTRUMENTS.get)

    async def fetch(self, request: FetchRequest) -> FetchReply:
        self.requests.append(request)
        path = urlsplit(request.url).path.removeprefix("/")
        answer = self.answers.get(path, (404, b"not found"))
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return FetchReply(
            status=status,
            url=request.url,
            host="vendors",
            media_type="",
            charset="",
            body=body,
            truncated=False,
            headers={},
        )

    def query(self, number: int = -1) -> dict[str, str]:
        found = parse_qs(urlsplit(self.requests[number].url).query)
        return {name: values[0] for name, values in found.items()}
