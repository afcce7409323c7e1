"""EDGAR of the SEC: filings of US companies, the figures they reported, and their 8-K notices as news.

It is public and wants to know who asks: without a contact in the settings it refuses, so it is not asked then.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Final

from msgspec import Struct, field

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data.errors import DataAuthExpired, DataEmpty, DataMalformed, DataUnsupported
from finclaw.finance.market_data.port import CompanyProfile, Filing, NewsItem
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.feeds import clean_line, parse_feed
from finclaw.kernel.fact import Fact

_FIGURES: Final = {
    "revenue": ("Revenues", "RevenueFromContractWithCustomerExcludingAssessedTax", "SalesRevenueNet"),
    "net_income": ("NetIncomeLoss", "ProfitLoss"),
    "eps_diluted": ("EarningsPerShareDiluted",),
}
"""Concepts of a figure: companies change from one to another over the years."""
_ANNUAL: Final = (350, 380)
"""Days of a year's figure. Quarters and years to date have the same concept."""


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


class _Concept(Struct):
    units: dict[str, list[_ReportedFigure]]


class _Facts(Struct):
    cik: str | int
    facts: dict[str, dict[str, _Concept]]


class Edgar(DataSource):
    """EDGAR's JSON and Atom, by the company's number in our records."""

    info = SOURCES["edgar"]

    def __init__(self, contact: str = "") -> None:
        """`contact`: an address of mail, which the SEC wants in every request."""
        self._contact = contact

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
            raise DataUnsupported("has news of US companies alone")
        query = {"action": "getcompany", "CIK": f"{instrument.cik:010}", "type": "8-K", "output": "atom"}
        body = await client.get_body("cgi-bin/browse-edgar", query, api="www", headers=self._headers())
        entries = await asyncio.to_thread(parse_feed, body, client.now())
        return [
            NewsItem(
                title=f"{instrument.name_en}: {each.title}",
                url=each.url,
                publisher="SEC EDGAR",
                published_at=each.published_at,
                source=client.name,
                symbols=(instrument.symbol,),
            )
            for each in entries[:limit]
        ]

    def _headers(self) -> Mapping[str, str]:
        """Raises DataAuthExpired without a contact: a request that is refused counts against everybody here."""
        if "@" not in self._contact:
            raise DataAuthExpired("answers only who says who asks: set `market_data.contact` to an address of mail")
        return {"User-Agent": f"FinClaw {self._contact}", "Accept": "application/json, application/atom+xml, text/xml"}


def _read_filings(found: _Submissions, instrument: Instrument, source: str) -> list[Filing]:
    """The newest filings, newest first. Raises DataMalformed or DataEmpty."""
    _check_number(found.cik, instrument)
    recent = found.filings.recent
    count = len(recent.accession_number)
    if not len(recent.filing_date) == len(recent.form) == len(recent.primary_document) == count:
        raise DataMalformed("'s columns of filings differ in length")
    if not count:
        raise DataEmpty(f"has no filings of {instrument.symbol}")
    titles = recent.primary_doc_description
    if len(titles) != count:
        titles = recent.form
    rows = zip(recent.accession_number, recent.filing_date, recent.form, recent.primary_document, titles, strict=True)
    filings = [
        Filing(
            symbol=instrument.symbol,
            form=clean_line(form, 40),
            title=clean_line(title or form),
            filed_on=filed,
            url=_document_url(instrument.cik, accession, document),
            source=source,
        )
        for accession, filed, form, document, title in rows
    ]
    return sorted(filings, key=lambda each: each.filed_on, reverse=True)


def _latest_figures(found: _Facts) -> dict[str, tuple[str, _ReportedFigure]]:
    """The figures of the latest whole year with their units, as they were last filed."""
    concepts = found.facts.get("us-gaap") or found.facts.get("ifrs-full") or {}
    latest: dict[str, tuple[str, _ReportedFigure]] = {}
    for name, tags in _FIGURES.items():
        units = [unit for tag in tags if tag in concepts for unit in concepts[tag].units.items()]
        years = [(unit, each) for unit, rows in units for each in rows if _is_annual(each)]
        if years:
            latest[name] = max(years, key=lambda each: (each[1].end, each[1].filed))
    return latest


def _is_annual(figure: _ReportedFigure) -> bool:
    """A period is told by its own days, never by `fy`."""
    least, most = _ANNUAL
    return figure.start is not None and least <= (figure.end - figure.start).days <= most


def _check_number(told: str | int, instrument: Instrument) -> None:
    if int(told) != instrument.cik:
        raise DataMalformed(f"gave company {told}, not {instrument.cik}")


def _document_url(cik: int, accession: str, document: str) -> str:
    folder = f"https://www.sec.gov/Archives/edgar/data/{cik}/{accession.replace('-', '')}"
    return "/".join(filter(None, (folder, document)))
