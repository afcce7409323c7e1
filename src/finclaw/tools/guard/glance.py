"""Whether a text could hold a secret at all. Most hold nothing that even begins like one, and a glance tells.

Every pattern here begins so that the engine passes over most of a sentence at once: with a rare letter of a word, with
three digits of a number.
"""

import re
import string
from typing import Final

from finclaw.tools.guard.clean import HIDDEN, PARTS, VISIBLE
from finclaw.tools.guard.fold import FOLDABLE, FOLDED, folded
from finclaw.tools.guard.plane import Seldom
from finclaw.tools.guard.sketch import IBAN, NUMBER, ONES, SKETCH

_TOKEN: Final = "[a-z0_-]"
_WORD: Final = re.compile(
    rf"""
    s(?: s(?: n | w | phr | ion_?id) | ia[a-z0]{{16}})
  | c(?: ret(?<=secret) | redential | count | ct(?<=acct) | ial(?<=social))
  | k(?: en(?<=token) | ey(?:(?<=[_-]key) | (?<=[ipse]key) | (?<=api[ ]key))
       | ia[a-z0]{{16}} | -(?<=sk-){_TOKEN}{{16}} | \.com/ | s/)
  | g(?: lpat- | in[ ](?<=-----begin[ ]) | \.(?<=sg\.){_TOKEN}{{16}})
  | w(?: d(?<=[ps]wd)) | b(?: earer[ \t]) | y(?: a00\. | j) | v(?: ly-)
  | x(?: ox | app- | ai- | -) | z(?: a(?<=aiza) | at[i?]on[^a-z0_]{{1,6}}basic[ ])
  | _(?:(?<=k_live_) | (?<=k_test_) | (?<=whsec_) | (?<=gh[opsur]_) | (?<=_pat_) | (?<=hf_) | (?<=npm_) | (?<=gsk_))
       [a-z0_+/=]{{10}}
  | /(?: c(?<=a/c)) | :(?: aa | //[^\s/:@"'<>]{{0,64}}+:) | \x00
    """.encode(),
    re.VERBOSE,
)
"""Labels and the beginnings of keys, most of them from a rare letter on, and what must be cleaned.

In small letters, and every digit a zero.
"""
_IBAN_OR_NUMBER: Final = re.compile(
    # Both from their first two digits on, so that a text is read once for them.
    b"00(?:(?<=AA00)" + IBAN.removeprefix(b"AA00") + b"|" + NUMBER.strip().removeprefix(b"00") + b")",
    re.VERBOSE,
)

_KOREAN: Final = {
    "암": "호", "토": "큰", "계": "좌", "통": "장", "밀": "번호",
    "워": "드", "증": "키", "크": "릿", "근": "키", "회": "보장",
}  # fmt: skip
"""A syllable of a label and those behind it: of 비밀번호 and 인증키 the second."""
_ODD: Final = HIDDEN + PARTS + FOLDABLE + "\ud800-\udfff"
_FIRST: Final = "".join(_KOREAN)
_LABEL_OR_ODD: Final = Seldom(
    _ODD + _FIRST,
    f"(?:(?<![{_FIRST}])|{'|'.join(f'{rest}(?<={first}{rest})' for first, rest in _KOREAN.items())})",
)


def _read_as(code: int) -> int:
    if chr(code) in string.digits:
        return ord("0")
    return ord(chr(code).lower()) if code in VISIBLE else 0


_READ_AS: Final = bytes([*map(_read_as, range(0x80)), *range(0x80, 0x100)])


def may_hold_secrets(text: str) -> bool:
    """False only where no search would find anything, and cleaning would take nothing away."""
    if not text.isascii():
        if (found := _LABEL_OR_ODD.search(text)) is not None and found[0] in FOLDED:
            text = folded(text)
            found = _LABEL_OR_ODD.search(text)
        if found is not None:
            return True
    plain = text.encode("ascii", "replace")
    if _WORD.search(plain.translate(_READ_AS)) is not None:
        return True
    sketch = plain.translate(SKETCH)
    return _IBAN_OR_NUMBER.search(sketch) is not None or ONES in sketch
