"""A filter against forged cards: only the gateway may show approval ids, the commands that use one, and a card's head.

A model that writes them could make a false card look true. It is told no id (`kernel/approval_id.py`), so whatever
looks like one in its words is made up, or was guessed.
"""

import re
import unicodedata
from typing import Final

from finclaw.approvals.card import TITLES
from finclaw.transcript.approval_ids import ID_IN_TEXT, MARK

_COMMAND: Final = re.compile(
    r"\S{0,8}\b(?:approve|deny)\b[\s`*_\"':]{1,8}ap-\S{0,40}|\S{0,8}(?:승인|거부)[\s`*_\"':]{1,8}ap-\S{0,40}",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(
    r"^(?:[^\S\n]|[>*_#`])*+(?:" + "|".join(map(re.escape, TITLES)) + r")(?:[^\S\n]|[*_`])*+$",
    re.IGNORECASE | re.MULTILINE,
)
_UNSEEN: Final = (
    r"[*_~`\u00ad\u0300-\u036f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u20d0-\u20ff\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
"""What a reader does not see inside a word: hidden characters, and marks of Markdown."""
_WIDE: Final = "\U0001d400-\U0001d7ff\u24b6-\u24ea"
"""Letters and digits of mathematics, and those in circles."""
_DASH: Final = "-\u02d7\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d"
_CYRILLIC: Final = str.maketrans("аверсухкмтнАВЕРСУХКМТН", "abepcyxkmthABEPCYXKMTH")
_LETTER: Final = (
    rf"[0-9A-TV-Za-tv-z\uff10-\uff19\uff21-\uff34\uff36-\uff3a\uff41-\uff54\uff56-\uff5a{_WIDE}аверсухкмтнАВЕРСУХКМТН]"
)
_DISGUISED: Final = re.compile(
    rf"[aAаАａＡ{_WIDE}]{_UNSEEN}*+[pPрРｐＰ{_WIDE}]{_UNSEEN}*+[{_DASH}](?:{_UNSEEN}*+{_LETTER}){{6,60}}+"
)
"""An id to the eye, in whatever letters: a person who reads it would type the id."""
_LENGTH: Final = len("ap-") + 26
_READ_AS_ID: Final = re.compile(r"ap-(?:[0-7oil][0-9a-tv-z]{25,}|(?=[0-9]*[a-z])[0-7][0-9a-tv-z]{5,24})")
_TITLE_STARTS: Final = tuple(title[:8].casefold() for title in TITLES)
_REMOVED: Final = {"en": "[only the gateway shows approval ids]", "ko": "[승인 ID는 게이트웨이만 보여 줍니다]"}


def without_forged_consent(text: str) -> str:
    """The very same text where nothing in it looks like a card's own words."""
    if not _may_hold_consent(text):
        return text
    mark = _REMOVED["ko" if re.search("[가-힣]", text) else "en"]
    clean = _COMMAND.sub(mark, text)
    clean = ID_IN_TEXT.sub(mark, clean).replace(MARK, mark)
    clean = _DISGUISED.sub(lambda found: mark if _reads_as_id(found) else found[0], clean)
    clean = _TITLE.sub("", clean)
    return text if clean == text else clean


def _may_hold_consent(text: str) -> bool:
    """A quick look, False for most texts: every word that is shown passes here (`cpu_plain`)."""
    folded = text.casefold()
    if any(map(folded.__contains__, _TITLE_STARTS)):
        return True
    has_dash = "-" in text or not text.isascii()
    return has_dash and ("ap-" in folded or _DISGUISED.search(text) is not None)


def _reads_as_id(found: re.Match[str]) -> bool:
    start, end = found.span()
    around = found.string[max(0, start - 1) : start] + found.string[end : end + 1]
    seen = unicodedata.normalize("NFKC", re.sub(_UNSEEN, "", found[0]).translate(_CYRILLIC)).lower()
    seen = "".join(letter if letter.isalnum() else "-" for letter in seen)
    if seen == found[0].lower():
        return False  # in plain letters: what `ID_IN_TEXT` leaves is somebody's invoice
    is_whole = len(seen) >= _LENGTH
    glued = any(each.isascii() and each.isalnum() for each in around)
    return _READ_AS_ID.fullmatch(seen) is not None and (is_whole or not glued)
