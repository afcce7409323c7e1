"""Detect figures in an answer that appear in no fact, tool result or user message."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from finclaw.kernel.message import Message, ToolResult
from finclaw.numerals.find import Figure, find_figures
from finclaw.text import Language

NO_SOURCE: Final[dict[Language, str]] = {
    "en": "(No source was consulted for these figures.)",
    "ko": "(이 수치는 출처를 확인하지 않았습니다.)",
}
_LONGEST: Final = 20_000  # characters of each text: one of figures alone takes 0.2 s
_MOST_READ: Final = 40_000
_NO_FIGURES: Final = re.compile(
    r"(```|~~~).*?(?:\1|\Z)|https?://\S+"  # the number guard exempts fenced code too
    r"|(?:S&P|ASX|Nasdaq|Russell|Dow|FTSE|TOPIX|Nikkei|Stoxx|CSI|KRX|KOSPI|KOSDAQ|Fortune|\b[SE]MA"
    r"|코스피|코스닥|나스닥|다우|러셀|닛케이)[ -]?(?:30|50|150|225|[1-6]00|[12]000)(?!\d|[,.]\d|\s?%)"
    r"|(?:\b(?:version|ver\.?|rule|section|error|http|tls|python|java|ios|android|macos|gpt|claude)[ -]?|버전 ?"
    r"|[a-z]-|…)\d[\d.-]*+(?!\s?%|,\d)"
    r"|\b\d{1,4}(?:\([a-z]\)|[ -](?:days?|hours?|minutes?)\b|:\d\d|\s?[ap]\.?m\b)|\b\d{2,4}(?:[ -]\d{3,4}){2,3}\b"
    r"|\b100%(?=\s[a-z가-힣])",
    re.DOTALL | re.IGNORECASE,
)
"""Code, addresses, indices, versions, ids, numbers of cards and telephones, times, and being 100% sure."""
_INLINE_CODE: Final = re.compile(r"`[^`\n]*`")
_PRICE: Final = re.compile(r"[$₩€¥£￦%％]|\b\d+\.\d+\b")
_YEARS: Final = re.compile(r"(?:19|20)\d\d(?:\s?[-–~∼]\s?(?:19|20)\d\d)?")
_ENDING: Final = re.compile(r"(?<=\d)(?=입니|이[고며다었에]|예요|였|정도|가량|배|x(?!\w))")
"""Korean endings and multiples behind a plain number; `find_figures` knows particles only."""
_SCALE: Final = re.compile(r"(?<=\d)([TB])(?![\w-])")


def has_unsourced_figures(answer: str, conversation: Sequence[Message]) -> bool:
    """Return whether the answer claims a figure that no text in `conversation` but the model's gives."""
    if not any(map(str.isdigit, answer)):
        return False
    text = _INLINE_CODE.sub(lambda code: code[0] if _PRICE.search(code[0]) else " ", _NO_FIGURES.sub(" ", answer))
    text = _separate_units(text)
    claimed = {value for figure in find_figures(text) if _is_claim(figure, text) for value in _values(figure)}
    room = _MOST_READ
    for given in _given_texts(conversation):
        if not claimed or room <= 0:
            break
        claimed.difference_update(*map(_values, find_figures(_separate_units(given[:_LONGEST]))))
        room -= len(given[:_LONGEST])
    return bool(claimed)


def _separate_units(text: str) -> str:
    """Return the text as `find_figures` reads it: 30배 as 30 배, 3T as 3 trillion."""
    return _SCALE.sub(lambda unit: " trillion" if unit[1] == "T" else " billion", _ENDING.sub(" ", text))


def _is_claim(figure: Figure, text: str) -> bool:
    """Whether it is a quantity: no date, year, list number or symbol."""
    written = text[figure.start : figure.end].rstrip(",")
    digits = sum(map(str.isdigit, written))
    if figure.kind == "date" or not digits:
        return False
    if figure.kind == "percent" or figure.currency or figure.decimals or figure.scale != 1:
        return True
    if digits == 1 or written.startswith("0") or (digits == 6 and text.startswith("(", figure.start - 1)):
        return False
    if text.endswith(" at ", 0, figure.start) or text.startswith((" 배", " x"), figure.end):
        return True
    # A shorter one counts something, numbers a list or tells the time.
    return digits >= 3 and not _YEARS.fullmatch(written)


def _given_texts(conversation: Sequence[Message]) -> Iterator[str]:
    """The texts that are not the model's, the newest first."""
    for message in reversed(conversation):
        if message.source.kind != "assistant":
            for block in message.blocks:
                yield block.content if isinstance(block, ToolResult) else getattr(block, "text", "")


def _values(figure: Figure) -> tuple[Fraction, ...]:
    return (abs(figure.value),) if figure.high is None else (abs(figure.value), abs(figure.high))
