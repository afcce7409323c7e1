"""The tables of keys and tokens by their prefix and of labelled secrets, and the types that every search returns.

A pattern is tried only if its prefix is in the text. Its quantifiers are possessive (`{16,}+`): nothing that was taken
is given back, so the time is linear in the length of the text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple, get_args

Kind = Literal[
    "card",
    "resident number",
    "social security number",
    "account",
    "api key",
    "token",
    "private key",
    "secret",
    "private",
    "unchecked rest",
]
PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(get_args(Kind))})(?: …[0-9A-Z]{{4}})?\]")


class Span(NamedTuple):
    """A place in a text that holds a secret."""

    start: int
    end: int
    kind: Kind
    last_four: str = ""

    @property
    def placeholder(self) -> str:
        return f"[{self.kind} …{self.last_four}]" if self.last_four else f"[{self.kind}]"


WordGroups = Sequence[tuple[str, Sequence[str]]]


def group_words(words: Iterable[str], parts: Sequence[str]) -> WordGroups:
    """Group words by the first of these parts that they contain."""
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(next((part for part in parts if part in word), ""), []).append(word)
    return tuple(groups.items())


def words_in(text: str, groups: WordGroups) -> list[str]:
    """Return the words that the text contains. A missing part spares its whole group (`cpu_plain`)."""
    return [word for part, words in groups if part in text for word in words if word in text]


@dataclass(frozen=True)
class KeyPattern:
    """A kind of key or token. If its expression has a group `value`, only that group is secret."""

    name: str
    prefix: str
    """Literal text that every match contains. It stands first, because the engine finds literal text fastest."""
    expression: str
    kind: Kind = "api key"

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled at the first use: all of them take 10 ms of the cold start, and most texts have no prefix."""
        return re.compile(self.expression)

    def find(self, text: str) -> Iterator[Span]:
        group = "value" if "value" in self.pattern.groupindex else 0
        for found in self.pattern.finditer(text):
            yield Span(found.start(group), found.end(group), self.kind)


def _key(name: str, prefix: str, rest: str, kind: Kind = "api key", *, behind: str = "", word: str = "") -> KeyPattern:
    """A key whose prefix does not stand within a word: neither a letter nor a digit, nor `word`, precedes it."""
    start = f"{behind}{re.escape(prefix)}"
    return KeyPattern(name, prefix, f"{start}(?<![A-Za-z0-9{word}]{start}){rest}", kind)


_BEARER: Final = r"[ \t]{1,3}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)"
_JWT: Final = r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?"

KEY_PATTERNS: Final = (
    _key("OpenAI, Anthropic", "sk-", "[A-Za-z0-9_-]{16,}+"),
    _key("Stripe live", "k_live_", "[A-Za-z0-9]{10,}+", behind="[srp]"),
    _key("Stripe test", "k_test_", "[A-Za-z0-9]{10,}+", behind="[srp]"),
    _key("Stripe webhook", "whsec_", "[A-Za-z0-9+/=]{16,}+"),
    _key("GitHub OAuth", "gho_", "[A-Za-z0-9]{20,}+"),
    _key("GitHub personal", "ghp_", "[A-Za-z0-9]{20,}+"),
    _key("GitHub server", "ghs_", "[A-Za-z0-9]{20,}+"),
    _key("GitHub user", "ghu_", "[A-Za-z0-9]{20,}+"),
    _key("GitHub refresh", "ghr_", "[A-Za-z0-9]{20,}+"),
    _key("GitHub fine-grained", "github_pat_", "[A-Za-z0-9_]{20,}+"),
    _key("GitLab", "glpat-", "[A-Za-z0-9_-]{16,}+"),
    _key("Slack", "xox", "[abeoprs]-[A-Za-z0-9-]{10,}+"),
    _key("Slack app", "xapp-", "[A-Za-z0-9-]{10,}+"),
    _key("AWS", "AKIA", "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _key("AWS temporary", "ASIA", "[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _key("Google", "AIza", "[A-Za-z0-9_-]{35,}+"),
    _key("Google OAuth", "ya29.", "[A-Za-z0-9_-]{20,}+"),
    _key("SendGrid", "SG.", r"[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,64}+", word="_-"),
    _key("Hugging Face", "hf_", "[A-Za-z0-9]{30,}+"),
    _key("npm", "npm_", "[A-Za-z0-9]{36,}+"),
    _key("Groq", "gsk_", "[A-Za-z0-9]{30,}+"),
    _key("xAI", "xai-", "[A-Za-z0-9]{30,}+"),
    _key("Perplexity", "pplx-", "[A-Za-z0-9]{30,}+"),
    _key("Tavily", "tvly-", "[A-Za-z0-9-]{16,}+"),
    _key("JSON web token", "eyJ", _JWT, "token", word="_-"),
    _key("Bearer", "earer", _BEARER, "token", behind="[Bb]"),
    _key("BEARER", "BEARER", _BEARER, "token"),
    KeyPattern("Basic", "asic ", r"[Aa](?i:uthorization)\W{1,6}Basic (?P<value>[A-Za-z0-9+/=]{8,}+)", "token"),
    KeyPattern("Telegram", ":AA", r"[0-9](?<![0-9][0-9])[0-9]{7,9}:AA[A-Za-z0-9_-]{30,}+", "token"),
    KeyPattern(
        "Slack webhook", "slack.com/", r"hooks\.slack\.com/(?P<value>[a-z]{5,12}+/[A-Za-z0-9/_-]{8,}+)", "token"
    ),
    KeyPattern("Discord webhook", "/webhooks/", r"/api/webhooks/(?P<value>[0-9]{10,20}/[A-Za-z0-9_-]{8,}+)", "token"),
    KeyPattern("address", "://", r"://[^\s/:@\"'<>]{0,64}+:(?P<value>[^\s/@\"'<>]{1,256}+)@", "secret"),
)

_PRIVATE_KEY: Final = "-----BEGIN "
_PEM_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=\s,:-]|\\[nr])*+")
_PREFIXES: Final = group_words(
    (_PRIVATE_KEY, *(key.prefix for key in KEY_PATTERNS)), ("_", "-", ":", "/", "J", "G", "R", "z", "x")
)


def may_hold_key(text: str) -> bool:
    """Return whether `find_keys` may find anything."""
    prefixes = words_in(text, _PREFIXES)
    if not prefixes:
        return False
    if _PRIVATE_KEY in prefixes:
        return True
    return any(key.pattern.search(text) is not None for key in KEY_PATTERNS if key.prefix in prefixes)


def find_keys(text: str) -> Iterator[Span]:
    prefixes = words_in(text, _PREFIXES)
    if _PRIVATE_KEY in prefixes:
        yield from _find_private_keys(text)
    for key in KEY_PATTERNS:
        if key.prefix in prefixes:
            yield from key.find(text)


def _find_private_keys(text: str) -> Iterator[Span]:
    """PEM blocks. A block whose end was cut off is as secret as a whole one."""
    position = 0
    has_end = True
    while begin := _PEM_BEGIN.search(text, position):
        end = _PEM_END.search(text, begin.end()) if has_end else None
        has_end = end is not None
        body = end or _PEM_BODY.match(text, begin.end())
        position = body.end() if body else begin.end()
        yield Span(begin.start(), position, "private key")


# ── labels ──────────────────────────────────────────────────────────────────────────────────────────────────

# A label before a value makes it a secret: `password=…`, `"api_key": "…"`, `비밀번호: …`, `account 12345678`. The words
# before a number and the unit after it tell a card or a personal number from a market value.

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
