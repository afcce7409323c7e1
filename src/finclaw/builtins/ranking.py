"""Ranking of short texts by a question: BM25, over the words of English, Korean and their neighbours."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WITHOUT_SPACES: Final = "ㄱ-ㆎ가-힣ぁ-ヿ一-鿿"
_UNSPACED: Final = re.compile(f"[{_WITHOUT_SPACES}]")
_RUN: Final = re.compile(rf"[{_WITHOUT_SPACES}]+|[0-9]+|[^\W\d_{_WITHOUT_SPACES}]+")

SATURATION: Final = 1.2  # how soon more of the same word stops counting (BM25's k1)
LENGTH: Final = 0.5  # how much a long text counts against itself (its b)


def words(text: str) -> Iterator[str]:
    """Words of `getStockPrice`, `stock_prices` and `주식가격을` that meet.

    Where endings and particles grow on words without a space, pairs of letters are what two forms have in common.
    """
    for run in runs(text):
        if is_unspaced(run):
            yield from pairs(run)
        else:
            yield singular(run)


def runs(text: str) -> Iterator[str]:
    """Letters or digits that stand together, in small letters: a word, or several where no spaces are written."""
    yield from _RUN.findall(_HUMP.sub(" ", unicodedata.normalize("NFC", text)).casefold())


def is_unspaced(run: str) -> bool:
    return _UNSPACED.match(run) is not None


def pairs(run: str) -> Iterator[str]:
    return (run[at : at + 2] for at in range(max(1, len(run) - 1)))


def singular(word: str) -> str:
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def rank(query: str, texts: Sequence[Mapping[str, float]]) -> list[int]:
    """The places of the texts that have anything of the query, best first; of equals the earlier.

    A text is given as its words, each with its weight.
    """
    asked = Counter(words(query))
    sizes = [sum(text.values()) for text in texts]
    usual = sum(sizes) / max(len(sizes), 1) or 1
    worth = {word: rarity(sum(word in text for text in texts), len(texts)) for word in asked}
    scores = [
        sum(times * worth[word] * weigh(text.get(word, 0), size / usual) for word, times in asked.items())
        for text, size in zip(texts, sizes, strict=True)
    ]
    return sorted((place for place, score in enumerate(scores) if score > 0), key=lambda place: -scores[place])


def rarity(having: int, texts: int) -> float:
    """What a word is worth that so many of the texts have."""
    return math.log(1 + (texts - having + 0.5) / (having + 0.5))


def weigh(count: float, length: float) -> float:
    """What a word counts that a text has so often; `length` is the text's, where 1 is the usual one."""
    return count * (SATURATION + 1) / (count + SATURATION * (1 - LENGTH + LENGTH * length))
