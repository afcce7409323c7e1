"""A refresh of the records at run time, from lists that need no key: the KIS masters and the Nasdaq directory.

A broken download never replaces good data: each list must be about as long as what we have of its market, hold rows
that are known by heart, and change few names. Otherwise all of the last records stay, and the reason is said.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct, structs

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument, ShareType
from finclaw.finance.instruments.catalogue import Catalogue, drop_legal_suffix, is_plain_name, write_row
from finclaw.finance.instruments.vendor_symbols import is_krx_code
from finclaw.finance.sources.feeds import read_archived_file
from finclaw.finance.venue import Kind
from finclaw.kernel.fetch import Fetcher, FetchLimits, FetchRequest

_KIS = "https://new.real.download.dws.co.kr/common/master"
_NASDAQ = "https://www.nasdaqtrader.com/dynamic/SymDir"
_LEAST_PART: Final = 0.95
"""A list has at least so many rows, against those that were listed before."""
_MOST_GONE: Final = 0.2
"""So many of them may be gone: about what two years take away, where the shipped file is old."""
_MOST_RENAMED: Final = 0.1
"""So many names may be others: some of ours are written differently in a list."""
_MOST_DOWNLOADED: Final = 5_000_000
_MOST_UNPACKED: Final = 10_000_000  # bytes of a list: the longest has less than one million
_ISIN: Final = re.compile(r"(?:[A-Z0-9]{12})?")


class ListingRow(Struct, frozen=True, kw_only=True):
    symbol: str
    exchange: str
    market: str
    name: str
    kind: Kind = "stock"
    share_type: ShareType = ""
    isin: str = ""

    @property
    def own_market(self) -> str:
        return self.market if self.market != self.exchange else ""


class ListingSource(Struct, frozen=True, kw_only=True):
    name: str
    url: str
    read: Callable[[bytes], Iterator[ListingRow]]
    fewest: int
    canaries: Mapping[str, str]


class BadListing(ToolError):
    """A list that is not believed. Nothing of it is taken."""


async def download_listings(fetcher: Fetcher, sources: Sequence[ListingSource]) -> tuple[ListingRow, ...]:
    """All rows of all lists. Raises BadListing, or what the fetcher raises: then there is no refresh."""
    rows: list[ListingRow] = []
    limits = FetchLimits(seconds=60, body=_MOST_DOWNLOADED)
    accept = ("application/*", "text/*", "binary/*")
    for source in sources:
        request = FetchRequest(url=source.url, purpose="instruments refresh", accept=accept, limits=limits)
        reply = await fetcher.fetch(request)
        if reply.status != 200 or reply.truncated:
            raise BadListing(f"{source.name} answered {reply.status}{' and was cut off' if reply.truncated else ''}")
        rows += await asyncio.to_thread(check_listing, source, reply.body)
    return tuple(rows)


def check_listing(source: ListingSource, body: bytes) -> list[ListingRow]:
    try:
        rows = list(source.read(body))
    except (ValueError, LookupError) as error:
        raise BadListing(f"{source.name} is not the list that it was: {type(error).__name__}") from error
    for row in rows:
        if not is_plain_name(row.name) or not _ISIN.fullmatch(row.isin):
            raise BadListing(
                f"{source.name} has an odd name or ISIN for {row.symbol}: {row.name[:40]!r}. A name has at most 100 "
                "characters, all of them letters, digits and common punctuation; the old list is kept"
            )
    if len(rows) < source.fewest:
        raise BadListing(f"{source.name} has {len(rows)} rows, and {source.fewest} were expected")
    names = {row.symbol: row.name for row in rows}
    for symbol, name in source.canaries.items():
        if not names.get(symbol, "").casefold().startswith(name.casefold()):
            raise BadListing(f"{source.name} calls {symbol} {names.get(symbol, 'nothing')!r}, and it is {name}")
    return rows


def merge_listings(known: Catalogue, rows: Iterable[ListingRow]) -> tuple[str, ...]:
    """The rows of the catalogue that are new or change. Raises BadListing when too much would be gone or renamed."""
    fresh = {(row.exchange, row.symbol): row for row in rows}
    covered = {exchange for listed, _ in fresh for exchange in _COUNTRIES[listed]}
    changed: list[str] = []
    seen: set[tuple[str, str]] = set()
    before = gone = renamed = 0
    for old, keys in known.rows():
        place = _place_in(fresh, old)
        if place is None and not _is_expected(old, covered):
            continue
        new = structs.replace(old, status="delisted") if place is None else _renew(old, fresh[place])
        before += old.status == "listed"
        gone += old.status == "listed" and place is None
        renamed += old.status == "listed" and new.name_ko != old.name_ko
        if place is not None:
            seen.add(place)
        if new != old:
            changed.append(write_row(new, keys))
    if len(fresh) < _LEAST_PART * before:
        raise BadListing(f"there are {len(fresh)} rows, and {before} instruments were listed; that is not believed")
    if gone > _MOST_GONE * before:
        raise BadListing(f"{gone} of {before} listed instruments would be gone; that is not believed")
    if renamed > _MOST_RENAMED * before:
        raise BadListing(f"{renamed} of {before} names would be others; that is not believed")
    return (*changed, *(write_row(_make(row)) for place, row in fresh.items() if place not in seen))


_COUNTRIES: Final = {"KRX": ("KRX",), "NASDAQ": ("NASDAQ", "NYSE"), "NYSE": ("NASDAQ", "NYSE")}
"""The exchanges of the country of an exchange."""


def _place_in(fresh: Mapping[tuple[str, str], ListingRow], old: Instrument) -> tuple[str, str] | None:
    """A stock that moved from one exchange of its country to another is still the same."""
    if old.kind not in ("stock", "etf"):
        return None
    places = ((exchange, old.symbol) for exchange in _COUNTRIES.get(old.exchange, ()))
    return next((place for place in places if place in fresh), None)


def _is_expected(old: Instrument, covered: set[str]) -> bool:
    """Whether a list of that country should have it. Warrants, rights and notes are written differently everywhere."""
    is_plain = old.share_type in ("", "adr", "etn", "reit") and "-" not in old.symbol
    is_traded = old.kind in ("stock", "etf") and old.status in ("listed", "unconfirmed")
    return is_traded and is_plain and old.exchange in covered


def _renew(old: Instrument, row: ListingRow) -> Instrument:
    """Ours, with what the list knows better: where it is listed, and the Korean name of a Korean one."""
    isin = row.isin or old.isin
    changes = structs.replace(
        old, exchange=row.exchange, market=row.own_market, status="listed", isin=isin, kind=row.kind
    )
    if row.exchange != "KRX" or row.name == old.name_ko:
        return changes
    former = (old.name_ko,) if old.name_ko not in (old.name_en, row.name) else ()
    return structs.replace(changes, name_ko=row.name, aliases=tuple(dict.fromkeys((*old.aliases, *former))))


def _make(row: ListingRow) -> Instrument:
    short = drop_legal_suffix(row.name)
    return Instrument(
        symbol=row.symbol,
        exchange=row.exchange,
        market=row.own_market,
        name_en=row.name,
        name_ko=row.name,
        currency="KRW" if row.exchange == "KRX" else "USD",
        aliases=(short,) if short != row.name else (),
        kind=row.kind,
        share_type=row.share_type,
        isin=row.isin,
    )


_KIS_KINDS: Final[Mapping[str, tuple[Kind, ShareType]]] = {
    "ST": ("stock", ""),
    "FS": ("stock", ""),
    "DR": ("stock", "adr"),
    "RT": ("stock", "reit"),
    "EF": ("etf", ""),
    "EN": ("etf", "etn"),
}
"""Stocks, foreign companies, receipts, REITs, ETFs and ETNs; warrants, rights and other funds are left out."""


def read_kis_master(tail: int, market: str) -> Callable[[bytes], Iterator[ListingRow]]:
    """A reader of a zipped master in cp949: code, ISIN and name, then `tail` characters that begin with the type."""

    def read(body: bytes) -> Iterator[ListingRow]:
        text = b"".join(read_archived_file(body, _MOST_UNPACKED)).decode("cp949")
        for line in text.splitlines():
            head = line[:-tail]
            kind = line[-tail:][:2]
            code = head[:9].strip()
            if kind in _KIS_KINDS and is_krx_code(code):
                of_kind, share_type = _KIS_KINDS[kind]
                if of_kind == "stock" and not share_type and not code.endswith("0"):
                    share_type = "preferred"
                yield ListingRow(
                    symbol=code,
                    exchange="KRX",
                    market=market,
                    name=head[21:].strip(),
                    kind=of_kind,
                    share_type=share_type,
                    isin=head[9:21].strip(),
                )

    return read


_PLACES: Final = {"Q": ("NASDAQ", "NASDAQ"), "N": ("NYSE", "NYSE"), "A": ("NYSE", "AMEX"), "P": ("NYSE", "AMEX")}
"""By the directory's letter: Nasdaq, NYSE, NYSE American and Arca; Z, Cboe, is with the latter."""


