"""HTML as a row of tags and texts, in one pass: no input makes it look at a place more than a few times.

The interpreter's own `html.parser` is quadratic on broken pages in many of its versions (CVE-2025-6069 and later), and
what we read is whatever a stranger likes. Where markup never ends, it ends with the page, as in a browser.
"""

import html
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"[a-zA-Z][^\s/>]*+")
_GAP: Final = re.compile(r"[\s/]*+")
_ATTRIBUTE: Final = re.compile(r"=?[^\s/>=]*+")
_EQUALS: Final = re.compile(r"\s*+=\s*+")
_BARE: Final = re.compile(r"[^\s>]*+")
_COMMENT_END: Final = re.compile(r"--!?>")
_LONG_NUMBER: Final = re.compile(r"&#(?:[0-9]{8,}+|[xX][0-9a-fA-F]{7,}+);?")
"""No character has it, and Python refuses to read some thousand digits."""
_KEPT: Final = frozenset({"aria-hidden", "hidden", "href", "open", "style"})
_RAW: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp")
}
"""Elements in which nothing is markup but their own end."""


class Start(NamedTuple):
    name: str
    attributes: dict[str, str]
    """Those that a reader asks for; the first of a name counts."""


class End(NamedTuple):
    name: str


Token = Start | End | str


def tokens(page: str) -> Iterator[Token]:
    at = 0
    while (opening := page.find("<", at)) >= 0:
        if opening > at:
            yield unescape(page[at:opening])
        tag, at = _tag(page, opening)
        if tag is None:
            continue
        yield tag
        if isinstance(tag, Start) and tag.name in _RAW:
            ending = _RAW[tag.name].search(page, at)
            if ending is None:
                return
            yield unescape(page[at : ending.start()])
            at = ending.start()
    if at < len(page):
        yield unescape(page[at:])


def unescape(text: str) -> str:
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def _tag(page: str, at: int) -> tuple[Token | None, int]:
    """What begins at this '<', and where it ends. Nothing, for what is not shown."""
    if page.startswith(("<!", "<?"), at):
        return None, _after_comment(page, at)
    is_end = page.startswith("</", at)
    name = _NAME.match(page, at + 1 + is_end)
    if name is None:
        return (None, _after(page, ">", at)) if is_end else ("<", at + 1)
    attributes, after = _attributes(page, name.end())
    if after < 0:  # the tag never ends, so there is none
        return None, len(page)
    return (End(name[0].lower()) if is_end else Start(name[0].lower(), attributes)), after


def _after_comment(page: str, at: int) -> int:
    if not page.startswith("<!--", at):
        return _after(page, ">", at)
    if page.startswith((">", "->"), at + 4):
        return _after(page, ">", at)
    end = _COMMENT_END.search(page, at + 4)
    return end.end() if end else len(page)


def _after(page: str, sign: str, at: int) -> int:
    found = page.find(sign, at)
    return len(page) if found < 0 else found + 1


def _attributes(page: str, at: int) -> tuple[dict[str, str], int]:
    """Those of a tag, and where it ends: -1 when the page ends first."""
    found: dict[str, str] = {}
    if page.startswith(">", at):  # most have none
        return found, at + 1
    while True:
        at = _end(_GAP, page, at)
        if at >= len(page):
            return found, -1
        if page[at] == ">":
            return found, at + 1
        begin, at = at, _end(_ATTRIBUTE, page, at)
        name = page[begin:at].lower()
        value, at = _value(page, at)
        if at < 0:
            return found, -1
        if name in _KEPT and name not in found:
            found[name] = unescape(value)


def _value(page: str, at: int) -> tuple[str, int]:
    equals = _EQUALS.match(page, at)
    if equals is None:
        return "", at
    at = equals.end()
    mark = page[at : at + 1]
    if mark and mark in "\"'":
        end = page.find(mark, at + 1)
        return (page[at + 1 : end], end + 1) if end >= 0 else ("", -1)
    end = _end(_BARE, page, at)
    return page[at:end], end


def _end(pattern: re.Pattern[str], page: str, at: int) -> int:
    found = pattern.match(page, at)
    return at if found is None else found.end()
