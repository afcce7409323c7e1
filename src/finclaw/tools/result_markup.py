"""Stripping of HTML from a result: the words stay, and so do `a < b`, `List<int>` and the tags of other people's XML.

Only names that HTML knows, and tags that could run or load something, are taken for tags. A full HTML parser would
read `x<y>z` as a tag, glue the cells of a table into one number and turn `&` into `&amp;`.
"""

import re
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
_REPLACEMENTS: Final = {
    **dict.fromkeys(_INLINE.split(), ""),
    **dict.fromkeys(_BLOCK.split(), "\n"),
    **dict.fromkeys(_CELL.split(), "\t"),
}
"""Nothing replaces a tag within a word or number; between two cells there is no number."""
_UNSEEN: Final = frozenset(("script", "style", "template", "noscript", "iframe", "noembed", "noframes"))
"""Elements whose inside nobody sees on a page."""

_LETTER: Final = "A-Za-zİıſ\u212a"
"""As if case were ignored, which would take most of the time if it were."""
_WITH_TAGS: Final = r"""(?:"[^"]{0,300}"|'[^']{0,300}')"""
"""A quoted value that may hold '<': a short one, because it is read again from every '<' in it."""
_ATTRIBUTES: Final = rf"""[^<>=]*+(?:=\s*+(?:"[^"<]*+"|'[^'<]*+'|(?!{_WITH_TAGS}))[^<>=]*+)*+"""
_TAG: Final = (
    rf"<(?:(?P<slash>/?)(?P<name>[{_LETTER}][{_LETTER}0-9:._-]*+)"
    rf"(?P<rest>{_ATTRIBUTES}(?:=\s*+{_WITH_TAGS}{_ATTRIBUTES}){{0,3}}+)(?P<end>>|(?=<)|\Z)"
    r"|(?P<comment>!--)|(?i:!\[CDATA\[|!doctype|\?xml)[^<>]*+>)"
)
_LOADS_OR_RUNS: Final = r"""[\s/"'](?i:on[a-z]+|href|src|srcdoc|style|action|formaction|xlink:href)\s*="""
_ENTITY: Final = r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"


def strip_markup(text: str) -> str:
    """The words of a page. Doing it again changes nothing."""
    for _ in range(4):
        if "<" not in text and "&" not in text:
            return text
        stripped = re.sub(_ENTITY, _decode_entity, _strip_tags(text))
        if stripped == text:
            return text
        text = stripped
    # Tags within tags within tags are built to outlast the stripping: without '<' and '&' nothing is left to strip.
    return text.replace("<", "").replace("&", "")


def _strip_tags(text: str) -> str:
    in_json = text.lstrip()[:1] in ("{", "[")  # whose strings have no raw line ends
    parts = list[str]()
    missing = set[str]()
    position = 0
    tags = re.compile(_TAG)
    tag = tags.search(text)
    while tag is not None:
        end = _end_of_tag(tag, missing) if _is_tag(tag) else -1
        if end >= 0:
            replacement = _REPLACEMENTS.get((tag["name"] or "").lower(), "")
            if replacement and in_json:
                replacement = " "
            parts += (text[position : tag.start()], replacement)
            position = end
        tag = tags.search(text, max(tag.start() + 1, position))
    return "".join([*parts, text[position:]])


def _is_tag(tag: re.Match[str]) -> bool:
    name, rest, end = tag.group("name", "rest", "end")
    if LEFT_OUT in tag[0]:
        return False
    if name is None:
        return True
    if name.lower() in _REPLACEMENTS and end:
        return len(name) > 1 or not _is_bare_words(rest)  # in 'a<b and c>d' there is no tag
    return re.search(_LOADS_OR_RUNS, rest) is not None  # even if it never ends: a page may end it


def _is_bare_words(rest: str) -> bool:
    return rest[:1].isspace() and not rest.isspace() and re.search(r"""[="'/]""", rest) is None


def _end_of_tag(tag: re.Match[str], missing: set[str]) -> int:
    """Return the position after a tag, a comment, or an element nobody sees; -1 for a comment that is never closed.

    A closing mark that was looked for in vain is missing and is not looked for again.
    """
    name = (tag["name"] or "").lower()
    if tag["comment"]:
        closing = "-->"
    elif name in _UNSEEN and not tag["slash"] and not tag["rest"].endswith("/"):
        closing = rf"</(?i:{name})(?![{_LETTER}0-9])[^<>]*+>?"
    else:
        return tag.end()
    found = None if closing in missing else re.compile(closing).search(tag.string, tag.end())
    if found is not None:
        return found.end()
    missing.add(closing)
    return -1 if tag["comment"] else tag.end()


def _decode_entity(entity: re.Match[str]) -> str:
    """The character an entity means, unless that is markup again or would break JSON."""
    meant = unescape(entity[0])
    if meant == entity[0] or any(mark in '<>&"\\;' or (mark.isspace() and mark != "\xa0") for mark in meant):
        return entity[0]
    return clean(meant)
