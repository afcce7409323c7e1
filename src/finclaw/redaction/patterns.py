"""The table of keys and tokens by their prefix, and the types that every search for secrets returns.

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
