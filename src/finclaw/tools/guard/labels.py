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
_STEMS: Final = {
    "pass": ("password", "passwd", "passphrase"), "pwd": ("pwd",), "secret": ("secret",), "token": ("token",),
    "key": tuple(label for label in _SECRET if "key" in label), "credential": ("credential",),
    "session": ("session_id", "sessionid"), **{label: (label,) for label in LABELS if not label.isascii()},
}  # fmt: skip
"""Labels by what they have in common: where that is not, none of them is looked for."""
_AFTER: Final = re.compile(
    r"""(?:[ _-]?(?i:key|value|secret|token))?+\\?["']?[ \t]{0,3}+"""
    r"""(?P<sign>[:=]{1,2}|%3[Dd]|는|은|(?<=[ \t])(?i:is)(?:[ \t]|:))[ \t]{0,3}+"""
    r"""(?:\\?(?P<double>")(?=[^"\\\n])|\\?(?P<single>')(?=[^'\\\n])|(?P<bare>)(?=[^\s"'&,;<>{}()\\]))"""
)
"""Up to where the value begins."""
_STRANGE: Final = r"[^\x00-\x3e\x40-\x7f]"
"""A question mark, or what is not ASCII and may have become one."""
_SIGN: Final = (
    rf"""(?i:(?:[ _-]?(?:(?:k|{_STRANGE})ey|value|(?:s|{_STRANGE})ecret|to(?:k|{_STRANGE})en))?\\?["']?[ \t]{{0,3}}+"""
    rf"""(?:[:=]{{1,2}}|%3d|{_STRANGE}|(?<=[ \t])(?:i|{_STRANGE})(?:s|{_STRANGE})[ \t:])[ \t]{{0,3}}+)"""
)
_WITH_VALUE: Final = {
    size: rf"""{_SIGN}(?:\\?"[^"\\\n]{{{size}}}|\\?'[^'\\\n]{{{size}}}|[^\s"'&,;<>{{}}()\\]{{{size}}})"""
    for size in (4, 8)
}
"""Roughly the same, and that the value is not too short: what fails here, as most do, costs next to nothing."""
_SHORTEST_SPOKEN: Final = 16
"""Of a key or a token behind "is": a token is many things in a sentence, `ERC-1155` among them."""
_LONGEST_SIGN: Final = 10
"""Of those that are letters, with the word before it."""
_LONGEST: Final = 2_000
_QUOTED: Final = {
    "double": re.compile(rf"""[^"\\\n]{{1,{_LONGEST}}}+"""),
    "single": re.compile(rf"""[^'\\\n]{{1,{_LONGEST}}}+"""),
}
_BARE: Final = re.compile(r"""[^\s"'&,;<>{}()\\]++""")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
"""Of a coin's contract: public, and what a question about it needs."""
_EMPTY: Final = frozenset(("", "null", "none", "true", "false", "undefined", "required", "optional", "string"))
_LONGEST_EMPTY: Final = max(map(len, _EMPTY))


def labelled_secrets(view: View) -> Iterator[Span]:
    for stem, labels in _STEMS.items():
        if view.may_have(stem):
            for label in filter(view.may_have, labels):
                yield from few(view.text, _labelled(view, label))


def _labelled(view: View, label: str) -> Iterator[Span]:
    text, position, values = view.text, 0, _Values(view.text)
    is_password, shortest = label in _PASSWORD, 4 if label in _PASSWORD else 8
    for place in view.places(label, _WITH_VALUE[shortest]):
        if place < position or (is_password and values.has_only_letters_behind(place + len(label))):
            continue
        if (found := _AFTER.match(text, place + len(label))) is None:
            continue
        start, group = found.end(), found.lastgroup or "bare"
        if text[start] == "[" and PLACEHOLDER.match(text, start) is not None:
            continue
        end = values.end(group, start)
        if end - start < shortest:
            continue
        if not is_password and found["sign"][:1] in "iI" and end - start < _SHORTEST_SPOKEN:
            continue
        if is_password and found["sign"] not in ":==" and values.are_letters(start, end):
            continue
        if _is_secret(label, group, text[start:end]):
            yield Span(start, end, "secret")
            position = end


class _Values:
    """Where the values in a text end. A long one that is full of labels is read once, and not again for each."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._bare_until = self._letters_until = self._judged_until = 0

    def end(self, group: str, start: int) -> int:
        if group != "bare":
            return _end(_QUOTED[group], self._text, start)
        if start >= self._bare_until:
            self._bare_until = _end(_BARE, self._text, start)
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

    def has_only_letters_behind(self, place: int) -> bool:
        """Whether this is amid a word that was read to its end: its value then is letters, too, whatever the sign."""
        return place + _LONGEST_SIGN < self._letters_until == self._bare_until


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found is not None else start


def _is_secret(label: str, group: str, value: str) -> bool:
    """After 'password' any word is one; after 'token' only what no sentence, coin or count would say."""
    bare = value.strip("*")
    if len(bare) <= _LONGEST_EMPTY and bare.lower() in _EMPTY:
        return False
    if label in _PASSWORD:
        return True
    if label in ("token", "토큰") and _ADDRESS.fullmatch(value):
        return False
    spoken = group == "bare" or " " in value
    mixed = any(map(str.isdigit, value)) and not value.replace(".", "").replace(",", "").isdigit()
    return mixed or (len(value) >= 20 and not value.isdigit()) or not (spoken or value.isdigit())
