"""The words beside a value that tell what it is.

A label before a value makes it a secret: `password=…`, `"api_key": "…"`, `비밀번호: …`. The words before a number and
the unit behind it tell a card or a personal number from a market value.
"""

import re
from collections.abc import Iterator
from typing import Final

from finclaw.redaction.patterns import KEY_LABELS, PASSWORD_LABELS
from finclaw.redaction.scan_text import PLACEHOLDER, ScanText, Span, limit_spans

_UP_TO_VALUE: Final = re.compile(
    r"""(?:[ _-]?(?i:key|value|secret|token))?+\\?["']?[ \t]{0,3}+"""
    r"""(?P<sign>[:=]{1,2}|%3[Dd]|는|은|(?<=[ \t])(?i:is)(?:[ \t]|:))[ \t]{0,3}+"""
    r"""(?:\\?(?P<double>")(?=[^"\\\n])|\\?(?P<single>')(?=[^'\\\n])|(?P<bare>)(?=[^\s"'&,;<>{}()\\]))"""
)
"""What stands between a label and its value. The last group says how the value is quoted."""
_SHORTEST_PASSWORD: Final = 4
_SHORTEST_KEY: Final = 8
_SHORTEST_SPOKEN: Final = 16
"""Of a key or a token behind "is": a token is many things in a sentence, `ERC-1155` among them."""
_LONGEST: Final = 2_000
_QUOTED: Final = {
    "double": re.compile(rf"""[^"\\\n]{{1,{_LONGEST}}}+"""),
    "single": re.compile(rf"""[^'\\\n]{{1,{_LONGEST}}}+"""),
}
_BARE: Final = re.compile(r"""[^\s"'&,;<>{}()\\]++""")
_CONTRACT_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
"""Of a coin: public, and what a question about it needs."""
_NO_VALUE: Final = frozenset(("", "null", "none", "true", "false", "undefined", "required", "optional", "string"))


def find_labelled_secrets(scanned: ScanText) -> Iterator[Span]:
    for label in PASSWORD_LABELS + KEY_LABELS:
        if scanned.may_have(label):
            yield from limit_spans(scanned.text, _find_values(scanned, label))


def _find_values(scanned: ScanText, label: str) -> Iterator[Span]:
    text, position, values = scanned.text, 0, _Values(scanned.text)
    is_password = label in PASSWORD_LABELS
    shortest = _SHORTEST_PASSWORD if is_password else _SHORTEST_KEY
    for place in scanned.ends_of(label):
        if place - len(label) < position or (is_password and values.is_within_letters(place)):
            continue
        if (found := _UP_TO_VALUE.match(text, place)) is None:
            continue
        start, quoting = found.end(), found.lastgroup or "bare"
        if text[start] == "[" and PLACEHOLDER.match(text, start) is not None:
            continue
        end = values.end(quoting, start)
        if end - start < shortest:
            continue
        if not is_password and found["sign"][:1] in "iI" and end - start < _SHORTEST_SPOKEN:
            continue
        if is_password and found["sign"] not in ":==" and values.are_letters(start, end):
            continue
        if _is_secret(label, quoting, text[start:end]):
            yield Span(start, end, "secret")
            position = end


def _is_secret(label: str, quoting: str, value: str) -> bool:
    """After 'password' any word is one; after 'token' only what no sentence, coin or count would say."""
    if value.strip("*").lower() in _NO_VALUE:
        return False
    if label in PASSWORD_LABELS:
        return True
    if label in ("token", "토큰") and _CONTRACT_ADDRESS.fullmatch(value):
        return False
    is_spoken = quoting == "bare" or " " in value
    is_mixed = any(map(str.isdigit, value)) and not value.replace(".", "").replace(",", "").isdigit()
    return is_mixed or (len(value) >= 20 and not value.isdigit()) or not (is_spoken or value.isdigit())


_LONGEST_SIGN: Final = 10
"""Of the signs that are letters, with the word before them."""


