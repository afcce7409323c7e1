"""The words beside a number, which tell a card from a market value."""

import re
from typing import Final

_BEFORE: Final = 40
# Patterns of small letters on small letters: the engine then skips whatever begins none of the words.
_CARD: Final = re.compile(r"card|visa|master|amex|카드|신용|체크|pan\b(?<!\wpan)")
_RESIDENT: Final = re.compile(r"주민|외국인\s?등록|resident|rrn\b(?<!\wrrn)")
_SOCIAL: Final = re.compile(r"ssn\b(?<!\wssn)|social.?security|사회\s?보장")
_MARKET: Final = re.compile(
    # By their first letters: at each letter only those that begin with it are tried.
    r"a(?:mount|sset)|b(?:alance|lock)|cap|d(?:ate|ebt)|equity|hash|i(?:ncome|nvoice|d\b(?<!\wid)|d\")|nonce"
    r"|o(?:rder|utstanding)|pr(?:ice|ofit)|revenue|s(?:ales|erial|hares|tamp|upply)|t(?:ime|otal|ra(?:de|cking)|urnover)"
    r"|ts\b(?<!\wts)|v(?:alue|olume)|_id|₩\s?$|\$\s?$|€\s?$|£\s?$|¥\s?$"
    r"|총액|금액|대금|거래량|매출|자산|이익|부채|자본|잔고|시각|주문|체결|번호표|운송장|송장|합계|수량|발행|주식"
)
UNIT: Final = (
    r"(?:[ \xa0]?(?:won|krw|usd|dollar|달러|yen|jpy|eur|shares|%|ms\b|ns\b)"
    # Attached, whatever follows it but the beginning of another word: 주민, 주소, 조회, 만기.
    r"|(?:원|엔|주(?![민소문])|억|조(?!회)|만(?!기))| (?:원|엔|주|억|조|만)(?![가-힣]))"
)
"""What makes a number an amount."""
_UNIT: Final = re.compile(UNIT, re.IGNORECASE)
_FIELD: Final = re.compile(r"[\n{};|]|,\s*\"")

_NO_UNIT: Final = frozenset(",;:\n\t\"'|)]}")
"""What most often stands behind a number that has none."""


def says_card(text: str, start: int) -> bool:
    return _says(_CARD, text, start)


def says_resident(text: str, start: int) -> bool:
    return _says(_RESIDENT, text, start)


def says_social(text: str, start: int) -> bool:
    return _says(_SOCIAL, text, start)


def says_market(text: str, start: int, end: int) -> bool:
    has_unit = text[end : end + 1] not in _NO_UNIT and _UNIT.match(text, end) is not None
    return has_unit or _says(_MARKET, text, start)


def _says(word: re.Pattern[str], text: str, start: int) -> bool:
    """Back to the last label at most: what stands in another field or line says nothing about this one."""
    near = text[max(0, start - _BEFORE) : start]
    if word.search(near.casefold()) is None:
        return False
    return word.search(_FIELD.split(near)[-1].casefold()) is not None
