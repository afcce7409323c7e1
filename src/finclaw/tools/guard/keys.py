"""Keys and tokens that show what they are by how they begin.

Each search is made only if its beginning is in the text at all, and nothing that was taken is given back.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from finclaw.tools.guard.span import Kind, Span, few
from finclaw.tools.guard.view import View

_WORD: Final = r"(?<![A-Za-z0-9])"
_TOKEN: Final = r"(?<![A-Za-z0-9_-])"


class _Form(NamedTuple):
    beginning: str
    pattern: re.Pattern[str]
    kind: Kind = "api key"


def _form(beginning: str, pattern: str, kind: Kind = "api key") -> _Form:
    return _Form(beginning, re.compile(pattern), kind)


_FORMS: Final = (
    _form("sk-", _WORD + r"sk-[A-Za-z0-9_-]{16,}+"),
    _form("_live_", _WORD + r"[srp]k_live_[A-Za-z0-9]{10,}+"),
    _form("_test_", _WORD + r"[srp]k_test_[A-Za-z0-9]{10,}+"),
    _form("whsec_", _WORD + r"whsec_[A-Za-z0-9+/=]{16,}+"),
    *(_form(f"gh{kind}_", _WORD + rf"gh{kind}_[A-Za-z0-9]{{20,}}+") for kind in "opsur"),
    _form("github_pat_", _WORD + r"github_pat_[A-Za-z0-9_]{20,}+"),
    _form("glpat-", _WORD + r"glpat-[A-Za-z0-9_-]{16,}+"),
    _form("xox", _WORD + r"xox[abeoprs]-[A-Za-z0-9-]{10,}+"),
    _form("xapp-", _WORD + r"xapp-[A-Za-z0-9-]{10,}+"),
    _form("AKIA", _WORD + r"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _form("ASIA", _WORD + r"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _form("AIza", _WORD + r"AIza[A-Za-z0-9_-]{35,}+"),
    _form("ya29.", _WORD + r"ya29\.[A-Za-z0-9_-]{20,}+"),
    _form("SG.", _TOKEN + r"SG\.[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,64}+"),
    _form("hf_", _WORD + r"hf_[A-Za-z0-9]{30,}+"),
    _form("npm_", _WORD + r"npm_[A-Za-z0-9]{36,}+"),
    _form("gsk_", _WORD + r"gsk_[A-Za-z0-9]{30,}+"),
    _form("xai-", _WORD + r"xai-[A-Za-z0-9]{30,}+"),
    _form("pplx-", _WORD + r"pplx-[A-Za-z0-9]{30,}+"),
    _form("tvly-", _WORD + r"tvly-[A-Za-z0-9-]{16,}+"),
    _form("eyJ", _TOKEN + r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?", "token"),
    _form("earer", _WORD + r"[Bb]earer[ \t]{1,3}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)", "token"),
    _form("EARER", _WORD + r"BEARER[ \t]{1,3}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)", "token"),
    _form("asic ", r"(?i:authorization)\W{1,6}Basic (?P<value>[A-Za-z0-9+/=]{8,}+)", "token"),
    _form(":AA", r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}+", "token"),
    _form("hooks.slack.com", r"hooks\.slack\.com/(?P<value>[a-z]{5,12}+/[A-Za-z0-9/_-]{8,}+)", "token"),
    _form("/api/webhooks/", r"/api/webhooks/(?P<value>[0-9]{10,20}/[A-Za-z0-9_-]{8,}+)", "token"),
    _form("://", r"://[^\s/:@\"'<>]{0,64}+:(?P<value>[^\s/@\"'<>]{1,256}+)@", "secret"),
)  # fmt: skip

BEGINNINGS: Final = (*(form.beginning for form in _FORMS), "-----BEGIN ")
"""Without any of these there is no key in a text, and no token."""

_PEM_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=\s,:-]|\\[nr])*+")


def keys_and_tokens(view: View) -> Iterator[Span]:
    text = view.text
    for form in _FORMS:
        if form.beginning in text:
            group = "value" if "value" in form.pattern.groupindex else 0
            matches = form.pattern.finditer(text)
            yield from few(text, (Span(found.start(group), found.end(group), form.kind) for found in matches))


def private_keys(view: View) -> Iterator[Span]:
    """A block whose end was cut off is as secret as a whole one."""
    text, position, has_end = view.text, 0, True
    while begin := _PEM_BEGIN.search(text, position):
        end = _PEM_END.search(text, begin.end()) if has_end else None
        has_end = end is not None
        body = end or _PEM_BODY.match(text, begin.end())
        position = body.end() if body else begin.end()
        yield Span(begin.start(), position, "private key")
