"""Search in short texts, such as notes and descriptions of tools: their words, and a ranking by BM25.

A note is found by any form of a word: English endings and Korean particles are taken off by a few rules of our own. A
stemmer from a library merges short words that mean different things (`care` and `car`), knows no Korean particles, and
would be a dependency for thirty lines. Ours tries what the plain word may be and keeps the word as it stands besides:
two words meet when they have one form in common, so that a wrong guess merges nothing.
"""

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


# ── forms of words ──────────────────────────────────────────────────────────────────────────────────────────

_MOST_ASKED: Final = 48
"""Different words of one question; the rest of a long message adds little but work."""
_LONGEST_QUESTION: Final = 4_000  # characters of a message that are looked at

# fmt: off
_SAID_OFTEN: Final = frozenset(words(
    "a about am an and any anything are as ask at be been but by can could did do does doing for from get give go "
    "had has have he hello her hi him his how i if in into is it its just know let like ll look make many may me "
    "memory more most much my need no not note now of ok on one or our out over please re remember save say see "
    "she should show so some tell than thank thanks that the their them then there these they thing think this to "
    "today too up us ve very want was we well were what when where which who why will with would yes you your "
    "customer person user "
    "그것 그냥 그리고 기억해 기억해줘 기억나 까지 나는 나의 내가 내 너는 네가 누구 다시 대해 대해서 대한 더 "
    "때문에 또 뭐야 뭐지 뭐였지 메모 무슨 무엇 보여줘 부터 부탁해 설명해줘 습니다 아니 안녕하세요 알고 알려줘 "
    "알려주세요 알려 어디 어때 어떻게 어떤 언제 얼마 얼마나 얼마야 에게 에서 오늘 왜 으로 이거 이것 이번 이야 "
    "이에요 인가요 입니까 입니다 있나요 있는 있니 있어 있어요 저는 저장해 저장해줘 저의 제가 좀 좋아 주세요 지금 "
    "찾아줘 추천해줘 하고 하는 하면 하지 할까 할까요 합니다 해줘 해주세요 했지"
))
# fmt: on
"""Words, and pairs of Korean letters, that say nothing about what a message is about."""

_PARTICLE: Final = re.compile(
    "(?:에서[는도]|에게는?|으로[는도]?|까지는?|부터는?|보다는?|이?라[도는]|이나|이랑|이[고며]|에[서는도]|로는|한테|처럼|마다|조차|하고|께서?"
    "|[은는이가을를의에도만로와과])$"
)
_LONGEST_PARTICLE: Final = 3
_OF_ONE_SYLLABLE: Final = frozenset("금은집차딸돈빚땅콩밀쌀꿈술약몸암개밥책")
"""Nouns that are found though they have one syllable. Others are not: too many endings look like one."""


def index_words(text: str) -> list[str]:
    return [form for word in _words(text) for form in forms(word)]


def forms(word: str) -> tuple[str, ...]:
    """The word, and what it may be a form of."""
    if not (word.isascii() and word.isalpha() and len(word) > 3):
        return (word,)
    return (word, *dict.fromkeys(each for each in _plain_forms(word) if each != word and each not in _SAID_OFTEN))


def _plain_forms(word: str) -> Iterator[str]:
    """Of an English word. Nothing shorter than four letters comes of an ending, but for a doubled or a clear one."""
    if word.endswith("ie"):  # companies, without its s
        yield f"{word[:-2]}y"
    if word.endswith(("sse", "xe", "ze", "che", "she")) and len(word) > 3:  # losses, taxes
        yield word[:-1]
    if word.endswith("ied") and len(word) > 4:
        yield f"{word[:-3]}y"
    elif word.endswith("eed"):
        if len(word) > 5:  # agreed; feed is no form of fee
            yield word[:-1]
    elif word.endswith("ed"):
        yield from _without_ending(word[:-2])
    elif word.endswith("ing"):
        yield from _without_ending(word[:-3])


def _without_ending(stem: str) -> Iterator[str]:
    if len(stem) > 3 or (len(stem) == 3 and stem[-1] in "wxy"):  # taxed, buying
        yield stem
    if len(stem) > 2:  # rated, hedging
        yield f"{stem}e"
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "aeiou":  # planned
        yield stem[:-1]


def _words(text: str) -> Iterator[str]:
    for run in runs(text):
        if is_unspaced(run):
            yield from _korean(run)
        else:
            yield singular(run)


def _korean(run: str) -> Iterator[str]:
    """Pairs of letters, without the particle that a word ends in."""
    particle = _PARTICLE.search(run, max(0, len(run) - _LONGEST_PARTICLE))
    noun = run if particle is None else run[: particle.start()]
    if noun in _OF_ONE_SYLLABLE:
        yield noun
    else:
        yield from pairs(noun if len(noun) > 1 else run)


def query_words(question: str) -> list[str]:
    """What a note must have one of. Empty for a question that is about nothing."""
    asked = dict.fromkeys(
        word
        for word in _words(question[:_LONGEST_QUESTION])
        if word not in _SAID_OFTEN and (len(word) > 1 or word.isdigit() or word in _OF_ONE_SYLLABLE)
    )
    return list(asked)[:_MOST_ASKED]
