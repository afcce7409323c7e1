"""Text as it may be stored and sent: whole characters, counted as a platform counts, and the language it is in."""

import re
from functools import lru_cache
from typing import Final, Literal


def fix_surrogates(text: str) -> str:
    """Halves of surrogate pairs, which JSON can smuggle in, joined to the character they mean or replaced by '�'.

    UTF-8 has no halves: a lone one would break a commit or a request.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


LengthUnit = Literal["characters", "utf16", "bytes"]
"""Units in which platforms count a text: characters of Unicode, UTF-16 code units, or bytes of UTF-8."""


Language = Literal["ko", "en"]

_HANGUL: Final = re.compile("[ㄱ-ㆎ가-힣]")
_LATIN_WORD: Final = re.compile("[A-Za-z]+")

LOOKED_AT: Final = 2_000
"""Characters. Whoever writes more has shown their language by then."""


def language_of(text: str, tag: str = "") -> Language:
    """By weight and not by presence: an English text may name 삼성전자, a Korean one many tickers. `tag`: of who
    wrote it, such as `ko-KR`, for a text without words."""
    if tag and not any(map(str.isalpha, text)):
        return "ko" if tag.startswith("ko") else "en"
    return _weigh_words(text[:LOOKED_AT])


@lru_cache(maxsize=256)  # the stages and fields of one turn ask several times about one message (`cpu_first_token`)
def _weigh_words(text: str) -> Language:
    hangul = len(_HANGUL.findall(text))
    # Words in capitals are tickers and currencies, at home in every language.
    latin = sum(len(word) for word in _LATIN_WORD.findall(text) if not word.isupper())
    return "ko" if hangul and 3 * hangul >= latin else "en"
