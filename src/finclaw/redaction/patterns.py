"""The table of named patterns: keys and tokens by their prefix, and the labels that say a secret follows.

A pattern is tried only if its prefix is in the text at all. Its quantifiers are possessive (`{16,}+`): nothing that was
taken is given back, so the time is linear in the length of the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from finclaw.redaction.scan_text import Kind, ScanText, Span, limit_spans

PASSWORD_LABELS: Final = ("password", "passwd", "passphrase", "pwd", "비밀번호", "패스워드", "암호")
KEY_LABELS: Final = (
    "secret", "api_key", "api-key", "api key", "apikey", "appkey", "app_key", "access_key", "access-key", "accesskey",
    "private_key", "privatekey", "token", "credential", "session_id", "sessionid", "인증키", "시크릿", "토큰", "접근키",
)  # fmt: skip
ACCOUNT_LABELS: Final = ("account", "acct", "a/c", "계좌", "통장")
SOCIAL_SECURITY_LABELS: Final = ("ssn", "social", "사회보장")
"""With one of these in the text, nine digits need no hyphens."""
LABELS: Final = PASSWORD_LABELS + KEY_LABELS + ACCOUNT_LABELS + SOCIAL_SECURITY_LABELS


@dataclass(frozen=True)
class KeyPattern:
    """A kind of key or token. If its expression has a group `value`, only that group is secret."""

    name: str
    prefix: str
    """Literal text that every match contains."""
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


def _outside_word(prefix: str, rest: str) -> str:
    """An expression for a prefix that does not stand within a word, which is asked behind the prefix.

    The engine searches for literal text fastest, so the prefix comes first.
    """
    return f"{prefix}(?<![A-Za-z0-9]{prefix}){rest}"


def _outside_token(prefix: str, rest: str) -> str:
    return f"{prefix}(?<![A-Za-z0-9_-]{prefix}){rest}"


_BEARER: Final = r"[ \t]{1,3}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)"
_JWT: Final = r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?"

KEY_PATTERNS: Final = (
    KeyPattern("OpenAI, Anthropic", "sk-", _outside_word("sk-", "[A-Za-z0-9_-]{16,}+")),
    KeyPattern("Stripe live", "_live_", _outside_word("[srp]k_live_", "[A-Za-z0-9]{10,}+")),
    KeyPattern("Stripe test", "_test_", _outside_word("[srp]k_test_", "[A-Za-z0-9]{10,}+")),
    KeyPattern("Stripe webhook", "whsec_", _outside_word("whsec_", "[A-Za-z0-9+/=]{16,}+")),
    KeyPattern("GitHub OAuth", "gho_", _outside_word("gho_", "[A-Za-z0-9]{20,}+")),
    KeyPattern("GitHub personal", "ghp_", _outside_word("ghp_", "[A-Za-z0-9]{20,}+")),
    KeyPattern("GitHub server", "ghs_", _outside_word("ghs_", "[A-Za-z0-9]{20,}+")),
    KeyPattern("GitHub user", "ghu_", _outside_word("ghu_", "[A-Za-z0-9]{20,}+")),
    KeyPattern("GitHub refresh", "ghr_", _outside_word("ghr_", "[A-Za-z0-9]{20,}+")),
    KeyPattern("GitHub fine-grained", "github_pat_", _outside_word("github_pat_", "[A-Za-z0-9_]{20,}+")),
    KeyPattern("GitLab", "glpat-", _outside_word("glpat-", "[A-Za-z0-9_-]{16,}+")),
    KeyPattern("Slack", "xox", _outside_word("xox", "[abeoprs]-[A-Za-z0-9-]{10,}+")),
    KeyPattern("Slack app", "xapp-", _outside_word("xapp-", "[A-Za-z0-9-]{10,}+")),
    KeyPattern("AWS", "AKIA", _outside_word("AKIA", "[A-Z0-9]{16}(?![A-Za-z0-9])")),
    KeyPattern("AWS temporary", "ASIA", _outside_word("ASIA", "[A-Z0-9]{16}(?![A-Za-z0-9])")),
    KeyPattern("Google", "AIza", _outside_word("AIza", "[A-Za-z0-9_-]{35,}+")),
    KeyPattern("Google OAuth", "ya29.", _outside_word(r"ya29\.", "[A-Za-z0-9_-]{20,}+")),
    KeyPattern("SendGrid", "SG.", _outside_token(r"SG\.", r"[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,64}+")),
    KeyPattern("Hugging Face", "hf_", _outside_word("hf_", "[A-Za-z0-9]{30,}+")),
    KeyPattern("npm", "npm_", _outside_word("npm_", "[A-Za-z0-9]{36,}+")),
    KeyPattern("Groq", "gsk_", _outside_word("gsk_", "[A-Za-z0-9]{30,}+")),
    KeyPattern("xAI", "xai-", _outside_word("xai-", "[A-Za-z0-9]{30,}+")),
    KeyPattern("Perplexity", "pplx-", _outside_word("pplx-", "[A-Za-z0-9]{30,}+")),
    KeyPattern("Tavily", "tvly-", _outside_word("tvly-", "[A-Za-z0-9-]{16,}+")),
    KeyPattern("JSON web token", "eyJ", _outside_token("eyJ", _JWT), "token"),
    KeyPattern("Bearer", "earer", _outside_word("[Bb]earer", _BEARER), "token"),
    KeyPattern("BEARER", "EARER", _outside_word("BEARER", _BEARER), "token"),
    KeyPattern(
        "Basic", "asic ", r"[Aa](?i:uthorization)\W{1,6}Basic (?P<value>[A-Za-z0-9+/=]{8,}+)", "token"
    ),
    KeyPattern("Telegram", ":AA", r"[0-9](?<![0-9][0-9])[0-9]{7,9}:AA[A-Za-z0-9_-]{30,}+", "token"),
    KeyPattern(
        "Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/(?P<value>[a-z]{5,12}+/[A-Za-z0-9/_-]{8,}+)", "token"
    ),
    KeyPattern(
        "Discord webhook", "/api/webhooks/", r"/api/webhooks/(?P<value>[0-9]{10,20}/[A-Za-z0-9_-]{8,}+)", "token"
    ),
    KeyPattern(
        "password in an address", "://", r"://[^\s/:@\"'<>]{0,64}+:(?P<value>[^\s/@\"'<>]{1,256}+)@", "secret"
    ),
)  # fmt: skip

PRIVATE_KEY_PREFIX: Final = "-----BEGIN "
_PEM_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=\s,:-]|\\[nr])*+")


def find_keys(scanned: ScanText) -> Iterator[Span]:
    for key in KEY_PATTERNS:
        if scanned.may_have_prefix(key.prefix):
            yield from limit_spans(scanned.text, key.find(scanned.text))


def find_private_keys(scanned: ScanText) -> Iterator[Span]:
    """PEM blocks. A block whose end was cut off is as secret as a whole one."""
    text, position, has_end = scanned.text, 0, True
    while begin := _PEM_BEGIN.search(text, position):
        end = _PEM_END.search(text, begin.end()) if has_end else None
        has_end = end is not None
        body = end or _PEM_BODY.match(text, begin.end())
        position = body.end() if body else begin.end()
        yield Span(begin.start(), position, "private key")