def read_nasdaq_directory(body: bytes) -> Iterator[ListingRow]:
    """Of either file of the directory. The security's own name is read: a derived column cuts Coca-Cola to Coca."""
    head, *lines = body.decode("utf-8").splitlines()
    columns = head.split("|")
    symbol_column = "Symbol" if "Symbol" in columns else "ACT Symbol"
    for line in lines:
        cells = line.split("|")
        row = dict(zip(columns, cells, strict=False))
        if len(cells) != len(columns) or row["Test Issue"] != "N":
            continue
        symbol = row[symbol_column]
        if not re.fullmatch(r"[A-Z]+(\.[A-Z])?", symbol):  # preferred shares, warrants, rights and units
            continue
        exchange, market = _PLACES.get(row.get("Exchange", "Q"), ("NYSE", "AMEX"))
        name = _read_security_name(row["Security Name"])
        kind: Kind = "etf" if row["ETF"] == "Y" else "stock"
        yield ListingRow(symbol=symbol, exchange=exchange, market=market, name=name, kind=kind)


_SECURITY: Final = re.compile(r"\s(?:-\s|Common Stock|Ordinary Shares|American Depositary Shares)")
_LONG_SECURITY: Final = re.compile(
    r",?\s\(?(?:(?P<kind>warrants?|units?|rights?)\b|\d+\.\d+%|(?:sponsored|common|depositary|subordinated|floating|series"
    r"|class|fixed-to-floating|shares?|beneficial|each|representing|operating partnership|american depositary|etn)\b)",
    re.IGNORECASE,
)
_ISSUER: Final = re.compile(r"\s(?:Exchange-Traded Fund (?:Trust|[IVX]{1,6})|on behalf of)\s")