class _Values:
    """The ends of the values in a text, remembered.

    A long word full of labels is one value for each of them. It is read once: read again for every label, the seeds
    '암호는' and 'password=' of `test_no_step_is_slow_on_a_hostile_text` would take quadratic time.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._bare_until = self._letters_until = self._judged_until = 0

    def end(self, quoting: str, start: int) -> int:
        if quoting != "bare":
            return _match_end(_QUOTED[quoting], self._text, start)
        if start >= self._bare_until:
            self._bare_until = _match_end(_BARE, self._text, start)
        return min(self._bare_until, start + _LONGEST)

    def are_letters(self, start: int, end: int) -> bool:
        if self._judged_until < self._bare_until:
            self._judged_until = self._bare_until
            if self._text[start : self._bare_until].isalpha():
                self._letters_until = self._bare_until
        unread = max(start, self._letters_until)
        if unread < end and not self._text[unread:end].isalpha():
            return False
        self._letters_until = max(end, self._letters_until)
        return True

    def is_within_letters(self, place: int) -> bool:
        """Whether this is amid a word that was read to its end: its value then is letters, too, whatever the sign."""
        return place + _LONGEST_SIGN < self._letters_until == self._bare_until


def _match_end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found is not None else start


# ── words beside a number ─────────────────────────────────────────────────────────────────────────────────

_BEFORE: Final = 40
# Patterns of small letters on small letters: the engine then skips whatever begins none of the words.
_CARD: Final = re.compile(r"card|visa|master|amex|카드|신용|체크|pan\b(?<!\wpan)")
_RESIDENT: Final = re.compile(r"주민|외국인\s?등록|resident|rrn\b(?<!\wrrn)")
_SOCIAL_SECURITY: Final = re.compile(r"ssn\b(?<!\wssn)|social.?security|사회\s?보장")
_MARKET: Final = re.compile(
    # By their first letters: at each letter only those that begin with it are tried.
    r"a(?:mount|sset)|b(?:alance|lock)|cap|d(?:ate|ebt)|equity|hash|i(?:ncome|nvoice|d\b(?<!\wid)|d\")|nonce"
    r"|o(?:rder|utstanding)|pr(?:ice|ofit)|revenue|s(?:ales|erial|hares|tamp|upply)|t(?:ime|otal|ra(?:de|cking)|urnover)"
    r"|ts\b(?<!\wts)|v(?:alue|olume)|_id|₩\s?$|\$\s?$|€\s?$|£\s?$|¥\s?$"
    r"|총액|금액|대금|거래량|매출|자산|이익|부채|자본|잔고|시각|주문|체결|번호표|운송장|송장|합계|수량|발행|주식"
)
UNIT: Final = (
    # Case is ignored only where there is any: with a range of Hangul it would take 6 ms of the cold start to compile.
    r"(?:[ \xa0]?(?:(?i:won|krw|usd|dollar|yen|jpy|eur|shares|ms\b|ns\b)|달러|%)"
    # Attached, whatever follows it but the beginning of another word: 주민, 주소, 조회, 만기.
    r"|(?:원|엔|주(?![민소문])|억|조(?!회)|만(?!기))| (?:원|엔|주|억|조|만)(?![가-힣]))"
)
"""What makes a number an amount."""
_UNIT: Final = re.compile(UNIT)
_FIELD: Final = re.compile(r"[\n{};|]|,\s*\"")

_NO_UNIT: Final = frozenset(",;:\n\t\"'|)]}")
"""What most often stands behind a number that has none."""


def says_card(text: str, start: int) -> bool:
    return _says(_CARD, text, start)


def says_resident(text: str, start: int) -> bool:
    return _says(_RESIDENT, text, start)


def says_social_security(text: str, start: int) -> bool:
    return _says(_SOCIAL_SECURITY, text, start)


def says_market(text: str, start: int, end: int) -> bool:
    has_unit = text[end : end + 1] not in _NO_UNIT and _UNIT.match(text, end) is not None
    return has_unit or _says(_MARKET, text, start)


def _says(word: re.Pattern[str], text: str, start: int) -> bool:
    """Back to the last label at most: what stands in another field or line says nothing about this one."""
    near = text[max(0, start - _BEFORE) : start]
    if word.search(near.casefold()) is None:
        return False
    return word.search(_FIELD.split(near)[-1].casefold()) is not None
