"""DART of the Korean supervisor: today's filings as RSS without a key, and OpenDART with one.

OpenDART's errors come with status 200 and a code inside. It knows companies by numbers of its own, which it gives as
one archive of all.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from msgspec import Struct, field, json

from finclaw.finance.instrument import Instrument, key_of
from finclaw.finance.market_data.errors import (
    DataAuthExpired,
    DataEmpty,
    DataError,
    DataMalformed,
    DataRateLimited,
    DataTransport,
    DataUnsupported,
)
from finclaw.finance.market_data.port import Filing
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.feeds import clean_line, iterate_elements, parse_feed, read_archived_file
from finclaw.finance.sources.reading import read_day
from finclaw.finance.venue import KRX
from finclaw.redaction import Secret, hide_and_cut

_WINDOW: Final = timedelta(days=90)
"""Without a company's number OpenDART allows no longer time; with one we ask for no more."""
_LARGEST: Final = 40_000_000
"""Bytes of the unpacked list of companies: it has some 100,000 of 200 bytes, and 4,000 are listed."""
_MOST_ELEMENTS: Final = 1_000_000
_MOST_LISTED: Final = 20_000
_ERRORS: Final[Mapping[str, type[DataError]]] = {
    "010": DataAuthExpired,
    "011": DataAuthExpired,
    "012": DataAuthExpired,
    "901": DataAuthExpired,
    "013": DataEmpty,
    "014": DataEmpty,
    "020": DataRateLimited,
    "100": DataMalformed,
    "800": DataTransport,
    "900": DataTransport,
}


class _KoreanFilings(DataSource):
    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "filings" and instrument.exchange == "KRX" and instrument.kind == "stock"


class DartFeed(_KoreanFilings):
    """Today's filings of all companies, found by the company's name."""

    info = SOURCES["dart"]

    async def read_filings(self, client: SourceClient, instrument: Instrument, limit: int) -> Sequence[Filing]:
        body = await client.get_body("api/todayRSS.xml", headers={"Accept": "application/rss+xml, text/xml"})
        entries = await asyncio.to_thread(parse_feed, body, client.now())
        # The creator is the company's whole name: 삼성전자 must not bring the filings of 삼성전자서비스.
        wanted = key_of(instrument.name_ko)
        filings = [
            Filing(
                symbol=instrument.symbol,
                form=each.title.partition(" - ")[2] or each.title,
                title=each.title,
                filed_on=each.published_at.astimezone(KRX.tz).date(),
                url=each.url,
                source=client.name,
            )
            for each in entries
            if key_of(each.author) == wanted
        ]
        if not filings:
            raise DataEmpty(f"has only today's filings, and none of {instrument.symbol}")
        return filings[:limit]


class _Row(Struct):
    corp_code: str
    stock_code: str
    report_nm: str
    rcept_no: str
    rcept_dt: str


class _ListAnswer(Struct):
    """A page of OpenDART's list. `status` 000 is success; everything else has no list."""

    status: str
    message: str = ""
    rows: list[_Row] = field(default_factory=list[_Row], name="list")


class OpenDart(_KoreanFilings):
    """Filings of the last three months by OpenDART, with a key."""

    info = SOURCES["opendart"]

    def __init__(self, key: Secret | None = None) -> None:
        self._key = key
        self._numbers: Mapping[str, str] = {}

    async def read_filings(self, client: SourceClient, instrument: Instrument, limit: int) -> Sequence[Filing]:
        (key,) = self.reveal_keys(self._key)
        if not self._numbers:
            body = await client.get_body("corpCode.xml", {"crtfc_key": key}, accept=("application/*", "text/*"))
            self._numbers = await asyncio.to_thread(_parse_company_numbers, body)
        number = self._numbers.get(instrument.symbol)
        if number is None:
            raise DataUnsupported(f"has no company of {instrument.symbol}")
        today = client.now().astimezone(KRX.tz).date()
        query = {
            "crtfc_key": key,
            "corp_code": number,
            "bgn_de": f"{today - _WINDOW:%Y%m%d}",
            "end_de": f"{today:%Y%m%d}",
            "sort": "date",
            "page_count": str(min(max(limit, 10), 100)),
        }
        answer = await client.get(_ListAnswer, "list.json", query)
        if answer.status != "000":
            raise _error_of(answer.status, answer.message)
        filings = [_read_filing(row, instrument, client.name) for row in answer.rows]
        if not filings:
            raise DataEmpty(f"has no filings of {instrument.symbol}")
        return sorted(filings, key=lambda each: each.filed_on, reverse=True)[:limit]


def _parse_company_numbers(body: bytes) -> dict[str, str]:
    """OpenDART's numbers of listed companies by their codes. Raises DataError, also for an error instead of a ZIP."""
    if not body.startswith(b"PK"):
        raise _read_error(body)
    found: dict[str, tuple[str, str]] = {}
    try:
        for row in iterate_elements(read_archived_file(body, _LARGEST), {"result": "list"}, _MOST_ELEMENTS):
            code, number, changed = (
                (row.findtext(tag) or "").strip() for tag in ("stock_code", "corp_code", "modify_date")
            )
            if code and number and changed >= found.get(code, ("", ""))[0]:  # a code may be used again
                found[code] = (changed[:8], number[:8])
            if len(found) > _MOST_LISTED:
                raise DataMalformed("'s list of companies is too long")
    except ValueError as error:
        raise DataMalformed(f"'s list of companies cannot be read: {error}") from error
    return {code: number for code, (_, number) in found.items()}


def _read_filing(row: _Row, instrument: Instrument, source: str) -> Filing:
    if row.stock_code.strip() != instrument.symbol:
        raise DataMalformed(f"gave a filing of {row.stock_code!r}")
    if not (row.rcept_no.isascii() and row.rcept_no.isdecimal()):
        raise DataMalformed(f"gave {hide_and_cut(row.rcept_no, 20)!r} as a number of a filing")
    title = clean_line(row.report_nm)
    return Filing(
        symbol=instrument.symbol,
        form=title,
        title=title,
        filed_on=read_day(row.rcept_dt),
        url=f"https://dart.fss.or.kr/dsaf001/main.do?rcpNo={row.rcept_no}",
        source=source,
    )


def _read_error(body: bytes) -> DataError:
    """The error that came in place of an archive."""
    try:
        answer = json.decode(body, type=_ListAnswer)
    except (ValueError, UnicodeDecodeError):
        return _error_of("", "what is no archive")
    return _error_of(answer.status, answer.message)


def _error_of(code: str, message: str) -> DataError:
    kind = _ERRORS.get(code, DataMalformed)
    return kind(f"answered {code or 'no code'}: {clean_line(message, 120)}")
