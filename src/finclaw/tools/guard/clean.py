"""What nobody can see is taken out of a text; what Korean, Arabic and emoji need to look right stays.

Hidden characters carry orders to a model past the person who reads along, and split a number so that no mask fits.
"""

import re
import unicodedata
from typing import Final

from finclaw.kernel.lazy_pattern import LazyPattern
from finclaw.kernel.text import fix_surrogates
from finclaw.tools.guard.plane import Seldom

_TERMINAL: Final = LazyPattern(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # colours and cursor moves, whole: half a sequence would split a number
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*+(?:\x07|\x1b\\|\x9c)"  # window titles and hidden links
)
_TITLE: Final = LazyPattern(r"\x9d([^\x07\x1b\x9c]*+)")

_CONTROL: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_INVISIBLE: Final = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
HIDDEN: Final = _CONTROL + _INVISIBLE
_HIDDEN: Final = LazyPattern(f"[{HIDDEN}]")

_PICTURE: Final = r"\u00a9\u00ae\u203c-\u3299\ufe0f\U0001f000-\U0001faff"
_JOINING: Final = r"\u0600-\u06ef\u06fa-\u08ff\u0900-\u0965\u0970-\u0dff\u1000-\u103f\u1780-\u17df\ufb50-\ufdff"
_JAMO: Final = r"\u1100-\u115e\u1161-\u11ff\ua960-\ua97f\ud7b0-\ud7ff"
PARTS: Final = r"\u1100-\u11ff"
_FLAGS: Final = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in name) + "\U000e007f" for name in ("gbeng", "gbsct", "gbwls")
)

_NEEDED: Final = (
    # Each with the hidden character first and then what must stand before it: most are told by that character alone.
    rf"\u200d(?<=[{_PICTURE}].)(?=[{_PICTURE}])",  # a family, a profession
    r"[\ufe0e\ufe0f](?<=[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff].)",  # drawn as a picture or as text
    rf"[\u200c\u200d](?<=[{_JOINING}].)(?<!\d.)(?=[{_JOINING}])(?!\d)",  # Persian and Indic spelling
    r"\ufe0f(?<=[0-9#*].)(?=\u20e3)",  # a key with a digit on it
    r"[\ufe00-\ufe02\U000e0100-\U000e01ef](?<=[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff].)",  # Han
    r"[\u180b-\u180f](?<=[\u1820-\u18aa].)",  # Mongolian
    rf"[\u115f\u1160](?:(?<=[{_JAMO}].)|(?=[{_JAMO}]))",  # old Korean, written in parts
    *(f"{flag[at]}(?<=\U0001f3f4{flag[: at + 1]})(?={flag[at + 1 :]})" for flag in _FLAGS for at in range(len(flag))),
)
_UNNEEDED: Final = LazyPattern(f"[{HIDDEN}](?<!{'|'.join(_NEEDED)})[{HIDDEN}]*+")
"""A hidden run is taken whole, unless its first character is needed where it stands."""

_PART: Final = LazyPattern(f"[{PARTS}]")
_HANGUL_IN_PARTS: Final = LazyPattern(r"[\uac00-\ud7a3]?[\u1100-\u1112\u1161-\u1175\u11a8-\u11c2]++")
_ODD: Final = Seldom(HIDDEN + PARTS)
VISIBLE: Final = bytes([*b"\t\n\r", *range(0x20, 0x7F)])


def clean(text: str) -> str:
    """Whole, visible characters, tabs and line ends. Cleaning it again changes nothing."""
    text = fix_surrogates(text)
    if _is_clean(text):
        return text
    if "\x1b" in text or "\x9b" in text or "\x9d" in text:
        text = _TERMINAL.sub("", _TITLE.sub(_with_one_beginning, text))
    text = _only_needed(text)
    if not text.isascii() and _PART.search(text):
        # Only Korean is put together: a general NFC would also swap Hanja and signs for other ones.
        text = _HANGUL_IN_PARTS.sub(lambda parts: unicodedata.normalize("NFC", parts[0]), text)
    return text


def _with_one_beginning(title: re.Match[str]) -> str:
    """Where the first has no end the others have none: looked for from each of them, it would be read over and over."""
    return "\x9d" + title[1].replace("\x9d", "\x80")


def _is_clean(text: str) -> bool:
    return not text.encode().translate(None, VISIBLE) if text.isascii() else _ODD.search(text) is None


def _only_needed(text: str) -> str:
    """Taking one away changes what stands beside the next, so it is looked at until nothing more goes."""
    for _ in range(4):
        kept = _UNNEEDED.sub("", text)
        if kept == text:
            return text
        text = kept
    return _HIDDEN.sub("", text)
