"""A register of the secrets that this process was given, so that they are hidden by value wherever they turn up.

A secret without a famous prefix looks like any other text. Who knows its value finds it all the same, also as it
stands in an address, in JSON, in HTML, in hexadecimal, or in base64 at any offset, as in `Authorization: Basic`.
"""

import base64
import html
import json
import re
import string
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

SHORTEST: Final = 8
"""Characters. A shorter value would be found in ordinary words."""
HIDDEN: Final = "[secret]"
_MOST: Final = 500
"""Temporary secrets that are remembered; a token that is replaced every minute must not fill the memory."""
_LONGEST_FRAGMENT: Final = 16
"""Characters of a secret beside an ellipsis that are enough to hide them; half of a shorter secret is enough."""
_MOST_FRAGMENTS: Final = 1_000
"""Places of a text that are compared with the beginning or end of one secret, so that no text takes long."""
_ELLIPSES: Final = ("...", "…", "\\u2026", "&hellip;")
_BEFORE_ELLIPSIS: Final = re.compile(r"[\s'\"\\\[\](){}<>]{0,3}(\.\.\.|…|\\u2026|&hellip;)")
_AFTER_ELLIPSIS: Final = re.compile(r"(\.\.\.|…|\\u2026|&hellip;)[\s'\"\\\[\](){}<>]{0,3}\Z")
_LONGEST_ELLIPSIS: Final = 11
"""With what may stand between it and the secret: quotation marks, brackets and blanks."""
_BREAKS: Final = re.compile(r"\n|(?<=[.!?。…])\s+")
"""Where an answer is cut while it is being written: a value of several lines, such as a private key, is hidden line by
line."""
_BASE64: Final = string.ascii_letters + string.digits + "+/_=-"
_JSON_ESCAPES: Final = tuple(map(re.compile, ("[&<>]", "[&<>=']", "[&<>'+]")))
"""What the encoders of Go, Java (Gson) and .NET write as `\\u0026`, the last in capitals."""
_UNICODE_ESCAPE: Final = re.compile("u[0-9a-fA-F]{4}")
_LONGEST_RUN: Final = 2_000
"""Characters of base64 on either side of a secret that are hidden with it."""
_NAME: Final = re.compile(
    r"(^|[_-])(key|token|secret|password|passwd|passphrase|credential|auth|apikey)s?$", re.IGNORECASE
)
"""What the name of a secret ends with."""


def is_secret_name(name: str) -> bool:
    return _NAME.search(name) is not None


class KnownSecrets:
    """Values and the forms in which they may be written. Neither is ever shown by `repr`."""

    def __init__(self) -> None:
        self._forms: dict[str, tuple[tuple[str, bool], ...]] = {}
        """By value: each form, and whether it is base64, which is hidden with what stands around it."""
        self._temporary: dict[str, None] = {}
        """The values that may be forgotten, the least recently used first."""

    def remember(self, value: str, *, configured: bool = False) -> None:
        """Configured secrets are never forgotten. Of the others, the 500 that were used last are remembered."""
        value = value.strip()
        if len(value) < SHORTEST:
            return
        is_temporary = not configured and (value not in self._forms or value in self._temporary)
        self._temporary.pop(value, None)
        if is_temporary:
            while len(self._temporary) >= _MOST:
                oldest = next(iter(self._temporary))
                del self._temporary[oldest], self._forms[oldest]
            self._temporary[value] = None
        if value in self._forms:
            return
        parts = [part for part in _BREAKS.split(value) if part != value and len(part) >= SHORTEST]
        forms = [form for each in (value, *parts) for form in _forms_of(each)]
        self._forms[value] = tuple(dict.fromkeys(forms))

    def forget_all(self) -> None:
        self._forms.clear()
        self._temporary.clear()

    def hide(self, text: str) -> str:
        """The text with a mark in place of each secret; the very same text where it holds none."""
        if not self._forms or len(text) < SHORTEST:
            return text
        found = sorted(self._find(text))
        if not found:
            return text
        pieces = list[str]()
        position = 0
        for start, end in found:
            if start >= position:
                pieces += [text[position:start], HIDDEN]
            position = max(position, end)
        return "".join([*pieces, text[position:]])

    def _find(self, text: str) -> Iterator[tuple[int, int]]:
        has_ellipsis = any(each in text for each in _ELLIPSES)
        for value, forms in tuple(self._forms.items()):
            if has_ellipsis:
                yield from _find_fragments(text, value)
            for form, is_base64 in forms:
                start = text.find(form)
                while start >= 0:
                    first = start
                    end = start + len(form)
                    if is_base64:
                        first, end = _whole_run(text, start, end)
                    yield first, end
                    start = text.find(form, end)


