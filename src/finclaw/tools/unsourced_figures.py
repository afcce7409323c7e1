"""Detect figures in an answer that appear in no fact, tool result or user message."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from typing import Final

from finclaw.kernel.message import Message, ToolResult
from finclaw.numerals.find import Figure, find_figures
from finclaw.text import Language

NO_SOURCE: Final[dict[Language, str]] = {
    "en": "(No source was consulted for these figures.)",
    "ko": "(이 수치는 출처를 확인하지 않았습니다.)",
}
_MOST_TEXTS: Final = 20  # searched, the newest first
_LONGEST: Final = 100_000
_SCALED: Final = re.compile(r"\d ?(?:[천만억조kmbt]|thousand|million|billion|trillion)", re.IGNORECASE)
_LONGEST_SCALED: Final = 2_000
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n")
_FENCE: Final = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)  # the number guard exempts fenced code too
_NO_FIGURES: Final = re.compile(
    r"https?://\S+"
    r"|(?:S&P|ASX|Nasdaq|Russell|Dow|FTSE|TOPIX|Nikkei|Stoxx|CSI|KRX|KOSPI|KOSDAQ|Fortune|\b[SE]MA"
    r"|코스피|코스닥|나스닥|다우|러셀|닛케이)[ -]?(?:30|50|150|225|[1-6]00|[12]000)(?!\d|[,.]\d|\s?%)"
    r"|(?:\b(?:version|ver\.?|rule|section|error|http|tls|python|java|ios|android|macos|gpt|claude)[ -]?|버전 ?"
    r"|[a-z]-|…)\d[\d.-]*+(?!\s?%|,\d)"
    r"|\b\d{1,4}(?:\([a-z]\)|[ -](?:days?|hours?|minutes?)\b|:\d\d|\s?[ap]\.?m\b)|\b\d{2,4}(?:[ -]\d{3,4}){2,3}\b"
    r"|\b100%(?=\s[a-z가-힣])",
    re.IGNORECASE,
)
"""Addresses, indices, versions, ids, numbers of cards and telephones, times, and being 100% sure."""
_INLINE_CODE: Final = re.compile(r"`[^`\n]*`")
_PRICE: Final = re.compile(r"[$₩€¥£￦%％]|\b\d+\.\d+\b")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_YEARS: Final = re.compile(r"(?:19|20)\d\d(?:\s?[-–~∼]\s?(?:19|20)\d\d)?")
_ENDING: Final = re.compile(r"(?<=\d)(?=입니|이[고며다었에]|예요|였|정도|가량|배|x(?!\w))")
"""Korean endings and multiples behind a plain number; `find_figures` knows particles only."""
_SCALE: Final = re.compile(r"(?<=\d)([TB])(?![\w-])")
_PLAIN_PRICE: Final = re.compile(
    r"(?<![\w.,:/…-])(\d{1,3}(?:,\d{3})+|\d{1,15})(\.\d{1,10})?(?: USD\b| KRW\b|원(?!\w)|(?<!100)%)"
)
"""A price or percentage in its usual form. Most answers without a source begin with one (`cpu_plain`)."""
_MARKUP: Final = ("`", "~", "://", "[")


def has_unsourced_figures(answer: str, conversation: Sequence[Message]) -> bool:
    """Return whether the answer claims a figure that no text in `conversation` but the model's gives."""
    if not any(map(str.isdigit, answer)):
        return False
    given = [text[:_LONGEST].replace(",", "") for text in islice(_given_texts(conversation), _MOST_TEXTS)]
    if _begins_with_unknown_price(answer, given):
        return True
    known = {number for number in _find_numbers(answer) if any(_has_number(text, number) for text in given)}
    if known.issuperset(_find_numbers(answer)):
        return False
    for sentence in _SENTENCES.split(_FENCE.sub(" ", answer)):  # most often the first figure decides
        if known.issuperset(_find_numbers(sentence)):
            continue
        plain = _NO_FIGURES.sub(" ", sentence)
        prose = _INLINE_CODE.sub(lambda code: code[0] if _PRICE.search(code[0]) else " ", plain)
        text = _separate_units(prose)
        if any(_is_claim(figure, text) and not _is_given(figure, text, given) for figure in find_figures(text)):
            return True
    return False


def _begins_with_unknown_price(answer: str, given: Sequence[str]) -> bool:
    """Return whether the first price of a plain text has digits that no given text has, in figures or in words."""
    if any(mark in answer for mark in _MARKUP):
        return False
    price = _PLAIN_PRICE.search(answer)
    if price is None:
        return False
    number = _trim(price[1].replace(",", "") + (price[2] or ""))
    return not any(number in text or _SCALED.search(text) for text in given)


def _find_numbers(text: str) -> set[str]:
    return {_trim(number) for number in set(_NUMBER.findall(text.replace(",", "")))}


def _is_given(figure: Figure, text: str, given: Sequence[str]) -> bool:
    """Whether one of the texts has all its numbers, or the same value in other words, such as 1.5억."""
    numbers = [_trim(each) for each in _NUMBER.findall(text[figure.start : figure.end].replace(",", ""))]
    if any(all(_has_number(each, number) for number in numbers) for each in given):
        return True
    values = _values(figure)
    scaled = (each[:_LONGEST_SCALED] for each in given if _SCALED.search(each, 0, _LONGEST_SCALED))
    is_scaled = figure.scale != 1 and figure.kind == "amount" and figure.value.denominator == 1
    if is_scaled and any(_has_number(each, str(abs(figure.value))) for each in given):
        return True
    return any(values & _values(other) for each in scaled for other in find_figures(_separate_units(each)))


def _trim(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def _has_number(text: str, number: str) -> bool:
    """Whether the number stands in the text, whatever zeros end its decimals."""
    start = text.find(number)
    while start >= 0:
        end = start + len(number)
        behind = text[end : end + 4].lstrip("0") if "." in number else text[end : end + 1]
        if not text[max(0, start - 1) : start].isdigit() and not behind[:1].isdigit():
            return True
        start = text.find(number, end)
    return False


def _separate_units(text: str) -> str:
    """Return the text as `find_figures` reads it: 30배 as 30 배, 3T as 3 trillion."""
    return _SCALE.sub(lambda unit: {"T": " trillion", "B": " billion"}[unit[1].upper()], _ENDING.sub(" ", text))


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
    for message in reversed(conversation):
        if message.source.kind != "assistant":
            for block in message.blocks:
                yield block.content if isinstance(block, ToolResult) else getattr(block, "text", "")


def _values(figure: Figure) -> set[Fraction]:
    return {abs(value) for value in (figure.value, figure.high) if value is not None}
