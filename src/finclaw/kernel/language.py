"""In which language a person is spoken to."""

import re
from typing import Final, Literal

Language = Literal["ko", "en"]

_HANGUL: Final = re.compile("[ㄱ-ㆎ가-힣]")
_LATIN_WORD: Final = re.compile("[A-Za-z]*[a-z][A-Za-z]*")
"""Words in capitals are tickers and currencies, at home in every language."""


def language_of(text: str) -> Language:
    """By weight and not by presence: an English text may name 삼성전자, a Korean one many tickers."""
    hangul = len(_HANGUL.findall(text))
    latin = sum(map(len, _LATIN_WORD.findall(text)))
    return "ko" if hangul and 3 * hangul >= latin else "en"
