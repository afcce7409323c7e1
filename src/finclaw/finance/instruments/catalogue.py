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

from finclaw.finance import instrument as lookup
from finclaw.finance.instrument import Ambiguous, Instrument, ShareType, Status, Unknown
from finclaw.finance.venue import Kind

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
        if not self._added:
            return False
        words = self._added.keys() & _SYMBOL_WORD.findall(text)
        return any(name in text for word in words for name in self._added[word])

    def rows(self) -> Iterator[tuple[Instrument, tuple[str, ...]]]:
        for line in self._rows:
            yield read_row(line), tuple(line.partition("\t")[0][1:-1].split("|"))

    def get(self, symbol: str) -> Instrument | None:
        if (number := self._by_symbol.get(symbol)) is not None:
            return read_row(self._rows[number])
        coin, _, currency = symbol.partition("-")
        number = self._by_symbol.get(f"{coin}-USD")
        if number is None or currency not in COIN_CURRENCIES:
            return None
        return priced_in(read_row(self._rows[number]), currency)

    def find(self, query: str, currency: str = "") -> Instrument | Ambiguous | Unknown:
        for key in spellings(query):
            if numbers := self._by_key.get(key):
                wanted = _currency_in(query) or currency or self._currency
                return lookup.one_or_ambiguous(tuple(dict.fromkeys(self._follow(number, wanted) for number in numbers)))
        return Unknown(self._near(key_of_name(query)))

    def split(self, query: str) -> tuple[str, ...]:
        return lookup.split_names(query, lambda name: any(key in self._by_key for key in spellings(name)))

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
    return Catalogue(read_shipped())


def read_shipped() -> str:
    return gzip.decompress(SHIPPED.read_bytes()).decode()


def priced_in(instrument: Instrument, currency: str) -> Instrument:
    if instrument.kind != "coin" or instrument.currency == currency or currency not in COIN_CURRENCIES:
        return instrument
    return structs.replace(instrument, symbol=f"{instrument.bare_symbol}-{currency}", currency=currency)


def _names(line: str) -> list[str]:
    return line.split("\t")[8:10]


def read_row(line: str) -> Instrument:
    _, symbol, exchange, kind, market, share_type, share_class, currency, *rest = line.split("\t")
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
    symbol = instrument.symbol
    if instrument.exchange not in ("NYSE", "NASDAQ") or symbol not in COINS_THAT_WIN:
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


_SIGNED = re.compile(r"(?<![^\s(])[-+](?=\d)")
"""A sign before a number is part of a name: `-2X` is the opposite of `2X`."""
_SIGNS = {"-": "\0", "+": "\1"}
_FROM_SIGNS = str.maketrans({"\0": "-", "\1": "+"})

_PARTICLES = (
    *("은", "는", "이", "가", "을", "를", "의", "도", "만", "과", "와", "랑", "이랑", "하고", "에", "로", "으로"),
    *("요", "야", "이야", "예요", "이에요", "입니다", "인가요"),
    *("주가", "주식", "시세", "가격", "현재가", "종가"),
)
"""What Korean writes onto the last word of a name: particles, the copula, and the words for its price."""

_WORDS_BEFORE = frozenset(
    (
        *("오늘", "지금", "현재", "요즘", "최근", "어제", "내일", "이번", "혹시", "그럼", "그러면"),
        *("today", "now", "current", "latest", "the", "what", "whats", "what's", "is", "how", "much"),
        *("price", "quote", "stock", "shares", "share", "of", "for", "about", "show", "me", "get", "a"),
    )
)
_WORDS_AFTER = frozenset(
    (
        *("주가", "주식", "시세", "가격", "현재가", "종가", "시가", "차트", "뉴스", "실적", "배당", "전망", "공시"),
        *("현재", "지금", "오늘", "요즘", "최근", "어제", "얼마", "얼마야", "얼마에요", "얼마예요", "얼마인가요"),
        *("얼마임", "얼마지", "어때", "어때요", "알려줘", "알려주세요", "알려", "보여줘", "보여주세요", "좀", "확인"),
        *("얼마니", "몇", "원", "원이야", "코인", "종목", "보통주", "원화", "원화로", "달러로"),
        *("stock", "stocks", "share", "shares", "price", "prices", "quote", "chart", "news", "today", "now", "please"),
        *("current", "common", "coin", "right", "doing", "trading", "at", "worth"),
    )
)
_LEGAL_SUFFIXES = frozenset(
    (
        *("inc", "incorporated", "corp", "corporation", "co", "company", "companies", "ltd", "limited", "plc", "llc"),
        *("lp", "sa", "nv", "ag", "se", "ab", "asa", "spa", "bv", "kgaa", "the", "&", "and"),
    )
)
_EDGES = " \t\r\n?!.,;:~'\"“”‘’「」『』()[]$#"
_PLAIN_NAME = re.compile(r"(?:[^\W_]|[ \xa0.,:&%$+!?=~/()\[\]#*@\x22'\u2019\xae\u2122\u2013\u2014\xb7-]){1,100}")


def key_of_name(text: str) -> str:
    """Spelling without what people vary: case, spaces, marks, full-width forms. A sign before a number stays."""
    normal = unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-").casefold()
    signed = _SIGNED.sub(lambda sign: _SIGNS[sign[0]], normal)
    return "".join(char for char in signed if char.isalnum() or char in "\0\1").translate(_FROM_SIGNS)


def drop_legal_suffix(name: str) -> str:
    """The name as people say it: `The Coca-Cola Company` is Coca-Cola."""
    words = name.replace(",", " ").split()
    while len(words) > 1 and _fold_word(words[-1]) in _LEGAL_SUFFIXES:
        words.pop()
    return " ".join(words[1:] if len(words) > 1 and _fold_word(words[0]) == "the" else words)


def spellings(text: str) -> Iterator[str]:
    """The keys to be looked up for what a person wrote, one after the other; the first that is known is meant."""
    words = unicodedata.normalize("NFKC", text).strip(_EDGES).split()
    seen: set[str] = set()
    for part in _parts(words):
        for key in _without_particles(part):
            if key and key not in seen:
                seen.add(key)
                yield key


def _parts(words: list[str]) -> Iterator[list[str]]:
    """The words without more and more of those at their ends that name nothing; the longest rest first."""
    before = _count_leading(words, _WORDS_BEFORE)
    after = _count_leading(words[::-1], _WORDS_AFTER)
    cuts = ((first, last) for first in range(before + 1) for last in range(after + 1))
    for first, last in sorted(cuts, key=sum):
        if first + last < len(words):
            yield words[first : len(words) - last]


def _count_leading(words: list[str], fillers: frozenset[str]) -> int:
    return next((n for n, word in enumerate(words) if _fold_word(word) not in fillers), len(words))


def _without_particles(words: list[str]) -> Iterator[str]:
    head = " ".join(words[:-1])
    for stem in lookup.drop_endings(words[-1].strip(_EDGES), _PARTICLES):
        yield key_of_name(f"{head} {stem}")
        yield key_of_name(drop_legal_suffix(f"{head} {stem}"))


def _fold_word(word: str) -> str:
    return word.casefold().strip(_EDGES)


def is_plain_name(text: str) -> bool:
    """Whether this is a name as lists have them: 100 characters of letters, digits and common punctuation at most."""
    return _PLAIN_NAME.fullmatch(text) is not None
