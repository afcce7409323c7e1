"""Keys and tokens that show what they are by how they begin.

Each search is made only if its beginning is in the text at all, and nothing that was taken is given back.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from finclaw.tools.guard.span import Kind, Span, few
from finclaw.tools.guard.view import View

_NOT_IN_WORD: Final = "[A-Za-z0-9]"
_NOT_IN_TOKEN: Final = "[A-Za-z0-9_-]"


class Form(NamedTuple):
    beginning: str
    pattern: re.Pattern[str]
    kind: Kind
    mark: str
    """The one of its characters to look for first, which is quicker: most texts have no '_', and tables no 'x'."""


def _as_it_is(beginning: str, pattern: str, kind: Kind) -> Form:
    return Form(beginning, re.compile(pattern), kind, "_" if "_" in beginning else max(beginning))


def _form(beginning: str, first: str, rest: str, kind: Kind = "api key", not_behind: str = _NOT_IN_WORD) -> Form:
    """That it does not begin within a word is asked behind its first letters: the engine looks for those fast."""
    return _as_it_is(beginning, f"{first}(?<!{not_behind}{first}){rest}", kind)


FORMS: Final = (
    _form("sk-", "sk-", r"[A-Za-z0-9_-]{16,}+"),
    _form("_live_", "[srp]k_live_", "[A-Za-z0-9]{10,}+"),
    _form("_test_", "[srp]k_test_", "[A-Za-z0-9]{10,}+"),
    _form("whsec_", "whsec_", "[A-Za-z0-9+/=]{16,}+"),
    *(_form(f"gh{kind}_", f"gh{kind}_", "[A-Za-z0-9]{20,}+") for kind in "opsur"),
    _form("github_pat_", "github_pat_", "[A-Za-z0-9_]{20,}+"),
    _form("glpat-", "glpat-", r"[A-Za-z0-9_-]{16,}+"),
    _form("xox", "xox", r"[abeoprs]-[A-Za-z0-9-]{10,}+"),
    _form("xapp-", "xapp-", r"[A-Za-z0-9-]{10,}+"),
    _form("AKIA", "AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _form("ASIA", "ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _form("AIza", "AIza", r"[A-Za-z0-9_-]{35,}+"),
    _form("ya29.", r"ya29\.", r"[A-Za-z0-9_-]{20,}+"),
    _form("SG.", r"SG\.", r"[A-Za-z0-9_-]{16,64}+\.[A-Za-z0-9_-]{16,64}+", not_behind=_NOT_IN_TOKEN),
    _form("hf_", "hf_", "[A-Za-z0-9]{30,}+"),
    _form("npm_", "npm_", "[A-Za-z0-9]{36,}+"),
    _form("gsk_", "gsk_", "[A-Za-z0-9]{30,}+"),
    _form("xai-", "xai-", r"[A-Za-z0-9]{30,}+"),
    _form("pplx-", "pplx-", r"[A-Za-z0-9]{30,}+"),
    _form("tvly-", "tvly-", r"[A-Za-z0-9-]{16,}+"),
    _form("eyJ", "eyJ", r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?", "token", _NOT_IN_TOKEN),
    _form("earer", "[Bb]earer", r"[ \t]{1,3}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)", "token"),
    _form("EARER", "BEARER", r"[ \t]{1,3}+(?P<value>[A-Za-z0-9._~+/=-]{16,}+)", "token"),
    _as_it_is("asic ", r"[Aa](?i:uthorization)\W{1,6}Basic (?P<value>[A-Za-z0-9+/=]{8,}+)", "token"),
    _as_it_is(":AA", r"[0-9](?<![0-9][0-9])[0-9]{7,9}:AA[A-Za-z0-9_-]{30,}+", "token"),
    _as_it_is("hooks.slack.com", r"hooks\.slack\.com/(?P<value>[a-z]{5,12}+/[A-Za-z0-9/_-]{8,}+)", "token"),
    _as_it_is("/api/webhooks/", r"/api/webhooks/(?P<value>[0-9]{10,20}/[A-Za-z0-9_-]{8,}+)", "token"),
    _as_it_is("://", r"://[^\s/:@\"'<>]{0,64}+:(?P<value>[^\s/@\"'<>]{1,256}+)@", "secret"),
)

_PEM_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY: Final = re.compile(r"(?:[A-Za-z0-9+/=\s,:-]|\\[nr])*+")


_MARKS: Final = frozenset(form.mark for form in FORMS)


def keys_and_tokens(view: View) -> Iterator[Span]:
    marks = frozenset(filter(view.text.__contains__, _MARKS))
    for form in FORMS:
        if form.mark in marks and view.may_begin(form.beginning):
            yield from few(view.text, _of_form(view.text, form))


def _of_form(text: str, form: Form) -> Iterator[Span]:
    group = "value" if "value" in form.pattern.groupindex else 0
    for found in form.pattern.finditer(text):
        yield Span(found.start(group), found.end(group), form.kind)


def private_keys(view: View) -> Iterator[Span]:
    """A block whose end was cut off is as secret as a whole one."""
    text, position, has_end = view.text, 0, True
    while begin := _PEM_BEGIN.search(text, position):
        end = _PEM_END.search(text, begin.end()) if has_end else None
        has_end = end is not None
        body = end or _PEM_BODY.match(text, begin.end())
        position = body.end() if body else begin.end()
        yield Span(begin.start(), position, "private key")
