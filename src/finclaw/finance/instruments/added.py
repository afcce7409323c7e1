"""Instrument records that were added to the shipped ones: an operator's own CSV, and the last refresh.

Both are files of rows in `instruments/` of the state directory. They are replaced as a whole or not at all, and an
operator's row wins over a refreshed one, which wins over a shipped one.
"""

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, get_args

from msgspec.structs import replace

from finclaw.errors import ConfigError
from finclaw.finance.instrument import Ambiguous, Instrument, ShareType, Status, Unknown
from finclaw.finance.instruments.catalogue import Catalogue, is_plain_name, read_row, read_shipped, write_row
from finclaw.finance.instruments.vendor_symbols import is_krx_code
from finclaw.finance.venue import Kind
from finclaw.kernel.message import ToolResult
from finclaw.kernel.scope import ToolCallContext
from finclaw.private_files import close_to_others, make_private_directory, write_private_file

DIRECTORY: Final = "instruments"
LIST_ORIGIN: Final = "instrument names from a downloaded or imported list"
COLUMNS: Final = ("symbol", "market", "name_en", "name_ko", "currency", "type", "isin", "aliases", "status")
"""Of an operator's CSV. The first three must be there; aliases are separated by `;`."""

_NEEDED: Final = ("symbol", "market", "name_en")
_MARKETS: Final[Mapping[str, tuple[str, str]]] = {
    "KOSPI": ("KRX", "KRW"),
    "KOSDAQ": ("KRX", "KRW"),
    "KONEX": ("KRX", "KRW"),
    "NASDAQ": ("NASDAQ", "USD"),
    "NYSE": ("NYSE", "USD"),
    "AMEX": ("NYSE", "USD"),
    "CRYPTO": ("CRYPTO", "USD"),
    "FX": ("FX", ""),
}
"""The venue of each market, and the currency in which it quotes."""
_KINDS: Final[Mapping[str, Kind]] = {"etf": "etf", "etn": "etf", "index": "index", "rate": "rate", "coin": "coin"}
_CODES: Final[Mapping[str, re.Pattern[str]]] = {
    "symbol": re.compile(r"\^?[A-Z0-9][A-Z0-9.\-/^=]{0,19}"),
    "currency": re.compile("[A-Z]{3,5}"),
    "isin": re.compile("[A-Z]{2}[A-Z0-9]{10}"),
}
_TYPES: Final = ("common", "etf", "index", "rate", "coin", *get_args(ShareType)[1:])
_MOST_COMPLAINTS = 5


class AddedInstruments:
    def __init__(self, state: Path) -> None:
        directory = state / DIRECTORY
        self.imported = directory / "imported.tsv"
        self.refreshed = directory / "refreshed.tsv"

    def catalogue(self, currency: str = "USD") -> Catalogue:
        texts = (self._read_refreshed(), _read_text(self.imported))
        return Catalogue(read_shipped(), *filter(None, texts), currency=currency)

    def known_to_refresh(self) -> Catalogue:
        return Catalogue(read_shipped(), self._read_refreshed())

    def _read_refreshed(self) -> str:
        """Without rows of earlier releases, which took any text as a name."""
        plain: list[str] = []
        for line in _read_text(self.refreshed).splitlines():
            record = read_row(line)
            if all(map(is_plain_name, (record.name_en, record.name_ko, *record.aliases))):
                plain.append(line)
        return "\n".join(plain)

    def add_imported(self, instruments: Iterable[Instrument]) -> int:
        """Keep these beside those imported before; one with the same id is replaced. Gives how many there are now."""
        return _add_rows(self.imported, map(write_row, instruments))

    def add_refreshed(self, rows: Iterable[str]) -> int:
        return _add_rows(self.refreshed, rows)


class KnownInstruments:
    """All records of a gateway, read when they are first asked for, and again after an import or a refresh."""

    def __init__(self, state: Path) -> None:
        self._added = AddedInstruments(state)
        self._catalogue: Catalogue | None = None
        self._stamps: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[Instrument]:
        return iter(self._read())

    def get(self, symbol: str) -> Instrument | None:
        return self._read().get(symbol)

    def find(self, query: str, currency: str = "") -> Instrument | Ambiguous | Unknown:
        return self._read().find(query, currency)

    def split(self, query: str) -> tuple[str, ...]:
        return self._read().split(query)

    async def mark_names(self, ctx: ToolCallContext) -> ToolResult:
        """Mark a result that shows names from a downloaded or imported list: whoever wrote the list chose them."""
        result = await ctx.next()
        if result.origin or not self._read().has_added_name(result.content):
            return result
        return replace(result, origin=LIST_ORIGIN)

    def _read(self) -> Catalogue:
        stamps = tuple(map(_modified_at, (self._added.refreshed, self._added.imported)))
        if self._catalogue is None or stamps != self._stamps:
            self._catalogue = self._added.catalogue()
            self._stamps = stamps
        return self._catalogue


