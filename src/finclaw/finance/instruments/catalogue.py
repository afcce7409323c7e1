"""The catalogue: some 12,000 instrument records that are shipped, with what an operator has added.

A row has all keys under which it is found, so that loading makes one dictionary and no text is normalised. Only whole
keys are found; what looks alike is offered and never taken.
"""

import gzip
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import cast

from msgspec import structs

from finclaw.finance.instrument import Ambiguous, Instrument, ShareType, Status, Unknown, split_names
from finclaw.finance.instruments.keys import key_of_name, spellings
from finclaw.finance.tick import Kind

SHIPPED = Path(__file__).with_name("data") / "catalogue.tsv.gz"
COIN_CURRENCIES = ("USD", "KRW")
"""In these a coin has a price of its own. A price in USDT is that of another instrument."""

COINS_THAT_WIN = frozenset(("BTC", "ETH", "SOL", "XRP"))
"""Coins that are meant even though an American fund has that ticker."""

_YAHOO_SUFFIXES = {"KOSPI": ("KS",), "KOSDAQ": ("KQ",)}
_ALIKE = 0.78
_FEWEST_LETTERS = 3
"""Shorter words look like anything. A Korean syllable has two letters or three."""
_MOST_NEAR = 5
_SYMBOL_WORD = re.compile(r"[\w.]+")


class Catalogue:
    """Instrument records, found by code, name, alias or ISIN. Later texts add rows and replace those of the same id."""

    def __init__(self, *texts: str, currency: str = "USD") -> None:
        self._currency = currency if currency in COIN_CURRENCIES else "USD"
        rows: dict[tuple[str, str], str] = {}
        shipped: Mapping[tuple[str, str], str] = {}
        self._added: dict[str, list[str]] = {}
        """Names that no shipped record has, by the first word of their symbol."""
        for number, text in enumerate(texts):
            for line in text.splitlines():
                _, symbol, exchange, _ = line.split("\t", 3)
                key = "US" if exchange in ("NYSE", "NASDAQ") else exchange, symbol
                rows[key] = line
                if number:
                    known = _names(shipped[key]) if key in shipped else ()
                    names = [name for name in _names(line) if name and name not in known]
                    self._added.setdefault(_SYMBOL_WORD.findall(symbol)[0], []).extend(names)
            shipped = shipped or dict(rows)
        self._rows = tuple(rows.values())
        self._by_key: dict[str, list[int]] = {}
        self._by_symbol: dict[str, int] = {}
        for number, line in enumerate(self._rows):
            keys, symbol, _ = line.split("\t", 2)
            self._by_symbol.setdefault(symbol, number)
            for key in keys[1:-1].split("|"):
                self._by_key.setdefault(key, []).append(number)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Instrument]:
        return map(read_row, self._rows)

    def has_added_name(self, text: str) -> bool:
        """Return whether the text shows an instrument, by symbol and name, whose name came from an added list."""
        words = self._added.keys() & _SYMBOL_WORD.findall(text) if self._added else ()
        return any(name in text for word in words for name in self._added[word])

    def rows(self) -> Iterator[tuple[Instrument, tuple[str, ...]]]:
        """Every record with the keys under which it is found."""
        for line in self._rows:
            yield read_row(line), tuple(line.partition("\t")[0][1:-1].split("|"))

    def get(self, symbol: str) -> Instrument | None:
        """The record of exactly this symbol of ours; `BTC-KRW` is Bitcoin priced in won."""
        if (number := self._by_symbol.get(symbol)) is not None:
            return read_row(self._rows[number])
        coin, _, currency = symbol.partition("-")
        number = self._by_symbol.get(f"{coin}-USD")
        if number is None or currency not in COIN_CURRENCIES:
            return None
        return priced_in(read_row(self._rows[number]), currency)

    def find(self, query: str, currency: str = "") -> Instrument | Ambiguous | Unknown:
        """The one instrument that goes by this, all that do, or none. Coins are priced in `currency`."""
        for key in spellings(query):
            if numbers := self._by_key.get(key):
                wanted = _currency_in(query) or currency or self._currency
                found = tuple(dict.fromkeys(self._follow(number, wanted) for number in numbers))
                return found[0] if len(found) == 1 else Ambiguous(found)
        return Unknown(self._near(key_of_name(query)))

    def split(self, query: str) -> tuple[str, ...]:
        return split_names(query, lambda name: any(key in self._by_key for key in spellings(name)))

    def _follow(self, number: int, currency: str) -> Instrument:
        """The record, or the one that took its place when it was only renamed."""
        instrument = read_row(self._rows[number])
        if instrument.status == "renamed" and (later := self.get(instrument.successor)) is not None:
            return later
        return priced_in(instrument, currency)

    def _near(self, key: str) -> tuple[Instrument, ...]:
        """Records whose keys look alike, the most alike first, then those whose keys begin with it."""
        letters = unicodedata.normalize("NFD", key)
        if len(letters) < _FEWEST_LETTERS:
            return ()
        matcher = SequenceMatcher(autojunk=False)
        matcher.set_seq2(letters)
        alike: list[tuple[float, int]] = []
        for known, numbers in self._by_key.items():
            if known.startswith(key):
                alike.extend((0.0, number) for number in numbers)
            elif abs(len(known) - len(key)) <= 2 and (known[0] == key[0] or known[-1] == key[-1]):
                matcher.set_seq1(unicodedata.normalize("NFD", known))
                if matcher.quick_ratio() >= _ALIKE and (ratio := matcher.ratio()) >= _ALIKE:
                    alike.extend((-ratio, number) for number in numbers)
        numbers = list(dict.fromkeys(number for _, number in sorted(alike)))
        return tuple(dict.fromkeys(self._follow(number, self._currency) for number in numbers[:_MOST_NEAR]))


