"""DART of the Korean supervisor: today's filings as RSS without a key, and OpenDART with one.

OpenDART's errors come with status 200 and a code inside. It knows companies by numbers of its own, which it gives as
one archive of all.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final
from zoneinfo import ZoneInfo

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
from finclaw.finance.sources.feeds import FeedEntry, clean_line, iterate_elements, parse_feed, read_archived_file
from finclaw.finance.sources.reading import read_day
from finclaw.redaction import Secret, hide_and_cut

_SEOUL: Final = "Asia/Seoul"
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


class DartFeed(DataSource):
    """Today's filings of all companies, found by the company's name."""

    info = SOURCES["dart"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "filings" and instrument.exchange == "KRX" and instrument.kind == "stock"

    async def read_filings(self, client: SourceClient, instrument: Instrument, limit: int) -> Sequence[Filing]:
        body = await client.get_body("api/todayRSS.xml", headers={"Accept": "application/rss+xml, text/xml"})
        entries = await asyncio.to_thread(parse_feed, body, client.name, client.now())
        filings = parse_today(entries, instrument, client.name)
        if not filings:
            raise DataEmpty(
                f"{client.name} has only today's filings, and none of {instrument.symbol}", source=client.name
            )
        return filings[:limit]


def parse_today(entries: Sequence[FeedEntry], instrument: Instrument, source: str) -> list[Filing]:
    """The filings of one company. The creator is its whole name: 삼성전자 must not bring those of 삼성전자서비스."""
    wanted = key_of(instrument.name_ko)
    return [
        Filing(
            symbol=instrument.symbol,
            form=each.title.partition(" - ")[2] or each.title,
            title=each.title,
            filed_on=each.published_at.astimezone(ZoneInfo(_SEOUL)).date(),
            url=each.url,
            source=source,
        )
        for each in entries
        if key_of(each.author) == wanted
    ]


class _Row(Struct):
    corp_code: str
    stock_code: str
    report_nm: str
    rcept_no: str
    rcept_dt: str


class ListAnswer(Struct):
    """A page of OpenDART's list. `status` 000 is success; everything else has no list."""

    status: str
    message: str = ""
    rows: list[_Row] = field(default_factory=list[_Row], name="list")


class OpenDart(DataSource):
    """Filings of the last three months by OpenDART, with a key."""

    info = SOURCES["opendart"]

    def __init__(self, key: Secret | None = None) -> None:
        self._key = key
        self._numbers: Mapping[str, str] = {}

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "filings" and instrument.exchange == "KRX" and instrument.kind == "stock"

    async def read_filings(self, client: SourceClient, instrument: Instrument, limit: int) -> Sequence[Filing]:
        (key,) = self.reveal_keys(self._key)
        if not self._numbers:
            body = await client.get_body("corpCode.xml", {"crtfc_key": key}, accept=("application/*", "text/*"))
            self._numbers = await asyncio.to_thread(parse_company_numbers, body, client.name)
        number = self._numbers.get(instrument.symbol)
        if number is None:
            raise DataUnsupported(f"{client.name} has no company of {instrument.symbol}", source=client.name)
        today = client.now().astimezone(ZoneInfo(_SEOUL)).date()
        query = {
            "crtfc_key": key,
            "corp_code": number,
            "bgn_de": f"{today - _WINDOW:%Y%m%d}",
            "end_de": f"{today:%Y%m%d}",
            "sort": "date",
            "page_count": str(min(max(limit, 10), 100)),
        }
        answer = await client.get(ListAnswer, "list.json", query)
        return parse_list(answer, instrument, client.name)[:limit]


def parse_company_numbers(body: bytes, source: str) -> dict[str, str]:
    """OpenDART's numbers of listed companies by their codes. Raises DataError, also for an error instead of a ZIP."""
    if not body.startswith(b"PK"):
        raise _error_of(_read_status(body), source)
    found: dict[str, tuple[str, str]] = {}
    try:
        for row in iterate_elements(read_archived_file(body, _LARGEST), {"result": "list"}, source, _MOST_ELEMENTS):
            code, number, changed = (
                (row.findtext(tag) or "").strip() for tag in ("stock_code", "corp_code", "modify_date")
            )
            if code and number and changed >= found.get(code, ("", ""))[0]:  # a code may be used again
                found[code] = (changed[:8], number[:8])
            if len(found) > _MOST_LISTED:
                raise DataMalformed(f"{source}'s list of companies is too long", source=source)
    except ValueError as error:
        raise DataMalformed(f"{source}'s list of companies cannot be read: {error}", source=source) from error
    return {code: number for code, (_, number) in found.items()}


def parse_list(answer: ListAnswer, instrument: Instrument, source: str) -> list[Filing]:
    """Newest first. Raises DataError."""
    if answer.status != "000":
        raise _error_of((answer.status, answer.message), source)
    filings: list[Filing] = []
    for row in answer.rows:
        if row.stock_code.strip() != instrument.symbol:
            raise DataMalformed(f"{source} gave a filing of {row.stock_code!r}", source=source)
        title = clean_line(row.report_nm)
        filings.append(
            Filing(
                symbol=instrument.symbol,
                form=title,
                title=title,
                filed_on=read_day(row.rcept_dt, source),
                url=f"https://dart.fss.or.kr/dsaf001/main.do?rcpNo={_digits(row.rcept_no, source)}",
                source=source,
            )
        )
    if not filings:
        raise DataEmpty(f"{source} has no filings of {instrument.symbol}", source=source)
    return sorted(filings, key=lambda each: each.filed_on, reverse=True)


def _error_of(status: tuple[str, str], source: str) -> DataError:
    code, message = status
    kind = _ERRORS.get(code, DataMalformed)
    return kind(f"{source} answered {code or 'no code'}: {clean_line(message, 120)}", source=source)


def _read_status(body: bytes) -> tuple[str, str]:
    """The code of an error that came in place of an archive, as JSON or as XML."""
    try:
        answer = json.decode(body, type=ListAnswer)
    except (ValueError, UnicodeDecodeError):
        return "", "what is no archive"
    return answer.status, answer.message


def _digits(text: str, source: str) -> str:
    if not (text.isascii() and text.isdecimal()):
        raise DataMalformed(f"{source} gave {hide_and_cut(text, 20)!r} as a number of a filing", source=source)
    return text
