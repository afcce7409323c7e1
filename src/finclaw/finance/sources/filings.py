"""Filings with authorities: DART of the Korean supervisor and EDGAR of the SEC, with reported figures and notices."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct, field, json

from finclaw.finance.instrument import Instrument, key_of
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.port import CompanyProfile, Filing, NewsItem
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.feeds import clean_line, iterate_elements, read_archived_file, read_feed
from finclaw.finance.sources.reading import read_day
from finclaw.finance.venue import KRX
from finclaw.kernel.fact import Fact
from finclaw.redaction import hide_and_cut

_WINDOW: Final = timedelta(days=90)
"""Without a company's number OpenDART allows no longer time; with one we ask for no more."""
_LARGEST: Final = 40_000_000
"""Bytes of the unpacked list of companies: it has some 100,000 of 200 bytes, and 4,000 are listed."""
_MOST_ELEMENTS: Final = 1_000_000
_MOST_LISTED: Final = 20_000
_ERRORS: Final[Mapping[str, type[errors.DataError]]] = {
    **dict.fromkeys(("010", "011", "012", "901"), errors.DataAuthExpired),
    **dict.fromkeys(("013", "014"), errors.DataEmpty),
    **dict.fromkeys(("800", "900"), errors.DataTransport),
    "020": errors.DataRateLimited,
    "100": errors.DataMalformed,
}


class _KoreanFilings(DataSource):
    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "filings" and instrument.exchange == "KRX" and instrument.kind == "stock"


class DartFeed(_KoreanFilings):
    info = SOURCES["dart"]

    async def read_filings(self, client: SourceClient, instrument: Instrument, limit: int) -> Sequence[Filing]:
        entries = await read_feed(client, "api/todayRSS.xml", headers={"Accept": "application/rss+xml, text/xml"})
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
            raise errors.DataEmpty(f"has only today's filings, and none of {instrument.symbol}")
        return filings[:limit]


class _Row(Struct):
    corp_code: str
    stock_code: str
    report_nm: str
    rcept_no: str
    rcept_dt: str


class _ListAnswer(Struct):
    status: str
    message: str = ""
    rows: list[_Row] = field(default_factory=list[_Row], name="list")


class OpenDart(_KoreanFilings):
    """OpenDART, with a key. Errors have status 200 and a code; companies have numbers of its own, in one archive."""

    info = SOURCES["opendart"]

    _numbers: Mapping[str, str] | None = None

    async def read_filings(self, client: SourceClient, instrument: Instrument, limit: int) -> Sequence[Filing]:
        (key,) = self.reveal_keys()
        if not self._numbers:
            body = await client.get_body("corpCode.xml", {"crtfc_key": key}, accept=("application/*", "text/*"))
            self._numbers = await asyncio.to_thread(_parse_company_numbers, body)
        number = self._numbers.get(instrument.symbol)
        if number is None:
            raise errors.DataUnsupported(f"has no company of {instrument.symbol}")
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
            raise errors.DataEmpty(f"has no filings of {instrument.symbol}")
        return sorted(filings, key=lambda each: each.filed_on, reverse=True)[:limit]


def _parse_company_numbers(body: bytes) -> dict[str, str]:
    """OpenDART's numbers of listed companies by their codes. Raises DataError, also for an error instead of a ZIP."""
    if not body.startswith(b"PK"):
        try:
            answer = json.decode(body, type=_ListAnswer)
        except ValueError as error:
            raise _error_of("", "what is no archive") from error
        raise _error_of(answer.status, answer.message)
    found: dict[str, tuple[str, str]] = {}
    try:
        for row in iterate_elements(read_archived_file(body, _LARGEST), {"result": "list"}, _MOST_ELEMENTS):
            code, number, changed = (
                (row.findtext(tag) or "").strip() for tag in ("stock_code", "corp_code", "modify_date")
            )
            if code and number and changed >= found.get(code, ("", ""))[0]:  # a code may be used again
                found[code] = (changed[:8], number[:8])
            if len(found) > _MOST_LISTED:
                raise errors.DataMalformed("'s list of companies is too long")
    except ValueError as error:
        raise errors.DataMalformed(f"'s list of companies cannot be read: {error}") from error
    return {code: number for code, (_, number) in found.items()}


def _read_filing(row: _Row, instrument: Instrument, source: str) -> Filing:
    if row.stock_code.strip() != instrument.symbol:
        raise errors.DataMalformed(f"gave a filing of {row.stock_code!r}")
    if not (row.rcept_no.isascii() and row.rcept_no.isdecimal()):
        raise errors.DataMalformed(f"gave {hide_and_cut(row.rcept_no, 20)!r} as a number of a filing")
    title = clean_line(row.report_nm)
    return Filing(
        symbol=instrument.symbol,
        form=title,
        title=title,
        filed_on=read_day(row.rcept_dt),
        url=f"https://dart.fss.or.kr/dsaf001/main.do?rcpNo={row.rcept_no}",
        source=source,
    )


def _error_of(code: str, message: str) -> errors.DataError:
    kind = _ERRORS.get(code, errors.DataMalformed)
    return kind(f"answered {code or 'no code'}: {clean_line(message, 120)}")


_FIGURES: Final = {
    "revenue": ("Revenues", "RevenueFromContractWithCustomerExcludingAssessedTax", "SalesRevenueNet"),
    "net_income": ("NetIncomeLoss", "ProfitLoss"),
    "eps_diluted": ("EarningsPerShareDiluted",),
}
"""Concepts of a figure: companies change from one to another over the years."""


class _Recent(Struct, rename="camel"):
    """Columns, not rows: the same place in each is one filing."""

    accession_number: list[str]
    filing_date: list[date]
    form: list[str]
    primary_document: list[str]
    primary_doc_description: list[str] = field(default_factory=list[str])