@cache
def shipped_catalogue() -> Catalogue:
    """The shipped records alone. They are read when first asked for, and once."""
    return Catalogue(read_shipped())


def read_shipped() -> str:
    return gzip.decompress(SHIPPED.read_bytes()).decode()


def priced_in(instrument: Instrument, currency: str) -> Instrument:
    """The coin with its price in that currency; everything else as it is."""
    if instrument.kind != "coin" or instrument.currency == currency or currency not in COIN_CURRENCIES:
        return instrument
    return structs.replace(instrument, symbol=f"{instrument.bare_symbol}-{currency}", currency=currency)


def _names(line: str) -> list[str]:
    return line.split("\t")[8:10]


def read_row(line: str) -> Instrument:
    cells = line.split("\t")
    _, symbol, exchange, kind, market, share_type, share_class, currency, *rest = cells
    name_en, name_ko, isin, cik, status, successor, aliases = rest
    return Instrument(
        symbol=symbol,
        exchange=exchange,
        name_en=name_en,
        name_ko=name_ko or name_en,
        currency=currency,
        aliases=tuple(aliases.split(";")) if aliases else (),
        kind=cast(Kind, kind),
        market=market,
        share_type=cast(ShareType, share_type),
        share_class=share_class,
        isin=isin,
        cik=int(cik or 0),
        status=cast(Status, status),
        successor=successor,
    )


def write_row(instrument: Instrument, keys: Iterable[str] = ()) -> str:
    """One line of a catalogue, found by these keys, its codes, ISIN, names and aliases. Raises ValueError for a tab."""
    words = (*code_words(instrument), instrument.isin, instrument.name_en, instrument.name_ko, *instrument.aliases)
    all_keys = dict.fromkeys((*keys, *(key for word in words if (key := key_of_name(word)))))
    name_ko = "" if instrument.name_ko == instrument.name_en else instrument.name_ko
    cells = (
        f"|{'|'.join(all_keys)}|",
        *(instrument.symbol, instrument.exchange, instrument.kind, instrument.market, instrument.share_type),
        *(instrument.share_class, instrument.currency, instrument.name_en, name_ko, instrument.isin),
        *(str(instrument.cik or ""), instrument.status, instrument.successor, ";".join(instrument.aliases)),
    )
    if any(mark in cell for cell in cells for mark in "\t\r\n"):
        raise ValueError(f"a cell of {instrument.symbol} has a tab or a line break")
    return "\t".join(cells)


def code_words(instrument: Instrument) -> Iterator[str]:
    """The codes by which it is found: its symbol, alone and behind its market, and what people write in its place."""
    symbol, is_american = instrument.symbol, instrument.exchange in ("NYSE", "NASDAQ")
    if not (is_american and symbol in COINS_THAT_WIN):
        yield symbol
    yield f"{instrument.exchange}:{symbol}"
    yield f"{instrument.listed_on}:{symbol}"
    if instrument.kind == "coin":
        coin = instrument.bare_symbol
        yield from (coin, f"CRYPTO:{coin}", f"{coin}USD", f"{coin}KRW", f"KRW-{coin}")
    elif instrument.exchange == "KRX" and instrument.kind != "index":
        yield f"A{symbol}"
        yield from (f"{symbol}.{each}" for each in _YAHOO_SUFFIXES.get(instrument.market, ("KS", "KQ")))


def _currency_in(query: str) -> str:
    """The currency that a person names beside a coin: `BTC/KRW`, `KRW-BTC`, `비트코인 원화`."""
    key = key_of_name(query)
    words = {"KRW": "원화", "USD": "달러"}
    return next((each for each in COIN_CURRENCIES if each.casefold() in (key[:3], key[-3:]) or words[each] in key), "")