def _find_fragments(text: str, value: str) -> Iterator[tuple[int, int]]:
    """Find a prefix of a secret before an ellipsis, or a suffix after one, as in a shortened `repr`."""
    size = max(SHORTEST, min(_LONGEST_FRAGMENT, len(value) // 2))
    for start in islice(_positions(text, value[:size]), _MOST_FRAGMENTS):
        end = start + _shared_length(value, text[start : start + len(value)])
        if _BEFORE_ELLIPSIS.match(text, end):
            yield start, end
    for position in islice(_positions(text, value[-size:]), _MOST_FRAGMENTS):
        end = position + size
        before = text[max(0, end - len(value)) : end]
        start = end - _shared_length(value[::-1], before[::-1])
        if _AFTER_ELLIPSIS.search(text[max(0, start - _LONGEST_ELLIPSIS) : start]):
            yield start, end


def _shared_length(one: str, other: str) -> int:
    """How many characters two texts have in common from their beginning."""
    differing = (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(one), len(other)))


def _positions(text: str, part: str) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


def _forms_of(value: str) -> Iterator[tuple[str, bool]]:
    yield value, False
    raw = value.encode(errors="surrogatepass")
    in_address = {quote(value, safe="", errors="replace"), quote(value, errors="replace")}
    in_address |= {quote_plus(value, errors="replace"), value.replace("%", "%25")}
    in_address |= {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), each) for each in in_address}
    in_address |= {quote(each, safe="") for each in in_address}  # an address inside an address
    in_code = {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    in_code |= {_as_written_by(each, escaped) for each in in_code for escaped in _JSON_ESCAPES}
    in_code |= {each.replace("/", "\\/") for each in in_code}
    in_code |= {json.dumps(each)[1:-1] for each in in_code}  # JSON inside JSON
    for each in sorted(in_address | in_code | {html.escape(value), html.escape(value, quote=False)}):
        yield each, False
    yield raw.hex(), False
    yield raw.hex().upper(), False
    for core in _cores_in_base64(raw):
        yield core, True
        yield core.replace("+", "-").replace("/", "_"), True


def _as_written_by(written: str, escaped: re.Pattern[str]) -> str:
    """JSON as encoders write it that are careful about HTML."""
    upper = "+" in escaped.pattern
    return escaped.sub(lambda found: f"\\u{ord(found[0]):04X}" if upper else f"\\u{ord(found[0]):04x}", written)


def _cores_in_base64(raw: bytes) -> Iterator[str]:
    """What base64 of anything that holds these bytes holds, for each of the three places where they may begin."""
    for before in range(3):
        written = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        first = (0, 2, 3)[before]  # the characters before this one depend on what stands before the secret
        whole = (before + len(raw)) * 8 // 6
        core = written[first:whole]
        if len(core) >= SHORTEST:
            yield core


def _whole_run(text: str, start: int, end: int) -> tuple[int, int]:
    """The characters at both ends hold some bits of the secret too, so all base64 around it goes with it."""
    lowest = max(0, start - _LONGEST_RUN)
    first = lowest + len(text[lowest:start].rstrip(_BASE64))
    if first < start and first > 0 and text[first - 1] == "\\":
        first += 5 if _UNICODE_ESCAPE.match(text, first) else 1  # what belongs to an escape such as \u0001 or \n
        first = min(first, start)
    behind = text[end : end + _LONGEST_RUN]
    return first, end + len(behind) - len(behind.lstrip(_BASE64))


_known: Final = KnownSecrets()
hide_known_secrets: Final = _known.hide
forget_known_secrets: Final = _known.forget_all


def remember_secret(value: str) -> None:
    """Hide a secret of the settings from now on."""
    _known.remember(value, configured=True)


def hide_and_cut(text: str, length: int) -> str:
    """At most `length` characters. Secrets are hidden first, because nothing would recognise half of one."""
    return hide_known_secrets(text)[:length]


def hide_in_bytes(content: bytes) -> bytes:
    """The content with its secrets hidden; bytes that are not UTF-8 stay as they are."""
    text = content.decode("utf-8", "surrogateescape")
    hidden = hide_known_secrets(text)
    return content if hidden is text else hidden.encode("utf-8", "surrogateescape")


def remember_secrets_in_address(address: str) -> None:
    """The password of a web address, and values of its query such as `?key=…`."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return
    remember_secret(parts.password or "")
    for name, value in parse_qsl(parts.query):
        if is_secret_name(name):
            remember_secret(value)


class Secret:
    """A value that is hidden wherever it turns up, for as long as the process lives.

    `temporary`: it is replaced often, such as an access token, and may be forgotten after 500 others.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str, *, temporary: bool = False) -> None:
        self._value: Final = value
        _known.remember(value, configured=not temporary)

    def reveal(self) -> str:
        """The only way to the value, so that every use can be found by its name."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret is never pickled or copied to disk")


Follow = Callable[[str, object], Secret]
"""From a setting's name and what stands there, such as `env:NAME`, to the secret. Raises ConfigError."""
