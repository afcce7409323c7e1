"""Instruments, and how a person's word for one is understood. A near miss is offered and never taken: a plausible
price of the wrong company is the worst answer there is."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Literal, Protocol

from msgspec import Struct

from finclaw.finance.venue import Kind

ShareType = Literal["", "preferred", "adr", "etn", "reit", "fund", "unit", "warrant", "right", "other"]
Status = Literal["listed", "unconfirmed", "delisted", "renamed"]
"""`unconfirmed`: of an old list, and not seen in a current one; `finclaw instruments refresh` settles it."""


class Instrument(Struct, frozen=True, kw_only=True):
    """A record of what is traded. `symbol` is ours (`005930`, `BTC-USD`); `vendor_symbols.py` has those of others."""

    symbol: str
    exchange: str  # the venue, whose hours it keeps: KRX, NYSE, NASDAQ, FX or CRYPTO
    name_en: str
    name_ko: str
    currency: str
    aliases: tuple[str, ...] = ()
    kind: Kind = "stock"
    market: str = ""
    """Where it is listed, where that is less than the venue: KOSPI and KOSDAQ of KRX, AMEX (with Arca and Cboe)."""
    share_type: ShareType = ""
    """What a stock or a fund is in particular; empty for a common share and for a plain ETF."""
    share_class: str = ""  # A or B of several ordinary classes; the series of a preferred share
    isin: str = ""
    """As looked up. It cannot be computed: those of preferred shares differ from their codes."""
    cik: int = 0
    status: Status = "listed"
    successor: str = ""

    @property
    def title(self) -> str:
        if self.name_en == self.name_ko:
            return self.name_en
        return f"{self.name_en} ({self.name_ko})"

    @property
    def id(self) -> str:
        """A name for good: a stock that moves from one exchange to another of its country keeps it."""
        country = {"NYSE": "US", "NASDAQ": "US"}.get(self.exchange, self.exchange)
        return f"{country}:{self.symbol}"

    @property
    def bare_symbol(self) -> str:
        """The symbol as people say it: of a coin without the currency it is priced in."""
        if self.kind == "coin":
            return self.symbol.partition("-")[0]
        return self.symbol

    @property
    def listed_on(self) -> str:
        return self.market or self.exchange

    @property
    def type(self) -> str:
        """common, preferred, adr, etf, etn, reit, fund, unit, warrant, right, other, index, rate or coin."""
        return self.share_type or {"stock": "common"}.get(self.kind, self.kind)


class Ambiguous(Struct, frozen=True):
    candidates: tuple[Instrument, ...]


class Unknown(Struct, frozen=True):
    near: tuple[Instrument, ...]


_ENDINGS = (
    # Particles, which Korean writes onto the name: 삼성전자는, 애플의, 테슬라랑.
    *("은", "는", "이", "가", "을", "를", "의", "도", "만", "과", "와", "랑", "이랑", "하고", "에", "로", "으로"),
    # The copula of a question that is a name and nothing else: 삼성전자야? 애플이에요?
    *("요", "야", "이야", "예요", "이에요", "입니다", "인가요"),
    # What people add to say that they mean the paper and not the product.
    *("주가", "주식", "시세", "가격", "현재가", "stock", "stocks", "share", "shares", "price", "inc", "corp"),
)

_JOINTS = frozenset(("and", "&", "+", "or", "vs", "그리고", "및", "랑", "이랑", "하고", "와", "과"))
_MOST_WORDS = 12
_EXCHANGES = ("krx0", "nasdaq", "nyse", "crypto", "fx")
"""How keys begin that name the exchange before the symbol; to share that much is no likeness."""
_ALIKE = 0.75
"""How much of the letters, of a Korean syllable too, must be the same: gold is not Google."""


class InstrumentIndex(Protocol):
    def __iter__(self) -> Iterator[Instrument]: ...
    def get(self, symbol: str) -> Instrument | None: ...
    # The one that goes by this, all that do, or none. A coin is priced in `currency` where there is a choice.
    def find(self, query: str, currency: str = "") -> Instrument | Ambiguous | Unknown: ...
    # The names in a text that is nothing but names: "apple tesla" are two. Empty when a word is left over.
    def split(self, query: str) -> tuple[str, ...]: ...


def one_or_ambiguous(found: tuple[Instrument, ...]) -> Instrument | Ambiguous:
    if len(found) == 1:
        return found[0]
    return Ambiguous(found)


def unique_symbol(index: InstrumentIndex, instrument: Instrument) -> str:
    """Its symbol, with the exchange where the symbol alone names something else too: `NYSE:KT` is not KT of Korea."""
    if index.find(instrument.symbol) == instrument:
        return instrument.symbol
    return f"{instrument.exchange}:{instrument.symbol}"


class Instruments:
    def __init__(self, instruments: Iterable[Instrument]) -> None:
        self._by_symbol: dict[str, Instrument] = {}
        self._by_key: dict[str, tuple[Instrument, ...]] = {}
        for instrument in instruments:
            self._by_symbol[instrument.symbol] = instrument
            with_exchange = f"{instrument.exchange}:{instrument.symbol}"
            names = (instrument.symbol, with_exchange, instrument.name_en, instrument.name_ko, *instrument.aliases)
            for key in dict.fromkeys(map(key_of, names)):
                self._by_key[key] = (*self._by_key.get(key, ()), instrument)

    def __iter__(self) -> Iterator[Instrument]:
        return iter(self._by_symbol.values())

    def get(self, symbol: str) -> Instrument | None:
        return self._by_symbol.get(symbol)

    def find(self, query: str, currency: str = "") -> Instrument | Ambiguous | Unknown:
        for stem in stems_of(query):
            if found := self._by_key.get(stem):
                return one_or_ambiguous(found)
        return Unknown(self._near(key_of(query)))

    def split(self, query: str) -> tuple[str, ...]:
        return split_names(query, lambda name: any(stem in self._by_key for stem in stems_of(name)))

    def _near(self, key: str) -> tuple[Instrument, ...]:
        by_letters = {unicodedata.normalize("NFD", known): known for known in self._by_key}
        letters = get_close_matches(unicodedata.normalize("NFD", key), by_letters, n=5, cutoff=_ALIKE)
        alike = [by_letters[each] for each in letters]
        names = (known for known in self._by_key if not known.startswith(_EXCHANGES))
        long = (known for known in names if min(len(key.encode()), len(known.encode())) >= 4)
        related = [known for known in long if key in known or known in key]
        found = (instrument for known in (*alike, *related) for instrument in self._by_key[known])
        return tuple(dict.fromkeys(found))[:3]


def split_names(query: str, knows: Callable[[str], bool]) -> tuple[str, ...]:
    """The names in a text; empty if a word is left over: 카카오 페이 must not give the price of 카카오."""
    words = [word for word in re.split(r"[\s,;/]+", query) if word and word.casefold() not in _JOINTS]
    if len(words) > _MOST_WORDS:
        return ()
    return _cut(tuple(words), knows)


def _cut(words: tuple[str, ...], knows: Callable[[str], bool]) -> tuple[str, ...]:
    """The longest name first, and every word in some name."""
    for size in range(len(words), 0, -1):
        name = " ".join(words[:size])
        rest = words[size:]
        if not knows(name):
            continue
        if not rest:
            return (name,)
        if others := _cut(rest, knows):
            return (name, *others)
    return ()


def key_of(text: str) -> str:
    """Spelling without what people vary: case, spaces, marks, full-width forms, decomposed Hangul."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def stems_of(text: str) -> Iterator[str]:
    """The word as it is looked up, then without the endings people put on it, one after the other."""
    return drop_endings(key_of(text), _ENDINGS)


def drop_endings(word: str, endings: Sequence[str], most: int = 3) -> Iterator[str]:
    """The word itself first, so that a name which happens to end like a particle is found whole."""
    yield word
    if most:
        for ending in endings:
            if word.endswith(ending) and word != ending:
                yield from drop_endings(word.removesuffix(ending), endings, most - 1)
