"""Cleaning of a text: what nobody can see is taken out; what Korean, Arabic and emoji need to look right stays.

Hidden characters carry orders to a model past the person who reads along, and split a number so that no pattern fits.
The patterns are strings: `re` compiles one when it is first used and keeps it. Compiled at import they would cost each
command 20 ms of the cold start.
"""

import re
import unicodedata
from typing import Final

from finclaw.text import fix_surrogates

_TERMINAL: Final = (
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"  # colours and cursor moves, whole: half a sequence would split a number
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*+(?:\x07|\x1b\\|\x9c)"  # window titles and hidden links
)
_TITLE: Final = r"\x9d([^\x07\x1b\x9c]*+)"

_CONTROL: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
INVISIBLE: Final = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN: Final = _CONTROL + INVISIBLE

_PICTURE: Final = r"\u00a9\u00ae\u203c-\u3299\ufe0f\U0001f000-\U0001faff"
_JOINING: Final = r"\u0600-\u06ef\u06fa-\u08ff\u0900-\u0965\u0970-\u0dff\u1000-\u103f\u1780-\u17df\ufb50-\ufdff"
_JAMO: Final = r"\u1100-\u115e\u1161-\u11ff\ua960-\ua97f\ud7b0-\ud7ff"
_HANGUL_PARTS: Final = r"\u1100-\u11ff"
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
_UNNEEDED: Final = f"[{_HIDDEN}](?<!{'|'.join(_NEEDED)})[{_HIDDEN}]*+"
"""A hidden run is taken whole, unless its first character is needed where it stands."""
_HANGUL_IN_PARTS: Final = r"[\uac00-\ud7a3]?[\u1100-\u1112\u1161-\u1175\u11a8-\u11c2]++"
_UNCLEAN: Final = rf"[{_HIDDEN}{_HANGUL_PARTS}\ud800-\udfff]"
_VISIBLE_ASCII: Final = bytes([*b"\t\n\r", *range(0x20, 0x7F)])


def is_clean(text: str) -> bool:
    """Whether cleaning would change nothing; False also for some texts that it would leave alone."""
    if text.isascii():
        return not text.encode().translate(None, _VISIBLE_ASCII)
    return re.search(_UNCLEAN, text) is None


def clean(text: str) -> str:
    """Whole, visible characters, tabs and line ends. Cleaning it again changes nothing."""
    text = fix_surrogates(text)
    if is_clean(text):
        return text
    if "\x1b" in text or "\x9b" in text or "\x9d" in text:
        text = re.sub(_TERMINAL, "", re.sub(_TITLE, _with_one_beginning, text))
    text = _strip_unneeded(text)
    if not text.isascii() and re.search(f"[{_HANGUL_PARTS}]", text):
        # Only Korean is composed: a general NFC would also swap Hanja and signs for other ones.
        text = re.sub(_HANGUL_IN_PARTS, lambda parts: unicodedata.normalize("NFC", parts[0]), text)
    return text


def _with_one_beginning(title: re.Match[str]) -> str:
    """Where the first has no end the others have none: looked for from each of them, it would be read over and over."""
    return "\x9d" + title[1].replace("\x9d", "\x80")


def _strip_unneeded(text: str) -> str:
    """Taking a character away changes what stands beside the next, so it is repeated until nothing more goes."""
    for _ in range(4):
        kept = re.sub(_UNNEEDED, "", text)
        if kept == text:
            return text
        text = kept
    return re.sub(f"[{_HIDDEN}]", "", text)


_ALIKE: Final = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # fullwidth
    **dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "),
    **dict.fromkeys([*range(0x2010, 0x2016), 0x2043, 0x2212, 0x2E3A, 0x2E3B, 0x30FC, 0xFE58, 0xFE63, 0xFF70], "-"),
}
_DIGIT_BLOCKS: Final = (
    (0xB2, 0x3000), (0xA620, 0xABFF), (0x104A0, 0x11FFF), (0x16A60, 0x16BFF), (0x1D7CE, 0x1FBFF),
)  # fmt: skip
_DIGITS: Final = {
    ord(digit): str(unicodedata.digit(digit))
    for first, last in _DIGIT_BLOCKS
    for digit in filter(str.isdigit, map(chr, range(first, last)))
}
_FOLD_TABLE: Final = {**_ALIKE, **_DIGITS}
_FIRST_PLANE: Final = "".join(chr(code) for code in _FOLD_TABLE if code < 0x10000)
_FOLDABLE: Final = f"[{_FIRST_PLANE}\U000104a0-\U0001f10a\U0001fbf0-\U0001fbf9]"
"""Beyond the first plane a little more than the table has, as ranges: the engine tests single ones there one by one."""
_MOST_REPLACED: Final = 64
"""Different characters that are replaced everywhere at once. A table of prices has two or three, a thousand times;
without this "digits of all scripts" of `test_long_result_of_anything_is_guarded_in_time` takes its whole time."""


def fold_characters(text: str) -> str:
    """The text, character for character, with every script's digits, spaces and hyphens as the plain ones."""
    if text.isascii():
        return text
    foldable = re.compile(_FOLDABLE)
    position = 0
    for _ in range(_MOST_REPLACED):
        found = foldable.search(text, position)
        if found is None:
            return text
        position = found.end()
        character = found[0]
        text = text.replace(character, _FOLD_TABLE.get(ord(character), character))
    return text.translate(_FOLD_TABLE)
