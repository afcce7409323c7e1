"""The parser of the model's Markdown, CommonMark with tables, read as a chat reads it; and the reader of its lines.

A star between digits is arithmetic and an underscore in a name belongs to it; marks work beside Korean, Chinese and
Japanese letters, where no space stands; tags are text; nothing that was written is left out.
"""

import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.helpers import parseLinkLabel, parseLinkTitle
from markdown_it.rules_block import StateBlock, blockquote, list_block, table
from markdown_it.rules_block.table import escapedSplit, getLine
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token

from finclaw.delivery.document import (
    NO_MARKS,
    Dialect,
    DocumentPlace,
    Escapes,
    Fixed,
    Inline,
    Leave,
    TextRun,
    Wrapper,
    Writing,
)
from finclaw.taint.addresses import DELIMITERS, without_punctuation

_DEEPEST: Final = 12
"""Levels of quotes and lists; deeper ones are shown as they were written. The parser would leave them out."""
_DATE: Final = re.compile(r"\d{4}\. ?\d{1,2}\.")
"""A date in Korean, which looks like the beginning of a list."""
_SIGNS: Final = re.compile(r"[\n\\`*_~\[<&]|!\[|://")
_SIMPLE_MARKS: Final = re.compile(
    r"(?<![^ \n(])"
    r"(?:\*\*(?P<strong>(?!\s)[^\n\\`*_~\[<&]+(?<!\s))\*\*"
    r"|\*(?P<em>(?!\s)[^\n\\`*_~\[<&]+(?<!\s))\*"
    r"|`(?P<code>(?!\s)[^\n`]+(?<!\s))`)"
    r"(?![^ \n.,:;!?)])"
    r"|(?<![ \t])\n(?![ \t])"
)
"""Words between marks that mean the same wherever they stand: no other sign is inside, and no letter beside them."""
_SAFE_LINK: Final = re.compile(r"(?:https?|mailto|tg):", re.IGNORECASE)
_DESTINATION: Final = re.compile(
    r"<(?P<inside>(?:[^<>\\\n]|\\.)*)>|(?:[^\x00-\x20\x7f()\\]|\\[^ \n]|\((?:[^\x00-\x20\x7f()\\]|\\[^ \n])*\))+"
)
"""Where a link leads to, with brackets in it, but none inside of those."""
_SCHEME_END: Final = re.compile(r"(?:^|[^a-zA-Z0-9])(https?)$", re.IGNORECASE)
_ADDRESS: Final = re.compile(rf"://[^{DELIMITERS}*`]+")
_WIDE: Final = re.compile("[ᄀ-ᇿ⺀-〿ぁ-ヿㄱ-ㆎ㇀-㏿㐀-䶿一-鿿가-힣豈-﫿＀-￯]")


def parse_markdown(text: str) -> Sequence[Token]:
    return _parser.parse(text)


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return _SAFE_LINK.match(url) is not None

    def normalizeLink(self, url: str) -> str:
        return url.replace(" ", "%20")

    def normalizeLinkText(self, link: str) -> str:
        return link


