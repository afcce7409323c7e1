"""Stripping of HTML from a result: the words stay, and so do `a < b`, `List<int>` and the tags of other people's XML.

Only names that HTML knows, and tags that could run or load something, are taken for tags. A full HTML parser would
read `x<y>z` as a tag, glue the cells of a table into one number and turn `&` into `&amp;`.
"""

import re
from collections.abc import Callable
from functools import cache
from html import unescape
from typing import Final

from finclaw.redaction.clean import clean

LEFT_OUT: Final = "[… "
"""How the guard's own note of a cut begins; no tag reaches across it."""

_BLOCK: Final = """
    address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol optgroup option p pre section
    select summary table tbody tfoot thead title tr ul
"""
_CELL: Final = "td th"
_INLINE: Final = """
    a abbr acronym applet area audio b base basefont bdi bdo bgsound big blink button canvas cite code col colgroup
    data datalist del dfn em embed font foreignobject frame frameset i iframe image img input ins isindex kbd keygen
    label link listing map mark marquee math meta meter noembed noframes noscript object output param picture
    plaintext portal progress q rb rp rt rtc ruby s samp script slot small source span strike strong style sub sup
    svg template textarea time track tt u use var video wbr xmp
"""
_IN_ITS_PLACE: Final = {
    **dict.fromkeys(_INLINE.split(), ""),
    **dict.fromkeys(_BLOCK.split(), "\n"),
    **dict.fromkeys(_CELL.split(), "\t"),
}
"""What is left of a tag. Nothing of one within a word or number; between two cells there is no number."""
_UNSEEN: Final = frozenset(("script", "style", "template", "noscript", "iframe", "noembed", "noframes"))
"""Elements whose inside nobody sees on a page."""

_LETTER: Final = "A-Za-zİıſ\u212a"
"""As if case were ignored, which would take most of the time if it were."""
_NAME: Final = rf"[{_LETTER}][{_LETTER}0-9:._-]*+"
_TAG: Final = (
    rf"(?:(?P<slash>/?)(?P<name>{_NAME})"
    # A quoted value may hold '<' if it is short: an unlimited one would be read again from every '<' in it.
    r"""(?P<rest>[^<>=]*+(?:=\s*+(?:"(?:[^"<]*+|[^"]{0,300}+)"|'(?:[^'<]*+|[^']{0,300}+)')?+[^<>=]*+)*+)(?P<end>>|(?=<)|\Z)"""
    r"|(?P<comment>!--)|(?P<declared>(?i:!\[CDATA\[|!doctype|\?xml)[^<>]*+>))"
)
_UP_TO_END: Final = r"""[^<>=]*+(?:=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|(?!["'\s]))[^<>=]*+)*+>"""
_HIDES: Final = "|".join(f"[{name[0]}{name[0].upper()}](?i:{name[1:]})" for name in sorted(_UNSEEN))
_PARSED: Final = "<" + _TAG
_SIMPLE: Final = rf"(</?{_NAME}{_UP_TO_END})"
"""A tag that is one wherever it stands: it ends where it seems to."""
_ANGLED: Final = "(<[^<>]*+>)"
_NO_TAG: Final = rf"<(?!/?[{_LETTER}]|[!?])"
_HIDING: Final = f"<(?=[iInNsStT])(?:{_HIDES})"
_HARD: Final = rf"<(?:(?=/?{_NAME}[^<>=]*+(?==)(?!{_UP_TO_END}))|(?=[iInNsStT!?])(?={_HIDES}|[!?])){_TAG}"
"""What may reach over others, and is looked at one by one. A tag without '=' that never ends is no tag."""
_HARD_AND_CLOSED: Final = _HARD.replace(r"(?P<end>>|(?=<)|\Z)", "(?P<end>>)")
"""The same where nothing more is loaded or run: no open tag is one then."""
_NOTHING: Final = "(?!)"
_SPACE: Final = r"\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What `\\s` means, which is looked up in a table if it is written out."""
_LOADS_OR_RUNS: Final = (
    rf"""[{_SPACE}/"'](?=[oOhHsSaAfFxXſ])"""
    r"(?:[oO](?i:n[a-z]+)|[hH](?i:ref)|[sSſ](?i:rc|rcdoc|tyle)|[aA](?i:ction)|[fF](?i:ormaction)|[xX](?i:link:href))\s*="
)
_ENTITY: Final = r"(&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});)"


def strip_markup(text: str) -> str:
    """The words of a page. Doing it again changes nothing."""
    for _ in range(4):
        if "<" not in text and "&" not in text:
            return text
        stripped = _replace_each(_ENTITY, cache(_decode_entity), _strip_tags(text))
        if stripped == text:
            return text
        text = stripped
    # Tags within tags within tags are built to outlast the stripping: without '<' and '&' nothing is left to strip.
    return text.replace("<", "").replace("&", "")


