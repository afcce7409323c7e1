"""Readers of rendered parts, independent of the code that writes them: what a person reads, or what is wrong."""

import re
from html.parser import HTMLParser
from typing import Final

from finclaw.kernel.envelope import Markup

_TELEGRAM: Final = frozenset(("b", "i", "u", "s", "code", "pre", "a", "blockquote", "tg-spoiler"))
_BLOCKS: Final = frozenset(
    ("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "pre", "blockquote", "table", "thead", "tbody", "tr")
)
_MATRIX: Final = _BLOCKS | frozenset(("strong", "em", "del", "code", "a", "th", "td", "br", "hr"))
_VOID: Final = frozenset(("br", "hr"))
_PARENTS: Final = {
    "li": {"ul", "ol"},
    "thead": {"table"},
    "tbody": {"table"},
    "tr": {"thead", "tbody"},
    "th": {"tr"},
    "td": {"tr"},
}
_ATTRIBUTES: Final = {"a": {"href"}, "code": {"class"}, "ol": {"start"}}
_CHILDREN: Final = {"ul": {"li"}, "ol": {"li"}, "table": {"thead", "tbody"}, "tr": {"th", "td"}}


class _Reader(HTMLParser):
    """A strict reader of HTML: every tag is known, in its place, and closed in order."""

    def __init__(self, tags: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self._tags = tags
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self._tags, tag
        parent = self.open[-1] if self.open else ""
        assert parent in _PARENTS.get(tag, {parent}), (tag, self.open)
        assert tag in _CHILDREN.get(parent, {tag}), (tag, self.open)
        assert not {"code", "pre"} & set(self.open) or (tag, parent) == ("code", "pre"), (tag, self.open)
        assert tag not in self.open or tag in ("ul", "ol", "li", "blockquote"), (tag, self.open)
        assert not (tag == "blockquote" and tag in self.open and self._tags is _TELEGRAM), self.open
        assert {name for name, _ in attrs} <= _ATTRIBUTES.get(tag, set()), attrs
        assert tag != "a" or re.match("(?:https?|mailto|tg):", dict(attrs)["href"] or ""), attrs
        if tag in _VOID:
            self.words.append("\n")
        else:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag
        if self._tags is _MATRIX and (tag in _BLOCKS or tag in ("td", "th")):
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        assert not (self.open and self.open[-1] in _CHILDREN), (data, self.open)
        self.words.append(data)


def read_html(text: str, markup: Markup) -> str:
    assert re.search(r"&(?!amp;|lt;|gt;|quot;)", text) is None, text
    reader = _Reader(_TELEGRAM if markup == "inline_html" else _MATRIX)
    reader.feed(text)
    reader.close()
    assert not reader.open, reader.open
    return "".join(reader.words)


_FENCE: Final = re.compile(r"^(?:> )?[ ]*(`{3,})[\w+#.-]*$")


def read_fenced(text: str, markup: Markup) -> str:
    """Markdown of Discord, or mrkdwn of Slack: with its code closed, without its signs."""
    words, marks = list[str](), ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if fence and marks in ("", fence[1]):
            marks = "" if marks else fence[1]
        elif marks:
            words.append(line)
        else:
            words.append(_read_line(line, markup))
    assert not marks, text
    joined = "\n".join(words)
    return _unescape(joined) if markup == "mrkdwn" else joined


def _read_line(line: str, markup: Markup) -> str:
    if markup == "mrkdwn":
        assert re.search(r"&(?!amp;|lt;|gt;)|<(?!(?:https?|mailto|tg):[^<>|\s]+\|[^<>]+>)", line) is None, line
        return re.sub(r"<[^<>|]+\|([^<>]+)>", r"\1", line)
    line = re.sub(r"\[((?:\\.|[^\[\]\\])+)\]\([^()\s]+\)", r"\1", line)
    return re.sub(r"\\([\\*_~`|>\[\]#<])", r"\1", line)


def _unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