def _make_parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable(["reference", "lheading", "html_block", "html_inline"])
    parser.block.ruler.at("blockquote", _read_quote, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.block.ruler.at("list", _read_list, {"alt": ["paragraph", "reference", "blockquote"]})
    parser.block.ruler.at("table", _read_table, {"alt": ["paragraph", "reference"]})
    parser.core.ruler.at("inline", _read_inlines)
    parser.core.ruler.disable("text_join")
    parser.inline.ruler.at("emphasis", _read_emphasis)
    parser.inline.ruler.at("linkify", _read_address)
    parser.inline.ruler.enable("linkify")
    parser.helpers = SimpleNamespace(  # pyright: ignore[reportAttributeAccessIssue]
        parseLinkLabel=parseLinkLabel, parseLinkTitle=parseLinkTitle, parseLinkDestination=_read_destination
    )
    return parser


def _read_quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return state.level < _DEEPEST and blockquote(state, start, end, silent)


def _read_list(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.level >= _DEEPEST or _DATE.match(state.src, state.bMarks[start] + state.tShift[start]):
        return False
    return list_block(state, start, end, silent)


def _read_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The parser leaves out cells that have no head; here they stand in the last cell of their row."""
    first = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    columns = 0
    row = 0
    last: Token | None = None
    for token in state.tokens[first:]:
        if token.type == "th_open":
            columns += 1
        elif token.type == "tr_open":
            row = (token.map or [0])[0]
        elif token.type == "inline":
            last = token
        elif token.type == "tr_close" and row > start and last is not None:
            line = getLine(state, row).strip().removeprefix("|").removesuffix("|")
            if line.count("|") >= columns:
                more = [cell.strip() for cell in escapedSplit(line)[columns:]]
                last.content = " | ".join((last.content, *more))
    return True


def _read_inlines(state: StateCore) -> None:
    """As the parser's own rule, which tries ten rules at every sign; most cells, items and paragraphs need none."""
    for token in state.tokens:
        if token.type == "inline":
            token.children = _read_simple_marks(token.content)
            if token.children is None:
                token.children = []
                state.md.inline.parse(token.content, state.md, state.env, token.children)


def _read_simple_marks(text: str) -> list[Token] | None:
    """Words with simple marks, as the parser would read them in three times the time, which an answer of 100 kB full of
    marks does not have. None: something else is in it."""
    if _SIGNS.search(text) is None:
        return [Token("text", "", 0, content=text)]
    tokens = list[Token]()
    at = 0
    for found in _SIMPLE_MARKS.finditer(text):
        if found.start() > at:
            if _SIGNS.search(text, at, found.start()):
                return None
            tokens.append(Token("text", "", 0, content=text[at : found.start()]))
        kind = found.lastgroup
        if kind is None:
            tokens.append(_LINE_END)
        elif kind == "code":
            tokens.append(Token("code_inline", "code", 0, content=found["code"]))
        else:
            opening, closing = _MARKS[kind]
            tokens += (opening, Token("text", "", 0, content=found[kind]), closing)
        at = found.end()
    if _SIGNS.search(text, at) or "://" in text:
        return None
    tokens.append(Token("text", "", 0, content=text[at:]))
    return tokens


def _read_emphasis(state: StateInline, silent: bool) -> bool:
    """As the parser's own rule, with other ideas of what may begin and end emphasis."""
    marker = state.src[state.pos]
    if silent or marker not in "*_":
        return False
    scanned = state.scanDelims(state.pos, marker == "*")
    length = scanned.length
    before = state.src[max(0, state.pos - 1) : state.pos] or " "
    behind = state.src[state.pos + length : state.pos + length + 2] or " "
    opens = scanned.can_open
    closes = scanned.can_close
    if _is_word(before, behind, marker, length):
        opens = False
        closes = False
    elif marker == "*":
        opens = opens or (_WIDE.match(before) is not None and not behind[0].isspace())
        closes = closes or (_WIDE.match(behind) is not None and not before.isspace())
    for _ in range(length):
        token = state.push("text", "", 0)
        token.content = marker
        state.delimiters.append(
            Delimiter(marker=ord(marker), length=length, token=len(state.tokens) - 1, end=-1, open=opens, close=closes)
        )
    state.pos += length
    return True


def _is_word(before: str, behind: str, marker: str, length: int) -> bool:
    """Arithmetic, as 2*3 and a*b, or a name, as __init__.py."""
    if marker == "_":
        return behind[0] == "." and behind[1:].isalnum()
    if before.isdigit() and behind[0].isdigit():
        return True
    return length == 1 and before.isascii() and before.isalnum() and behind[0].isascii() and behind[0].isalnum()


class _Destination(NamedTuple):
    """As the parser's own rule wants it."""

    ok: bool
    pos: int
    str: str


def _read_destination(text: str, pos: int, maximum: int) -> _Destination:
    """As the parser's own, which looks through 32 levels of brackets, sign by sign, after every bracket of a text."""
    found = _DESTINATION.match(text, pos, maximum)
    if found is None:
        return _Destination(False, 0, "")
    target = found["inside"]
    if target is None:
        target = found[0]
    return _Destination(True, found.end(), unescapeAll(target))


def _read_address(state: StateInline, silent: bool) -> bool:
    """An address that stands in the text: no sign in it is a mark."""
    if state.src[state.pos] != ":":
        return False
    found = _ADDRESS.match(state.src, state.pos)
    scheme = _SCHEME_END.search(state.src[max(0, state.pos - 6) : state.pos])
    if found is None or scheme is None or not (silent or state.pending.endswith(scheme[1])):
        return False
    address = without_punctuation(found[0])
    if not silent:
        state.pending = state.pending[: -len(scheme[1])]
        token = state.push("address", "", 0)
        token.content = scheme[1] + address
    state.pos += len(address)
    return True


_LINE_END: Final = Token("softbreak", "br", 0)
_MARKS: Final = {tag: (Token(f"{tag}_open", tag, 1), Token(f"{tag}_close", tag, -1)) for tag in ("strong", "em")}
_parser: Final = _make_parser()


# ── lines in all forms of a document ─────────────────────────────────────────────────────────────────────────────

_STYLES: Final = {"strong_open": "bold", "em_open": "italic", "s_open": "strike", "link_open": "link"}
_LEAVE: Final = Leave()


class _Opened(NamedTuple):
    """Marks that are open: nothing is written for those that are open already, or for which there is no room."""

    style: str
    cost: int  # what all marks that are open take of a part
    is_link: bool = False  # it is a link or inside one: its words stay together
    wrapper: Wrapper | None = None
    behind: TextRun | None = None

    @property
    def opening(self) -> list[Inline]:
        return [self.wrapper] if self.wrapper else []


class InlineReader:
    """A reader of inline tokens, each line at one place of the document."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self._wrappers = {
            "bold": writing.wrap(lambda dialect: dialect.bold),
            "italic": writing.wrap(lambda dialect: dialect.italic),
            "strike": writing.wrap(lambda dialect: dialect.strike),
            "code": writing.wrap(lambda dialect: dialect.code("")),
        }
        self._costs = {style: writing.get_cost(wrapper) for style, wrapper in self._wrappers.items()}
        self._addresses: Escapes = writing.each(lambda dialect: dialect.escape_address)
        joints = writing.each(lambda dialect: dialect.joint)
        self._joint = Fixed(joints)
        self._behind_label: Escapes = writing.each(_escape_behind_label)

    def read(self, tokens: Sequence[Token], place: DocumentPlace, style: str = "") -> list[Inline]:
        """`style`: what all of it is already, as a heading is bold."""
        found = self._read(tokens, place, style)
        if any(self._joint.forms):
            return self._add_joints(found, self._joint)
        return found

    def _read(self, tokens: Sequence[Token], place: DocumentPlace, style: str) -> list[Inline]:
        found = list[Inline]()
        opened = [_Opened(style, place.overhead)]
        line_end: Fixed | None = None
        for at, token in enumerate(tokens):
            kind = token.type
            if kind == "text":
                if token.content:
                    found.append(TextRun(token.content, self._writing.words, not opened[-1].is_link))
            elif kind in ("softbreak", "hardbreak"):
                line_end = line_end or Fixed(self._writing.break_line(place), is_line_end=True)
                found.append(line_end)
            elif kind == "code_inline":
                found += self._read_code(token.content, opened[-1].cost)
            elif kind == "address":
                found.append(TextRun(token.content, self._addresses, breakable=False))
            elif kind == "image":
                found += self._read_image(token, opened)
            elif token.nesting == 1:
                opened.append(self._open(token, tokens[at + 1], opened))
                found += self._begin(opened[-1], token, tokens[at + 1])
            elif token.nesting == -1:
                found += self._close(opened.pop())
            else:
                found.append(TextRun(token.content, self._writing.words))
        return found

    def _add_joints(self, inlines: Sequence[Inline], joint: Fixed) -> list[Inline]:
        """With a joint between every mark and the letter outside it."""
        joined = list[Inline]()
        last: Inline | None = None
        for inline in inlines:
            opens = isinstance(inline, Wrapper) and isinstance(last, TextRun) and last.text[-1:].isalnum()
            closed = isinstance(last, Leave) and isinstance(inline, TextRun) and inline.text[:1].isalnum()
            if opens or closed:
                joined.append(joint)
            joined.append(inline)
            last = inline
        return joined

    def _read_code(self, code: str, overhead: int) -> list[Inline]:
        wrapper = self._wrappers["code"]
        cost = self._costs["code"]
        if "`" in code:
            wrapper = self._writing.wrap(lambda dialect: dialect.code(code))
            cost = self._writing.get_cost(wrapper)
        if not self._writing.has_room_for(overhead + cost):
            return [TextRun(code, self._writing.words, breakable=False)]
        return [wrapper, TextRun(code, self._writing.code, breakable=False), _LEAVE]

    def _read_image(self, token: Token, opened: list[_Opened]) -> list[Inline]:
        url = str(token.attrs.get("src", ""))
        label = TextRun(token.content or url, self._writing.words, breakable=False)
        if opened[-1].is_link:
            return [label]
        link = self._make_link(url, opened[-1].cost, is_shown=not token.content)
        return [*link.opening, label, *self._close(link)]

    def _open(self, token: Token, following: Token, opened: Sequence[_Opened]) -> _Opened:
        style = _STYLES.get(token.type, "")
        cost = opened[-1].cost
        is_link = opened[-1].is_link
        if style == "link":
            url = str(token.attrs.get("href", ""))
            is_shown = following.nesting == -1 or (following.content != "" and url.endswith(following.content))
            return self._make_link(url, cost, is_shown=is_shown)
        wrapper = self._wrappers.get(style)
        more = self._costs.get(style, 0)
        is_open = any(outer.style == style for outer in opened)
        if wrapper is None or is_open or not self._writing.has_room_for(cost + more):
            return _Opened(style, cost, is_link)
        return _Opened(style, cost + more, is_link, wrapper)

    def _begin(self, opened: _Opened, token: Token, following: Token) -> list[Inline]:
        """Return the opening marks, and as the label of a link that has none its address."""
        if opened.style != "link" or following.nesting != -1:
            return opened.opening
        return [*opened.opening, TextRun(str(token.attrs.get("href", "")), self._writing.words, breakable=False)]

    def _make_link(self, url: str, cost: int, *, is_shown: bool) -> _Opened:
        """`is_shown`: the label is the address. Where marks are no way to give it, it stands behind the label."""
        writing = self._writing
        wrapper = writing.wrap(lambda dialect: dialect.link(url))
        more = writing.get_cost(wrapper)
        behind = TextRun(f" ({url})", self._behind_label, breakable=False)
        link = _Opened("link", cost + more, is_link=True, wrapper=wrapper, behind=behind)
        if not writing.has_room_for(cost + more) or 4 * writing.get_size((url,)) > writing.limit:
            link = _Opened("link", cost, is_link=True, behind=behind._replace(escapes=writing.words))
        return link._replace(behind=None) if is_shown else link

    def _close(self, opened: _Opened) -> list[Inline]:
        closing = list[Inline]()
        if opened.wrapper:
            closing.append(_LEAVE)
        if opened.behind:
            closing.append(opened.behind)
        return closing


def _escape_behind_label(dialect: Dialect) -> Callable[[str], str]:
    """Where marks give the address of a link, it is not written behind its label."""
    if dialect.link("") == NO_MARKS:
        return dialect.escape
    return lambda _: ""
