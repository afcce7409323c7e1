"""The words of a page in the order of reading: headings, paragraphs, lists, tables as rows, links with addresses."""

from collections import Counter
from typing import Final, NamedTuple
from urllib.parse import urljoin

from finclaw.builtins.web.hiding import is_hidden, without_invisible
from finclaw.builtins.web.markup import Start, tokens
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
_MOST_LINKS: Final = 500
"""Addresses that are shown; later links are words only."""
_LONGEST_LINK: Final = 300
_ENOUGH: Final = 400
"""Characters of a page's main part that make the rest of it unneeded."""
_MAIN, _BODY, _MARGIN = 0, 1, 2


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
        last = _MAIN if lengths[_MAIN] >= _ENOUGH else _BODY if lengths[_MAIN] + lengths[_BODY] else _MARGIN
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
        return _MAIN if self._names["main"] or self._names["article"] else _BODY


def _tidy(text: str) -> str:
    return " ".join(text.split())
