"""Text as it may be stored and sent: whole characters, counted as a platform counts, and the language it is in."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, Literal


def fix_surrogates(text: str) -> str:
    """Halves of surrogate pairs, which JSON can smuggle in, joined to the character they mean or replaced by '�'. UTF-8
    has no halves: a lone one would break a commit or a request."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a suggestion to append to a complaint about an unknown name; empty if no name is similar."""
    for close in get_close_matches(name, list(known), n=1, cutoff=0.6):
        return f"; did you mean {close}?"
    return ""


def suggest_name(name: str, known: Collection[str]) -> str:
    """Return a suggestion as `did_you_mean` does, or all names if none is similar."""
    return did_you_mean(name, known) or f"; there are {', '.join(known)}"


_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0 and C1, line breaks, and marks that turn the direction of writing."""
_UNESCAPED: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def escape_json(text: str) -> str:
    """The same JSON, with what a terminal obeys escaped: JSON itself escapes C0 only."""
    return _UNESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escape_controls(text: str) -> str:
    """One line in which controls are spelled out, for a path or a name, which must stay recognisable."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def escape_lines(text: str, prefix: str = "") -> str:
    """Several lines without controls. With a prefix, none of them can pass for a line of something else."""
    return "\n".join(prefix + escape_controls(line) for line in text.split("\n"))


def shorten(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis: `most` characters together."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


LengthUnit = Literal["characters", "utf16", "bytes"]
"""Units in which platforms count a text: characters of Unicode, UTF-16 code units, or bytes of UTF-8."""


def text_length(text: str, unit: LengthUnit) -> int:
    if unit == "characters" or text.isascii():
        return len(text)
    if unit == "bytes":
        return len(text.encode(errors="replace"))
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


Language = Literal["ko", "en"]
_HANGUL: Final = re.compile("[ㄱ-ㆎ가-힣]")
_LATIN_WORD: Final = re.compile("[A-Za-z]+")
_SPOKEN_WORD: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2,}")
_WORDLESS: Final = re.compile(
    r"https?://\S+|(?<!\w)@\w+|(?<![a-z0-9.-])[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?:/\S*)?|\bok(?:ay)?\b",
    re.I | re.A,
)
"""Addresses, mentions, and what is written in every language."""
_DOMAIN_ENDING: Final = re.compile(r"\.[A-Za-z]")
LOOKED_AT: Final = 2_000
"""Characters. Whoever writes more has shown their language by then."""


def language_of(text: str, tag: str = "") -> Language:
    """By weight and not by presence: an English text may name 삼성전자, a Korean one many tickers. `tag`: of who
    wrote it, such as `ko-KR`, for a text without words."""
    if tag and not any(map(str.isalpha, text)):
        return "ko" if tag.startswith("ko") else "en"
    return _weigh_words(text[:LOOKED_AT])


def find_language(text: str) -> Language | None:
    """The language that a text has words of; None for tickers, figures, symbols, mentions and addresses alone."""
    words = text[:LOOKED_AT]
    # Whether `_WORDLESS` may match: that pattern is slow on long texts (`cpu_plain`).
    if "@" in words or ":" in words or "ok" in words.lower() or _DOMAIN_ENDING.search(words) is not None:
        words = _WORDLESS.sub(" ", words)
    has_latin = any(not word.isupper() for word in _SPOKEN_WORD.findall(words))
    has_other = not words.isascii() and any(each.isalpha() and not each.isascii() for each in words)
    return _weigh_words(words) if has_latin or has_other else None


@lru_cache(maxsize=256)  # the stages and fields of one turn ask several times about one message (`cpu_first_token`)
def _weigh_words(text: str) -> Language:
    hangul = len(_HANGUL.findall(text))
    # Words in capitals are tickers and currencies, at home in every language.
    latin = sum(len(word) for word in _LATIN_WORD.findall(text) if not word.isupper())
    return "ko" if hangul and 3 * hangul >= latin else "en"