def _read_security_name(text: str) -> str:
    """The name of the issuer or the fund. A long one is cut where the terms of the security begin."""
    name = _SECURITY.split(text, 1)[0].strip()
    if len(name) > 100:
        name = _ISSUER.split(name, 1)[-1]
        found = _LONG_SECURITY.search(name)
        if found is not None:
            name = name[: found.end() if found["kind"] else found.start()]
    return name


KOREA: Final = (
    ListingSource(
        name="the KIS master of KOSPI",
        url=f"{_KIS}/kospi_code.mst.zip",
        read=read_kis_master(227, "KOSPI"),
        fewest=1_800,
        canaries={"005930": "삼성전자", "069500": "KODEX 200", "005935": "삼성전자우"},
    ),
    ListingSource(
        name="the KIS master of KOSDAQ",
        url=f"{_KIS}/kosdaq_code.mst.zip",
        read=read_kis_master(221, "KOSDAQ"),
        fewest=1_500,
        canaries={"247540": "에코프로비엠", "196170": "알테오젠"},
    ),
)
AMERICA: Final = (
    ListingSource(
        name="the Nasdaq directory of its own listings",
        url=f"{_NASDAQ}/nasdaqlisted.txt",
        read=read_nasdaq_directory,
        fewest=3_500,
        canaries={"AAPL": "Apple", "MSFT": "Microsoft", "QQQ": "Invesco QQQ"},
    ),
    ListingSource(
        name="the Nasdaq directory of other listings",
        url=f"{_NASDAQ}/otherlisted.txt",
        read=read_nasdaq_directory,
        fewest=4_000,
        canaries={"KO": "Coca-Cola", "SPY": "SPDR S&P 500", "BRK.B": "Berkshire"},
    ),
)


def listing_hosts(sources: Sequence[ListingSource] = (*KOREA, *AMERICA)) -> tuple[str, ...]:
    return tuple(dict.fromkeys(urlsplit(source.url).hostname or "" for source in sources))
