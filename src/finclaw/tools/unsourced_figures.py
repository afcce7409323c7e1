"""Figures in a model's answer that nobody but the model has given: no fact, no text of a tool, not the person."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from finclaw.kernel.message import Message, ToolResult
from finclaw.kernel.scope import TurnResult
from finclaw.numerals.find import Figure, find_figures
from finclaw.text import Language

NO_SOURCE: Final[dict[Language, str]] = {
    "en": "(No source was consulted for these figures.)",
    "ko": "(이 수치는 출처를 확인하지 않았습니다.)",
}
_CODE: Final = re.compile(r"(```|~~~).*?(?:\1|\Z)|`[^`\n]*`|https?://\S+", re.DOTALL)
_YEARS: Final = re.compile(r"(?:19|20)\d\d(?:\s?[-–~∼]\s?(?:19|20)\d\d)?")
_ENDING: Final = re.compile(r"(?<=\d)(?=입니|이[고며다었에]|예요|였|정도|가량)")
"""Korean endings behind a plain number; `find_figures` knows particles only."""
_NAMED: Final = re.compile(
    r"(?:S&P|Nasdaq|Russell|Dow|FTSE|Nikkei|Stoxx|CSI|KOSPI|KOSDAQ|코스피|코스닥|나스닥|다우|러셀|닛케이"
    r"|\b(?:version|ver\.?|release|python|java|node|windows|ios|android|macos|gpt|claude|tls|http)|버전)[ -]?$|[a-z]-$",
    re.IGNORECASE,
)
"""What stands before a number that is part of a name, such as an index, a version or an id."""


def has_unsourced_figures(answer: str, turn: TurnResult) -> bool:
    if turn.facts or not any(map(str.isdigit, answer)):
        return False
    text = _ENDING.sub(" ", _CODE.sub(" ", answer))
    claimed = {value for figure in find_figures(text) if _is_claim(figure, text) for value in _values(figure)}
    if claimed:
        claimed.difference_update(*map(_given_values, turn.messages))
    return bool(claimed)


def _is_claim(figure: Figure, text: str) -> bool:
    """Whether it is a quantity: no date, year, list number, symbol, version or name."""
    written = text[figure.start : figure.end]
    digits = sum(map(str.isdigit, written))
    if figure.kind == "date" or not digits:
        return False
    if figure.kind == "percent" or figure.currency:
        return True
    if _NAMED.search(text[max(0, figure.start - 20) : figure.start]):
        return False
    if figure.decimals or figure.scale != 1:
        return True
    is_symbol = written.startswith("0") or (digits == 6 and text.startswith("(", figure.start - 1))
    # A shorter one counts something, numbers a list or tells the time.
    return digits >= 3 and not is_symbol and not _YEARS.fullmatch(written)


def _given_values(message: Message) -> Iterator[Fraction]:
    """The figures of a message that is not the model's."""
    if message.source.kind == "assistant":
        return
    for block in message.blocks:
        text = block.content if isinstance(block, ToolResult) else getattr(block, "text", "")
        for figure in find_figures(text):
            yield from _values(figure)


def _values(figure: Figure) -> tuple[Fraction, ...]:
    return (abs(figure.value),) if figure.high is None else (abs(figure.value), abs(figure.high))
