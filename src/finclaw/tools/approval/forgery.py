"""What only the gateway may show to a person: approval ids, the commands that use one, and the head of a card.

A model that writes them could make a false card look true. It is told no id (`kernel/approval_id.py`), so whatever
looks like one in its words is made up, or was guessed.
"""

import re
from typing import Final

from finclaw.kernel.approval_id import ID_IN_TEXT, MARK
from finclaw.tools.approval.card import TITLES

_COMMAND: Final = re.compile(
    r"\S{0,8}\b(?:approve|deny)\b[\s`*_\"':]{1,8}ap-\S{0,40}|\S{0,8}(?:승인|거부)[\s`*_\"':]{1,8}ap-\S{0,40}",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(
    r"^[\s>*_#`]*(?:" + "|".join(map(re.escape, TITLES)) + r")[\s*_`]*$", re.IGNORECASE | re.MULTILINE
)
_HINT: Final = re.compile("ap-|" + "|".join(re.escape(title[:8]) for title in TITLES), re.IGNORECASE)
_REMOVED: Final = {"en": "[only the gateway shows approval ids]", "ko": "[승인 ID는 게이트웨이만 보여 줍니다]"}


def without_forged_consent(text: str) -> str:
    """The very same text where nothing in it looks like a card's own words."""
    if not _HINT.search(text):
        return text
    mark = _REMOVED["ko" if re.search("[가-힣]", text) else "en"]
    clean = _COMMAND.sub(mark, text)
    clean = ID_IN_TEXT.sub(mark, clean).replace(MARK, mark)
    clean = _TITLE.sub("", clean)
    return text if clean == text else clean
