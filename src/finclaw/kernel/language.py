"""In which language a person is spoken to."""

import re
from typing import Final, Literal

Language = Literal["ko", "en"]

_HANGUL: Final = re.compile("[ㄱ-ㆎ가-힣]")
_LATIN_WORD: Final = re.compile("[A-Za-z]+")

LOOKED_AT: Final = 2_000
"""Characters. Whoever writes more has shown their language by then."""


def language_of(text: str) -> Language:
    """By weight and not by presence: an English text may name 삼성전자, a Korean one many tickers."""
    text = text[:LOOKED_AT]
    hangul = len(_HANGUL.findall(text))
    # Words in capitals are tickers and currencies, at home in every language.
    latin = sum(len(word) for word in _LATIN_WORD.findall(text) if not word.isupper())
    return "ko" if hangul and 3 * hangul >= latin else "en"