class _Filings(Struct):
    recent: _Recent


class _Submissions(Struct, rename="camel"):
    cik: str | int
    name: str
    filings: _Filings
    sic_description: str = ""


class _ReportedFigure(Struct, frozen=True):
    """A figure as one filing reported it. `fy` and `fp`, which it has too, are of the filing and not of the figure."""

    end: date
    val: int | float
    filed: date
    form: str
    start: date | None = None

    @property
    def is_annual(self) -> bool:
        """By its own days, never by `fy`: quarters and years to date have the same concept."""
        return self.start is not None and 350 <= (self.end - self.start).days <= 380


class _Concept(Struct):
    units: dict[str, list[_ReportedFigure]]


class _Facts(Struct):
    cik: str | int
    facts: dict[str, dict[str, _Concept]]


class Edgar(DataSource):
    """EDGAR, by the CIK of our records. It refuses requests without a contact, so without one it is not asked."""

    info = SOURCES["edgar"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return bool(instrument.cik) and kind in ("filings", "profile", "news")

    async def read_filings(self, client: SourceClient, instrument: Instrument, limit: int) -> Sequence[Filing]:
        path = f"submissions/CIK{instrument.cik:010}.json"
        found = await client.get(_Submissions, path, api="data", headers=self._headers())
        return _read_filings(found, instrument, client.name)[:limit]

    async def read_profile(self, client: SourceClient, instrument: Instrument) -> CompanyProfile:
        path = f"CIK{instrument.cik:010}.json"
        about = await client.get(_Submissions, f"submissions/{path}", api="data", headers=self._headers())
        _check_number(about.cik, instrument)
        facts = await client.get(_Facts, f"api/xbrl/companyfacts/{path}", api="data", headers=self._headers())
        _check_number(facts.cik, instrument)
        fields = {"company": clean_line(about.name), "industry": clean_line(about.sic_description)}
        figures: list[Fact] = []
        for name, (unit, figure) in _latest_figures(facts).items():
            value = Decimal(str(figure.val))
            currency, _, per_share = unit.partition("/")
            fields[name] = f"{value:,} {unit} in the year from {figure.start} to {figure.end}, filed {figure.filed}"
            figures.append(
                Fact(
                    subject=instrument.symbol,
                    field=f"annual_{name}",
                    value=value,
                    unit=per_share and "per share",
                    currency=currency,
                    as_of=datetime.combine(figure.end, time(12), UTC),
                    source=client.name,
                )
            )
        return CompanyProfile(
            instrument=instrument,
            fields={name: text for name, text in fields.items() if text},
            as_of=client.now(),
            source=client.name,
            facts=tuple(figures),
        )

    async def read_news(self, client: SourceClient, instrument: Instrument | None, limit: int) -> Sequence[NewsItem]:
        if instrument is None or not instrument.cik:
            raise errors.DataUnsupported("has news of US companies alone")
        query = {"action": "getcompany", "CIK": f"{instrument.cik:010}", "type": "8-K", "output": "atom"}
        entries = await read_feed(client, "cgi-bin/browse-edgar", query, api="www", headers=self._headers())
        return [
            each.as_news(client, "SEC EDGAR", f"{instrument.name_en}: {each.title}", (instrument.symbol,))
            for each in entries[:limit]
        ]

    def _headers(self) -> Mapping[str, str]:
        """Raises DataAuthExpired without a contact: a request that is refused counts against everybody here."""
        contact = self.settings.contact
        if "@" not in contact:
            raise errors.DataAuthExpired(
                "answers only who says who asks: set `market_data.contact` to an address of mail"
            )
        return {"User-Agent": f"FinClaw {contact}", "Accept": "application/json, application/atom+xml, text/xml"}


def _read_filings(found: _Submissions, instrument: Instrument, source: str) -> list[Filing]:
    _check_number(found.cik, instrument)
    recent = found.filings.recent
    count = len(recent.accession_number)
    if not len(recent.filing_date) == len(recent.form) == len(recent.primary_document) == count:
        raise errors.DataMalformed("'s columns of filings differ in length")
    if not count:
        raise errors.DataEmpty(f"has no filings of {instrument.symbol}")
    titles = recent.primary_doc_description
    if len(titles) != count:
        titles = recent.form
    folder = f"https://www.sec.gov/Archives/edgar/data/{instrument.cik}"
    rows = zip(recent.accession_number, recent.filing_date, recent.form, recent.primary_document, titles, strict=True)
    filings = [
        Filing(
            symbol=instrument.symbol,
            form=clean_line(form, 40),
            title=clean_line(title or form),
            filed_on=filed,
            url=f"{folder}/{accession.replace('-', '')}/{document}".removesuffix("/"),
            source=source,
        )
        for accession, filed, form, document, title in rows
    ]
    return sorted(filings, key=lambda each: each.filed_on, reverse=True)


def _latest_figures(found: _Facts) -> dict[str, tuple[str, _ReportedFigure]]:
    concepts = found.facts.get("us-gaap") or found.facts.get("ifrs-full") or {}
    latest: dict[str, tuple[str, _ReportedFigure]] = {}
    for name, tags in _FIGURES.items():
        units = [unit for tag in tags if tag in concepts for unit in concepts[tag].units.items()]
        years = [(unit, each) for unit, rows in units for each in rows if each.is_annual]
        if years:
            latest[name] = max(years, key=lambda each: (each[1].end, each[1].filed))
    return latest


def _check_number(told: str | int, instrument: Instrument) -> None:
    if int(told) != instrument.cik:
        raise errors.DataMalformed(f"gave company {told}, not {instrument.cik}")
