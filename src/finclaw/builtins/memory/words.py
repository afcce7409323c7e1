"""The words by which notes are found: as they are indexed, and as they are asked for."""

import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Final

from finclaw.builtins.ranking import words

_MOST_ASKED: Final = 48
"""Different words of one question; the rest of a long message adds little but work."""
_LONGEST_QUESTION: Final = 4_000
"""Characters of a message that are looked at."""

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


def indexed(text: str) -> list[str]:
    return list(words(text))


def asked(question: str) -> list[str]:
    """What a note must have one of. Empty for a question that is about nothing."""
    return list(islice(_telling(question[:_LONGEST_QUESTION]), _MOST_ASKED))


def _telling(question: str) -> Iterator[str]:
    seen = set(_SAID_OFTEN)
    for word in words(question):
        if word not in seen and not (len(word) == 1 and not word.isdigit()):
            seen.add(word)
            yield word


def folded(text: str) -> str:
    """What two spellings of one note have in common."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(" .!?。…")
