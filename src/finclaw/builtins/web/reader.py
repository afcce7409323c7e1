"""The words of a page in the order of reading: headings, paragraphs, lists, tables as rows, links with addresses."""

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import urljoin

from finclaw.redaction import hide_and_cut

# fmt: off
_EMPTY: Final = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
})
_DROPPED: Final = frozenset({
    "audio", "button", "canvas", "datalist", "head", "iframe", "math", "noembed", "noframes", "noscript", "object",
    "script", "select", "style", "svg", "template", "textarea", "video",
})
_FURNITURE: Final = frozenset({"aside", "footer", "nav"})
_PREFIXES: Final = {"li": "- ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}
_SOFT: Final = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hgroup", "main", "nav", "p", "section", "summary",
})
_HARD: Final = frozenset({*_PREFIXES, "br", "caption", "hr", "ol", "pre", "table", "tr", "ul"})
_CELLS: Final = frozenset({"td", "th"})
_CLOSED_BY: Final = {
    "li": frozenset({"li", "p"}), "dt": frozenset({"dt", "dd", "p"}), "dd": frozenset({"dt", "dd", "p"}),
    "td": frozenset({"td", "th", "p"}), "th": frozenset({"td", "th", "p"}), "tr": frozenset({"td", "th", "tr", "p"}),
    **dict.fromkeys((_SOFT | _HARD) - {"li", "dt", "dd", "tr", "br"}, frozenset({"p", "head"})),
}
# fmt: on
"""Elements whose end nobody writes: the next one of these names ends them."""
_MOST_LINKS: Final = 500  # addresses that are shown; later links are words only
_LONGEST_LINK: Final = 300
_ENOUGH: Final = 400  # characters of a page's main part that make the rest of it unneeded
_MAIN, _BODY, _MARGIN = 0, 1, 2


class Start(NamedTuple):
    name: str
    attributes: dict[str, str]
    """Those that a reader needs."""


class End(NamedTuple):
    name: str


Token = Start | End | str


class Reading(NamedTuple):
    title: str
    text: str


class _Open(NamedTuple):
    """An element whose end has not come."""

    name: str
    hidden: bool
    link: str


def read_html(page: str, url: str) -> Reading:
    """In time that grows with the page's length and nothing else."""
    reader = _Reader(url)
    for token in tokens(page):
        if isinstance(token, str):
            reader.text(token)
        elif isinstance(token, Start):
            reader.start(token)
        else:
            reader.end(token.name)
    return reader.reading()


class _Reader:
    def __init__(self, url: str) -> None:
        self._url = url
        self._open: list[_Open] = []
        self._names: Counter[str] = Counter()
        """How many of each name are open, so that an end without a beginning costs nothing."""
        self._hidden = 0
        self._links = 0
        self._title = ""
        self._line: list[str] = []
        self._prefix = ""
        self._lines: list[tuple[int, str]] = []

    def start(self, tag: Start) -> None:
        while self._open and self._open[-1].name in _CLOSED_BY.get(tag.name, ()):
            self._close()
        if not self._hidden:
            self._break(tag.name)
            self._prefix = _PREFIXES.get(tag.name, self._prefix)
            if tag.name in _CELLS and self._line:
                self._line.append(" | ")
        if tag.name in _EMPTY:
            return
        hidden = tag.name in _DROPPED or is_hidden(tag.name, tag.attributes)
        link = tag.attributes.get("href", "") if tag.name == "a" else ""
        self._open.append(_Open(tag.name, hidden, link))
        self._names[tag.name] += 1
        self._hidden += hidden

    def end(self, name: str) -> None:
        if not self._names[name]:
            return
        while self._close() != name:
            pass

    def text(self, words: str) -> None:
        if self._open and self._open[-1].name == "title":
            self._title = self._title or words
        elif self._hidden:
            return
        elif self._names["pre"]:
            self._add_preformatted(words)
        else:
            self._line.append(words)

    def reading(self) -> Reading:
        self._flush()
        lengths = Counter[int]()
        for place, line in self._lines:
            lengths[place] += len(line)
        if lengths[_MAIN] >= _ENOUGH:
            last = _MAIN
        elif lengths[_MAIN] or lengths[_BODY]:
            last = _BODY
        else:
            last = _MARGIN
        text = "\n".join(line for place, line in self._lines if place <= last)
        return Reading(hide_and_cut(_tidy(self._title), 300), without_invisible(text).strip())

    def _close(self) -> str:
        closed = self._open.pop()
        if not self._hidden:
            if closed.link:
                self._show(closed.link)
            self._break(closed.name)
            if closed.name in _PREFIXES:
                self._prefix = ""
        # Only now: where it stands decides where its last line goes.
        self._names[closed.name] -= 1
        self._hidden -= closed.hidden
        return closed.name

    def _break(self, name: str) -> None:
        """A new line, where one begins. Within a row of a table there is none for a mere paragraph."""
        in_row = self._names["td"] or self._names["th"]
        if name in _HARD or (name in _SOFT and not in_row):
            self._flush()
        elif name in _SOFT:
            self._line.append(" ")

    def _show(self, link: str) -> None:
        if self._links >= _MOST_LINKS or not _tidy("".join(self._line[-8:])):
            return
        try:
            address = urljoin(self._url, link.strip()).partition("#")[0]
        except ValueError:
            return
        if address.startswith(("http://", "https://")) and len(address) <= _LONGEST_LINK and address != self._url:
            self._links += 1
            self._line.append(f" ({''.join(address.split())})")

    def _add_preformatted(self, words: str) -> None:
        first, *others = words.split("\n")
        self._line.append(first)
        for line in others:
            self._flush()
            self._line.append(line)

    def _flush(self) -> None:
        if not self._line:
            return
        words = _tidy("".join(self._line)).strip("| ")
        self._line.clear()
        if words:
            self._lines.append((self._place(), self._prefix + words))
            self._prefix = ""

    def _place(self) -> int:
        if any(self._names[name] for name in _FURNITURE):
            return _MARGIN
        if self._names["main"] or self._names["article"]:
            return _MAIN
        return _BODY