def _strip_tags(text: str) -> str:
    position = searched = 0
    in_json = text.lstrip()[:1] in ("{", "[")  # whose strings have no raw line ends

    def in_its_place(name: str | None) -> str:
        mark = _IN_ITS_PLACE.get(name.lower(), "") if name else ""
        return " " if mark and in_json else mark

    @cache
    def left_of(simple: str) -> str:
        tag = re.match(_PARSED, simple)
        return in_its_place(tag["name"]) if tag is not None and _is_tag(tag) else simple

    words, text = _strip_simple_tags(text, left_of)
    kept, ends, harms, hard = [words], _EndSearch(text), _HarmSearch(text), _HARD
    while (tag := re.compile(hard).search(text, searched)) is not None:
        start, searched = tag.start(), tag.start() + 1
        if tag["end"] == "" and not harms.between(start, tag.end()):
            if not harms.after(start):
                hard = _HARD_AND_CLOSED if text.find(">", start) >= 0 else _NOTHING
        elif _is_tag(tag) and (end := ends.after(tag)) >= 0:
            kept += (_replace_each(_SIMPLE, left_of, text[position:start]), in_its_place(tag["name"]))
            position = searched = end
    return "".join([*kept, _replace_each(_SIMPLE, left_of, text[position:])])


def _strip_simple_tags(text: str, left_of: Callable[[str], str]) -> tuple[str, str]:
    """The words of a page whose tags all end where they seem to, and what is behind the last; of any other, nothing."""
    if ">" not in text or re.search(_HIDING, text) is not None:
        return "", text
    pieces = re.split(_ANGLED, text)
    rest = pieces.pop()
    if text.count("<") != len(pieces) // 2 + rest.count("<") or not all(map(_is_simple_or_none, set(pieces[1::2]))):
        return "", text
    pieces[1::2] = map(left_of, pieces[1::2])
    return "".join(pieces), rest


def _is_simple_or_none(angled: str) -> bool:
    return re.fullmatch(_SIMPLE, angled) is not None or re.match(_NO_TAG, angled) is not None


def _replace_each(pattern: str, change: Callable[[str], str], text: str) -> str:
    """What the pattern finds, changed. On a page the same few tags come thousands of times: `change` remembers."""
    first, last = ("&", ";") if pattern == _ENTITY else ("<", ">")
    if first not in text or last not in text:
        return text
    pieces = re.split(pattern, text)
    pieces[1::2] = map(change, pieces[1::2])
    return "".join(pieces)


def _is_tag(tag: re.Match[str]) -> bool:
    name, rest, end = tag.group("name", "rest", "end")
    if name is None:
        return LEFT_OUT not in tag[0]
    if rest and LEFT_OUT in rest:
        return False
    if name.lower() in _IN_ITS_PLACE and end:
        return len(name) > 1 or not _is_bare_words(rest)  # in 'a<b and c>d' there is no tag
    return bool(rest) and re.search(_LOADS_OR_RUNS, rest) is not None  # even if it never ends: a page may end it


_NO_WORD: Final = r"""[="'/]"""


def _is_bare_words(rest: str) -> bool:
    return rest[:1].isspace() and not rest.isspace() and re.search(_NO_WORD, rest) is None


class _HarmSearch:
    """Where in a text something is loaded or run. It is read once, whatever number of open tags it has."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = -1

    def after(self, start: int) -> bool:
        """Whether there is one from here on; the starts come in their order."""
        if self._next < start:
            found = re.compile(_LOADS_OR_RUNS).search(self._text, start)
            self._next = found.start() if found is not None else len(self._text)
        return self._next < len(self._text)

    def between(self, start: int, end: int) -> bool:
        return self.after(start) and self._next < end


_CLOSING: Final = {name: rf"</(?i:{name})(?![{_LETTER}0-9])[^<>]*+>?" for name in _UNSEEN}


class _EndSearch:
    """Where what a tag opens is over. What was looked for in vain is not looked for twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing = set[str]()

    def after(self, tag: re.Match[str]) -> int:
        """The first character behind the tag, the comment, or the element nobody sees; -1 for an open comment."""
        comment, name, slash, rest = tag.group("comment", "name", "slash", "rest")
        if comment:
            return self._behind("-->", tag.end())
        if name is None or slash or (name := name.lower()) not in _UNSEEN or rest.endswith("/"):
            return tag.end()
        return max(tag.end(), self._closing(name, tag.end()))

    def _behind(self, mark: str, start: int) -> int:
        found = -1 if mark in self._missing else self._text.find(mark, start)
        if found < 0:
            self._missing.add(mark)
            return -1
        return found + len(mark)

    def _closing(self, name: str, start: int) -> int:
        if name in self._missing:
            return -1
        found = re.compile(_CLOSING[name]).search(self._text, start)
        if found is None:
            self._missing.add(name)
            return -1
        return found.end()


def _decode_entity(entity: str) -> str:
    """The character an entity means, unless that is markup again or would break JSON."""
    meant = unescape(entity)
    if meant == entity or any(mark in '<>&"\\;' or (mark.isspace() and mark != "\xa0") for mark in meant):
        return entity
    return clean(meant)
