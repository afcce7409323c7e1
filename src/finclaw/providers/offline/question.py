"""Reading a person's question: its language, and the names whose price is asked.

There is no dictionary of companies here. What is left of a price question without the words that only ask is taken
for a name, and the quote tool decides whether it is one.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Language = Literal["en", "ko"]

MOST_NAMES = 5
"""More names than this are not a question about prices but a text that happens to mention one."""
_LONGEST_NAME = 40

_HANGUL = re.compile("[ㄱ-ㆎ가-힣]")
_CLAUSE_END = re.compile(r"[,;?!、，。？！\n]|\.\s")
_WORD = re.compile(r"[^\s()\[\]{}\"“”‘]+")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ASKS = re.compile(
    r"\b(?:how much|prices?|quotes?|trades?|trading|worth|costs?|stocks?|shares?|rate)\b"
    "|주가|시세|가격|현재가|종가|환율|얼마|얼만",
    re.IGNORECASE,
)

_EMPTY_EN = _set("""
    a about am an any are as at be buy can check cost costs could current currently do does doing dollars for from get
    give go going has have hello hey hi how i if in is it its know latest let like live look lookup market me much my
    need now of on one out per please price prices quote quotes right sell share shares should show so stock stocks
    tell thanks that the their then there these think this to today tomorrow trade trades trading up us value want was
    we were what whats when where which who will with won worth would yesterday you your
""")
_EMPTY_KO = re.compile(
    # Nouns with or without a particle; only whole words, for 오늘이엔엠 and 인지컨트롤스 are companies.
    "(?:현재|지금|오늘|방금|요즘|최근|실시간|주가|주식|시세|가격|현재가|종가|값|좀|그럼|혹시|나|내|저|제|몇|이|그)"
    "(?:은|는|이|가|을|를|의|도|만|에|로|요|야|이야|예요|이에요|인가요|인지)?"
    # Verbs of asking, in whatever form and politeness.
    "|(?:얼마|얼만|알려|알고|보여|궁금|확인|가르쳐|말해|찾아|조회|부탁|어때|어떻게|무엇|뭐|뭔|해줘|해주|해봐|줘|주세요|싶).*"
    "|돼|돼요|되나요|됐어|인가요|인지"
)
_HOW_MANY = re.compile(r"몇\s*(?:달러|원)\S*")
"""Here the currency is only a unit; elsewhere 달러 is what is asked about."""

_PRICE_WORD_ATTACHED = re.compile("(?<=.)(?:주가|시세|가격|현재가|얼마|얼만).*$")
_JOINS = _set("and or vs versus & + / 그리고 및 또는 랑 하고 와 과")
_JOINS_AT_THE_END = re.compile("(?<=.)(?:랑|하고|와|과)$")

_SMALL_TALK_EN = _set("bye good help no nope ok okay ping sorry start stop test thank yes")
_SMALL_TALK_KO = re.compile(
    "(?:안녕|고마|감사|도움|도와|반가|반갑|미안|좋아|아니).*|네|넵|예|응|그래|하이|테스트|[ㄱ-ㆎ]+"
)


@dataclass(frozen=True, slots=True)
class Question:
    language: Language
    names: tuple[str, ...]
    """Whose price is asked; empty when it is no question about prices."""


def read_question(text: str) -> Question:
    text = _HOW_MANY.sub("얼마", unicodedata.normalize("NFC", text))
    clauses = [list(_words(clause)) for clause in _CLAUSE_END.split(text)]
    found = _names(clauses) if _ASKS.search(text) else _bare_name(clauses)
    names = tuple(dict.fromkeys(name for name in found if _can_be_name(name)))
    return Question("ko" if _HANGUL.search(text) else "en", names if len(names) <= MOST_NAMES else ())


def _bare_name(clauses: list[list[str]]) -> Iterator[str]:
    """A name and nothing else, as people write to a bot that tells prices: `AAPL?`, `삼성전자`."""
    words = [word for clause in clauses for word in clause]
    if len(words) == 1 and not _is_empty(words[0]) and not _is_small_talk(words[0]):
        yield words[0]


def _names(clauses: list[list[str]]) -> Iterator[str]:
    """Runs of neighbouring words that are neither empty nor joints: `SK hynix and Apple` are two."""
    pieces = [piece for clause in clauses for piece in (*_pieces(clause), "")]
    return (" ".join(run) for is_name, run in groupby(pieces, key=bool) if is_name)


def _pieces(clause: list[str]) -> Iterator[str]:
    """The clause word by word, with "" wherever one name ends and another may begin."""
    for word in clause:
        if _is_empty(word) or word.casefold() in _JOINS:
            yield ""
        elif price_word := _PRICE_WORD_ATTACHED.search(word):
            yield word[: price_word.start()]
            yield ""
        else:
            yield word
            if _JOINS_AT_THE_END.search(word):
                yield ""


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match.group().strip(".:'’*_`~…")
        word = re.sub("['’]s$", "", word)
        if word:
            yield word


def _is_empty(word: str) -> bool:
    return word.casefold() in _EMPTY_EN or bool(_EMPTY_KO.fullmatch(word))


def _is_small_talk(word: str) -> bool:
    return word.casefold() in _SMALL_TALK_EN or bool(_SMALL_TALK_KO.fullmatch(word))


def _can_be_name(name: str) -> bool:
    """Short, and more than a bare amount: only the six places of a KRX code may be all digits."""
    if len(name) > _LONGEST_NAME:
        return False
    return any(map(str.isalpha, name)) or bool(re.fullmatch("[0-9]{6}", name))
