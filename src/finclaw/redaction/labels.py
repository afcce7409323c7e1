"""The words beside a value that tell what it is.

A label before a value makes it a secret: `password=…`, `"api_key": "…"`, `비밀번호: …`, `account 12345678`. The words
before a number and the unit after it tell a card or a personal number from a market value.
"""

import re
from collections.abc import Iterator
from typing import Final

from finclaw.redaction.patterns import PLACEHOLDER, Span, group_words, words_in

PASSWORD_LABELS: Final = ("password", "passwd", "passphrase", "pwd", "비밀번호", "패스워드", "암호")
KEY_LABELS: Final = (
    "secret", "api_key", "api-key", "api key", "apikey", "appkey", "app_key", "access_key", "access-key", "accesskey",
    "private_key", "privatekey", "token", "credential", "session_id", "sessionid", "인증키", "시크릿", "토큰", "접근키",
)  # fmt: skip
ACCOUNT_LABELS: Final = ("account", "acct", "a/c", "계좌", "통장")
SOCIAL_SECURITY_LABELS: Final = ("ssn", "social", "사회보장")
"""With one of these in the text, nine digits need no hyphens."""
LABELS: Final = PASSWORD_LABELS + KEY_LABELS + ACCOUNT_LABELS + SOCIAL_SECURITY_LABELS
_GROUPS: Final = group_words(LABELS, ("key", "ss", "cre", "acc", "/"))

_UP_TO_VALUE: Final = re.compile(
    r"""(?:[ _-]?(?i:key|value|secret|token))?+\\?["']?[ \t]{0,3}+"""
    r"""(?P<sign>[:=]{1,2}+|%3[Dd]|는|은|(?<=[ \t])(?i:is)(?:[ \t]|:))[ \t]{0,3}+"""
    rf"""(?:(?!\\?["']?{PLACEHOLDER.pattern})"""
    r"""(?:\\?"(?P<double>[^"\\\n]{1,2000}+)|\\?'(?P<single>[^'\\\n]{1,2000}+)"""
    r"""|(?P<bare>[^\s"'&,;<>{}()\\]{1,2000}+)))"""
)
"""Everything from a label to the end of its value. The last group says how the value is quoted."""
_SHORTEST_PASSWORD: Final = 4
_SHORTEST_KEY: Final = 8
_SHORTEST_SPOKEN: Final = 16
"""Of a key or a token after "is": a token is many things in a sentence, `ERC-1155` among them."""
_LONGEST_WORD: Final = 64
"""A longer run of letters is no word of a sentence. Reading on would take quadratic time in "암호는암호는암호는"."""
_CONTRACT_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
"""Of a coin: public, and what a question about it needs."""
_NO_VALUE: Final = frozenset(("", "null", "none", "true", "false", "undefined", "required", "optional", "string"))


def labels_in(lowered: str) -> list[str]:
    return words_in(lowered, _GROUPS)


def find_labelled_secrets(text: str, lowered: str) -> Iterator[Span]:
    for label in labels_in(lowered):
        if label in PASSWORD_LABELS or label in KEY_LABELS:
            yield from _find_values(text, lowered, label)


def _find_values(text: str, lowered: str, label: str) -> Iterator[Span]:
    position = lowered.find(label)
    while position >= 0:
        position += len(label)
        found = _UP_TO_VALUE.match(text, position)
        if found is not None and _is_secret(label, found):
            yield Span(found.start(found.lastgroup or 0), found.end(), "secret")
            position = found.end()
        position = lowered.find(label, position)


def _is_secret(label: str, found: re.Match[str]) -> bool:
    """After 'password' any word is one; after 'token' only what no sentence, coin or count would say."""
    value = found[found.lastgroup or 0]
    if value.strip("*").lower() in _NO_VALUE:
        return False
    if label not in PASSWORD_LABELS:
        is_spoken = found["sign"][:1] in "iI"
        return len(value) >= (_SHORTEST_SPOKEN if is_spoken else _SHORTEST_KEY) and _is_key(label, found, value)
    is_word = found["sign"] not in ":==" and len(value) <= _LONGEST_WORD and value.isalpha()
    return len(value) >= _SHORTEST_PASSWORD and not is_word


def _is_key(label: str, found: re.Match[str], value: str) -> bool:
    if label in ("token", "토큰") and _CONTRACT_ADDRESS.fullmatch(value):
        return False
    is_number = value.replace(".", "").replace(",", "").isdigit()
    if not is_number and any(map(str.isdigit, value)):
        return True
    if value.isdigit():
        return False
    is_quoted_word = found.lastgroup != "bare" and " " not in value
    return len(value) >= 20 or is_quoted_word


# ── words beside a number ─────────────────────────────────────────────────────────────────────────────────

_BEFORE: Final = 40
# Patterns of small letters on small letters: the engine then skips whatever begins none of the words.
CARD: Final = re.compile(r"card|visa|master|amex|카드|신용|체크|pan\b(?<!\wpan)")
RESIDENT: Final = re.compile(r"주민|외국인\s?등록|resident|rrn\b(?<!\wrrn)")
SOCIAL_SECURITY: Final = re.compile(r"ssn\b(?<!\wssn)|social.?security|사회\s?보장")
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


def says(word: re.Pattern[str], found: re.Match[str]) -> bool:
    """Return whether a word stands before a number in the same field or line: another says nothing about it."""
    start = found.start()
    near = found.string[max(0, start - _BEFORE) : start]
    if word.search(near.casefold()) is None:
        return False
    return word.search(_FIELD.split(near)[-1].casefold()) is not None


def says_market(found: re.Match[str]) -> bool:
    return _UNIT.match(found.string, found.end()) is not None or says(_MARKET, found)
