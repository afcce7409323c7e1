"""What can be priced, and how a person's word for it is understood.

Only codes, names and listed aliases are understood. A near miss is offered back and never taken: a plausible
price of the wrong company is the worst answer there is.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    symbol: str
    exchange: str
    name_en: str
    name_ko: str
    currency: str
    aliases: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.name_en if self.name_en == self.name_ko else f"{self.name_en} ({self.name_ko})"


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """One word that several instruments go by; only the person knows which is meant."""

    candidates: tuple[Instrument, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """No such instrument. `near` ones look alike, best first."""

    near: tuple[Instrument, ...]


_ENDINGS = (
    # Particles, which Korean writes onto the name: 삼성전자는, 애플의, 테슬라랑.
    *("은", "는", "이", "가", "을", "를", "의", "도", "만", "과", "와", "랑", "이랑", "하고", "에", "로", "으로"),
    # The copula of a question that is a name and nothing else: 삼성전자야? 애플이에요?
    *("요", "야", "이야", "예요", "이에요", "입니다", "인가요"),
    # What people add to say that they mean the paper and not the product.
    *("주가", "주식", "시세", "가격", "현재가", "stock", "stocks", "share", "shares", "price", "inc", "corp"),
)
_MOST_ENDINGS = 3


class Instruments:
    """All instruments of a market, found by free text."""

    def __init__(self, instruments: Iterable[Instrument]) -> None:
        self._by_symbol: dict[str, Instrument] = {}
        self._by_key: dict[str, tuple[Instrument, ...]] = {}
        for instrument in instruments:
            self._by_symbol[instrument.symbol] = instrument
            for key in dict.fromkeys(_key(word) for word in _words_for(instrument)):
                self._by_key[key] = (*self._by_key.get(key, ()), instrument)

    def __iter__(self) -> Iterator[Instrument]:
        return iter(self._by_symbol.values())

    def find(self, query: str) -> Instrument | Ambiguous | Unknown:
        key = _key(query)
        for stem in _stems(key, _MOST_ENDINGS):
            if found := self._by_key.get(stem):
                return found[0] if len(found) == 1 else Ambiguous(found)
        return Unknown(self._near(key))

    def _near(self, key: str) -> tuple[Instrument, ...]:
        alike = get_close_matches(key, self._by_key, n=5, cutoff=0.6)
        related = [known for known in self._by_key if _long_enough(key, known) and (key in known or known in key)]
        found = (instrument for known in (*alike, *related) for instrument in self._by_key[known])
        return tuple(dict.fromkeys(found))[:3]


def _words_for(instrument: Instrument) -> tuple[str, ...]:
    with_exchange = f"{instrument.exchange}:{instrument.symbol}"
    return (instrument.symbol, with_exchange, instrument.name_en, instrument.name_ko, *instrument.aliases)


def _key(text: str) -> str:
    """Spelling without what people vary: case, spaces, marks, full-width forms, decomposed Hangul."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _stems(key: str, endings_left: int) -> Iterator[str]:
    """The key itself first, so that a name which happens to end like a particle is found whole."""
    yield key
    if endings_left:
        for ending in _ENDINGS:
            if key.endswith(ending) and key != ending:
                yield from _stems(key.removesuffix(ending), endings_left - 1)


def _long_enough(key: str, known: str) -> bool:
    """Two syllables or four letters: shorter pieces are part of half the market."""
    return min(len(key.encode()), len(known.encode())) >= 4