def read_csv(text: str) -> tuple[Instrument, ...]:
    """An operator's records. Raises ConfigError that names the lines which do not fit; then none of them is taken."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        return _read_records(reader)
    except csv.Error as error:
        raise ConfigError(f"line {reader.line_num + 1} is not CSV: {error}; check the quotation marks there") from error


def _read_records(reader: "csv.DictReader[str]") -> tuple[Instrument, ...]:
    names = [(name or "").strip() for name in reader.fieldnames or ()]
    if missing := [name for name in _NEEDED if name not in names]:
        raise ConfigError(
            f"the first line must name the columns, and {', '.join(missing)} is missing; known: {','.join(COLUMNS)}"
        )
    if strange := [name for name in names if name not in COLUMNS]:
        raise ConfigError(f"the column {strange[0]!r} is not known; known: {','.join(COLUMNS)}")
    reader.fieldnames = names
    found: list[Instrument] = []
    complaints: list[str] = []
    for row in reader:
        try:
            found.append(_read_record({name: (row.get(name) or "").strip() for name in COLUMNS}))
        except ValueError as error:
            complaints.append(f"line {reader.line_num}: {error}")
    if complaints:
        shown = "; ".join(complaints[:_MOST_COMPLAINTS])
        if len(complaints) > _MOST_COMPLAINTS:
            shown += f" (and {len(complaints) - _MOST_COMPLAINTS} more)"
        raise ConfigError(f"nothing was imported; mend {shown}")
    return tuple(found)


def _read_record(cells: Mapping[str, str]) -> Instrument:
    symbol = cells["symbol"].upper()
    market = cells["market"].upper()
    kind_of_share = cells["type"].casefold() or "common"
    status = cells["status"].casefold() or "listed"
    if problem := next(_find_problems(cells, symbol, market, kind_of_share, status), None):
        raise ValueError(problem)
    exchange, currency = _MARKETS[market]
    return Instrument(
        symbol=symbol,
        exchange=exchange,
        market="" if market == exchange else market,
        name_en=cells["name_en"],
        name_ko=cells["name_ko"] or cells["name_en"],
        currency=cells["currency"].upper() or currency or symbol[-3:],
        aliases=tuple(word.strip() for word in cells["aliases"].split(";") if word.strip()),
        kind=_KINDS.get(kind_of_share, "stock"),
        share_type=next((each for each in get_args(ShareType) if each == kind_of_share), ""),
        isin=cells["isin"].upper(),
        status=next(each for each in get_args(Status) if each == status),
    )


def _find_problems(cells: Mapping[str, str], symbol: str, market: str, share: str, status: str) -> Iterator[str]:
    if not symbol or not cells["name_en"]:
        yield "symbol and name_en must not be empty"
    for column, code in _CODES.items():
        if cells[column] and not code.fullmatch(cells[column].upper()):
            yield f"{cells[column][:40]!r} is no {column}: write letters and digits, as an exchange does"
    choices = (("market", market, tuple(_MARKETS)), ("type", share, _TYPES), ("status", status, get_args(Status)))
    for column, word, known in choices:
        if word not in known:
            yield f"the {column} {word!r} is not known; write one of {', '.join(known)}"
    if _MARKETS[market][0] == "KRX" and share != "index" and not is_krx_code(symbol):
        yield f"{symbol} is no Korean code: six digits or letters, a digit first, or Q and six digits"
    if any(mark in cell for cell in cells.values() for mark in "\t\r\n|"):
        yield "a cell has a tab, a line break or |"
    for name in (cells["name_en"], cells["name_ko"], *cells["aliases"].split(";")):
        if name and not is_plain_name(name.strip()):
            yield f"{name[:40]!r} is not a name: write at most 100 letters, digits and common punctuation marks"


def _add_rows(path: Path, added: Iterable[str]) -> int:
    rows = {read_row(line).id: line for line in (*_read_text(path).splitlines(), *added)}
    _replace_text(path, "\n".join(rows.values()) + "\n")
    return len(rows)


def _replace_text(path: Path, text: str) -> None:
    """Write it beside and move it into place: a reader sees the old file or the new one."""
    make_private_directory(path.parent)
    close_to_others(path.parent.parent)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    write_private_file(aside, text.encode())
    aside.replace(path)


def _modified_at(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns
    return 0


def _read_text(path: Path) -> str:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8")
    return ""
