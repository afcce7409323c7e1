"""The names in a clause: what is left of it without the words that only ask.

There is no dictionary of companies here. The tools know which names there are; what they do not know is asked back.
"""

import re
from collections.abc import Iterator
from itertools import groupby

from finclaw.demo.assistant.intent import Intent
from finclaw.demo.assistant.vocabulary import PARTICLE, asks_for_nothing_else, is_vocabulary, without_phrases

MOST_NAMES = 6
"""In one question. More are not looked up: whoever pastes a page wants something else."""
_LONGEST_NAME = 40
_MOST_BARE_WORDS = 8

_WORD = re.compile(r"[^\s()\[\]{}<>\"“”‘,、，]+|[,、，]")


_ATTACHED = re.compile(f"(?<=.)(?:주가|시세|가격|현재가|종가|얼마|얼만|차트|등락|수익률){PARTICLE}?$")
_JOINS = frozenset(("and", "or", "vs", "vs.", "versus", "/", "그리고", "및", "또는", "랑", "하고", "와", "과"))
_JOINS_AT_THE_END = re.compile("(?<=.)(?:랑|하고|와|과)$")
_EXCHANGE_RATE = re.compile(r"\bexchange rates?\b", re.IGNORECASE)
"""One word, for each of its two would be empty."""
_JAMO = re.compile("[ㄱ-ㆎ\u1100-\u11ff]+")
"""ㅋㅋ, ㄱㄱ: laughter and haste, and never a name."""
_INSIDE = frozenset(("of", "&"))
"""Between two words of a name they belong to it: Bank of America, Johnson & Johnson."""

_SIGN = re.compile(r"(?:^|(?<=\s))[-−–*×÷=%^+<>≥≤/]+(?=\s|$)|(?<=\d)\s+%|[<>≥≤]=?(?=\s?\d)")
"""Signs that stand by themselves: what is asked is a sum, a difference or a condition."""


def is_bare(text: str) -> bool:
    """A few names and nothing else, as people write to a bot that tells prices: `AAPL?`, `삼성전자 애플`."""
    words = list(_words(without_phrases(text)))
    return len(words) <= _MOST_BARE_WORDS and all(map(asks_for_nothing_else, words))


def names_in(text: str, intent: Intent | None, *, past: bool = False) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Runs of neighbouring words that only a name explains: `SK hynix and Apple` are two. And what cannot be a name."""
    words = list(_words(_EXCHANGE_RATE.sub("exchange-rate", without_phrases(text))))
    empty = [is_vocabulary(word, intent, past=past) or bool(_JAMO.fullmatch(word)) for word in words]
    runs = (" ".join(run) for is_name, run in groupby(_pieces(words, empty), key=bool) if is_name)
    found = tuple(dict.fromkeys(runs))
    left = tuple(name for name in found if not _can_be_name(name))
    signs = tuple(each.strip() for each in _SIGN.findall(text))
    return tuple(name for name in found if name not in left), (*left, *signs)


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match.group().strip(".:;!?'’*_`~…？！。|=#") or match.group()
        word = re.sub("['’]s$", "", word)
        if any(map(str.isalnum, word)) or word in ("&", "/", ",", "、", "，"):
            yield "," if word in "、，" else word


def _pieces(words: list[str], empty: list[bool]) -> Iterator[str]:
    """The clause word by word, with "" wherever one name ends and another may begin."""
    for place, word in enumerate(words):
        if word.casefold() in _INSIDE and _between_names(words, empty, place):
            yield word
        elif word in (",", "&") or word.casefold() in _JOINS or empty[place]:
            yield ""
        elif attached := _ATTACHED.search(word):
            yield word[: attached.start()]
            yield ""
        else:
            yield word
            if _JOINS_AT_THE_END.search(word):
                yield ""


def _between_names(words: list[str], empty: list[bool], place: int) -> bool:
    around = [at for at in (place - 1, place + 1) if 0 <= at < len(words)]
    return len(around) == 2 and not any(
        empty[at] or words[at] == "," or words[at].casefold() in _JOINS for at in around
    )


def _can_be_name(name: str) -> bool:
    """Short, and more than a bare amount: only the six places of a KRX code may be all digits."""
    if len(name) > _LONGEST_NAME:
        return False
    return any(map(str.isalpha, name)) or bool(re.fullmatch("[0-9]{6}", name))