def _tidy(text: str) -> str:
    return " ".join(text.split())


# ── text that people cannot see ─────────────────────────────────────────────────────────────────────────────
# It must not reach the model, because a page can instruct a model that way.

_COMMENT: Final = re.compile(r"/\*(?:.*?\*/|.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-9a-f]{1,6})\s?|\\(.)", re.DOTALL)
_BLANKS: Final = re.compile(r"\s+")
_HIDING: Final = re.compile(
    r"""(?:^|;)(?:
        display:none | (?:content-)?visibility:(?:hidden|collapse) | color:transparent
      | font-size:(?:0|1px|1pt)(?![.0-9]*[1-9]) | opacity:(?:0|0?\.0\d*)(?![.0-9]*[1-9])
      | (?:max-)?(?:width|height):0(?![.0-9]*[1-9])
      | (?:text-indent|left|top|right|bottom|margin-left|margin-top):-[0-9]{3,}
      | clip:rect\((?:0|1px) | clip-path:(?:inset\((?:50|100)%|circle\(0) | transform:scale\(0(?![.0-9]*[1-9])
    )""",
    re.VERBOSE,
)
_COLOUR: Final = re.compile(r"(?:^|;)(color|background(?:-color)?):([^;!]{1,64})")
_LONGEST: Final = 4_000
"""Characters of a style. Nobody writes a longer one for people."""
_INVISIBLE: Final = re.compile(
    r"[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)
"""Signs without a shape: marks of direction, blanks without width, and letters that only a machine can see."""


def is_hidden(name: str, attributes: Mapping[str, str]) -> bool:
    if "hidden" in attributes or attributes.get("aria-hidden", "").strip().lower() == "true":
        return True
    if name == "dialog" and "open" not in attributes:
        return True
    return "style" in attributes and is_hiding(attributes["style"])


def is_hiding(style: str) -> bool:
    if len(style) > _LONGEST:
        return True
    plain = _BLANKS.sub("", _ESCAPE.sub(_character, _COMMENT.sub("", style.lower())))
    if _HIDING.search(plain):
        return True
    colours = dict(_COLOUR.findall(plain))
    background = colours.get("background-color") or colours.get("background")
    return background is not None and background == colours.get("color")


def without_invisible(text: str) -> str:
    return _INVISIBLE.sub("", text)


def _character(escape: re.Match[str]) -> str:
    if escape[2]:
        return escape[2]
    code = int(escape[1], 16)
    return chr(code).lower() if code < 0x11_0000 else ""


# ── HTML as a row of tags and texts ─────────────────────────────────────────────────────────────────────────
# One pass, in linear time. The interpreter's `html.parser` is quadratic on broken pages in many versions
# (CVE-2025-6069 and later), and pages are untrusted. Markup that never ends, ends with the page, as in a browser.

_NAME: Final = re.compile(r"[a-zA-Z][^\s/>]*+")
_ATTRIBUTE: Final = re.compile(r"""[\s/]*+(=?[^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>]*+)))?""")
_COMMENT_END: Final = re.compile(r"--!?>")
_LONG_NUMBER: Final = re.compile(r"&#(?:[0-9]{8,}+|[xX][0-9a-fA-F]{7,}+);?")
"""No character has it, and Python refuses to read some thousand digits."""
_KEPT: Final = frozenset({"aria-hidden", "hidden", "href", "open", "style"})
_RAW: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp")
}
"""Elements in which nothing is markup but their own end."""


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
    """What begins at this `<`, or None if it is not shown, and where it ends."""
    if page.startswith(("<!", "<?"), at):
        return None, _after_comment(page, at)
    is_end = page.startswith("</", at)
    name = _NAME.match(page, at + 1 + is_end)
    if name is None and is_end:
        return None, _after(page, ">", at)
    if name is None:
        return "<", at + 1
    attributes, after = _attributes(page, name.end())
    if after < 0:  # the tag never ends, so there is none
        return None, len(page)
    if is_end:
        return End(name[0].lower()), after
    return Start(name[0].lower(), attributes), after


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
    """The attributes of a tag that a reader needs, and where the tag ends: -1 when the page ends first."""
    attributes: dict[str, str] = {}
    while True:
        found = _ATTRIBUTE.match(page, at)
        assert found is not None, "the pattern matches the empty string, too"
        at = found.end()
        name = found[1].lower()
        if not name:
            return attributes, at + 1 if at < len(page) else -1
        if name in _KEPT and name not in attributes:  # the first of a name counts
            attributes[name] = unescape(found[2] or found[3] or found[4] or "")
