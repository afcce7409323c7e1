"""Keys under which instruments are looked up, and the spellings of a person's words that are tried, longest first.

No spelling is a guess: only words and endings that name nothing are taken away, from the ends of the text and never
from its middle, and what is left must be a whole name.
"""

import re
import unicodedata
from collections.abc import Iterator

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
_MOST_PARTICLES = 3

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
    head, last = " ".join(words[:-1]), words[-1].strip(_EDGES)
    for stem in _stems(last, _MOST_PARTICLES):
        yield key_of_name(f"{head} {stem}")
        without_suffix = drop_legal_suffix(f"{head} {stem}")
        yield key_of_name(without_suffix)


def _stems(word: str, left: int) -> Iterator[str]:
    """The word itself first, so that a name which happens to end like a particle is found whole."""
    yield word
    if left:
        for particle in _PARTICLES:
            if word.endswith(particle) and word != particle:
                yield from _stems(word.removesuffix(particle), left - 1)


def _fold_word(word: str) -> str:
    return word.casefold().strip(_EDGES)


def is_plain_name(text: str) -> bool:
    """Whether this is a name as lists have them: 100 characters of letters, digits and common punctuation at most."""
    return _PLAIN_NAME.fullmatch(text) is not None
