"""Sums as people write them: `12*(3+4)`, `what is 17% of 4500`. The calculator works them out."""

import re

from finclaw.demo.assistant.money_words import unclear_number

_LEAD = re.compile(r"(?:what(?:'s|s| is)|how much is|calculate|compute|계산해\s?(?:줘|봐))\s+", re.IGNORECASE)
_TAIL = re.compile(r"\s*(?:=\s*\??|(?:은|는|이|가)?\s*(?:얼마야|얼마|뭐야|계산해\s?줘|몇이야)?)\s*$")
_SPOKEN = {"곱하기": "*", "더하기": "+", "빼기": "-", "나누기": "/", "×": "*", "÷": "/", "−": "-"}
_SUM = re.compile(
    r"[(\s-]*\d[\d.,]*%?[\s)]*(?:[-+*/^][(\s-]*\d[\d.,]*%?[\s)]*)+|\d[\d.,]*%\s+of\s+\d[\d.,]*", re.IGNORECASE
)
_LIKE_A_DATE = re.compile(r"\d+(?:[-/]\d+)+")  # a date, a fraction or a telephone number before it is a sum
_LONGEST = 120


def read_arithmetic(text: str) -> str | None:
    """What to work out, when the text is a sum and nothing else."""
    if len(text) > _LONGEST or not any(map(str.isdigit, text)):
        return None
    without_lead = _LEAD.sub("", text, count=1) if _LEAD.match(text) else text
    sum_ = _TAIL.sub("", without_lead)
    for spoken, sign in _SPOKEN.items():
        sum_ = sum_.replace(spoken, sign)
    if not _SUM.fullmatch(sum_) or unclear_number(sum_):
        return None
    if _LIKE_A_DATE.fullmatch(sum_) and without_lead == text:
        return None
    return " ".join(sum_.split())
