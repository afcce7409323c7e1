"""Secrets that are known by the word before them: `password=…`, `"api_key": "…"`, `비밀번호: …`."""

import re
from collections.abc import Iterator
from typing import Final

from finclaw.tools.guard.span import PLACEHOLDER, Span, few
from finclaw.tools.guard.view import View

_PASSWORD: Final = ("password", "passwd", "passphrase", "pwd", "비밀번호", "패스워드", "암호")
_SECRET: Final = (
    "secret", "api_key", "api-key", "api key", "apikey", "appkey", "app_key", "access_key", "access-key", "accesskey",
    "private_key", "privatekey", "token", "credential", "session_id", "sessionid", "인증키", "시크릿", "토큰", "접근키",
)  # fmt: skip
LABELS: Final = _PASSWORD + _SECRET
_AFTER: Final = re.compile(
    r"""(?P<more>[_-]?(?:key|value|secret|token))?+\\?["']?[ \t]{0,3}+"""
    r"""(?P<sign>[:=]{1,2}|%3D|는|은|[ \t]is[ \t])[ \t]{0,3}+"""
    r"""(?:\\?"(?P<double>[^"\\\n]{1,2000}+)|\\?'(?P<single>[^'\\\n]{1,2000}+)|(?P<bare>[^\s"'&,;<>{}()\\]{1,2000}+))""",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
"""Of a coin's contract: public, and what a question about it needs."""
_EMPTY: Final = frozenset(
    ("null", "none", "true", "false", "undefined", "required", "optional", "string", "***", "****")
)


def labelled_secrets(view: View) -> Iterator[Span]:
    for label in LABELS:
        yield from few(view.text, _labelled(view, label))


def _labelled(view: View, label: str) -> Iterator[Span]:
    position = 0
    for place in view.places(label):
        if place >= position and (found := _AFTER.match(view.text, place + len(label))) is not None:
            group = found.lastgroup or "bare"
            shown = PLACEHOLDER.match(view.text, found.start(group)) is not None
            if not shown and _is_secret(label, found["sign"], group, found[group]):
                yield Span(found.start(group), found.end(group), "secret")
                position = found.end()  # a long value full of labels is read once


def _is_secret(label: str, sign: str, group: str, value: str) -> bool:
    """After 'password' any word is one; after 'token' only what no sentence, coin or count would say."""
    if value.lower().strip("*") in ("", *_EMPTY):
        return False
    if label in ("token", "토큰") and _ADDRESS.fullmatch(value):
        return False
    if label in _PASSWORD:
        return len(value) >= 4 and (sign in ":==" or not value.isalpha())
    spoken = group == "bare" or " " in value
    mixed = any(map(str.isdigit, value)) and not value.replace(".", "").replace(",", "").isdigit()
    return len(value) >= 8 and (mixed or (len(value) >= 20 and not value.isdigit()) or not (spoken or value.isdigit()))
