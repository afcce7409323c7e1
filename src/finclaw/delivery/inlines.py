"""Inline content of Markdown, token by token: words, marks around them, code, links and line ends."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markdown_it.token import Token

from finclaw.delivery.document import Escapes, Fixed, Inline, Leave, TextRun, Wrapper
from finclaw.delivery.writing import DocumentPlace, Writing

_STYLES: Final = {"strong_open": "bold", "em_open": "italic", "s_open": "strike", "link_open": "link"}
_LEAVE: Final = Leave()


class _Opened(NamedTuple):
    """Marks that are open: nothing is written for those that are open already, or for which there is no room."""

    style: str
    cost: int
    """What all marks that are open take of a part."""
    is_link: bool = False
    """It is a link or inside one: its words stay together."""
    wrapper: Wrapper | None = None
    behind: TextRun | None = None


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
        self._joint = Fixed(joints) if any(joints) else None
        self._behind_label: Escapes = writing.each(lambda dialect: _leave_out if dialect.link else dialect.escape)

    def read(self, tokens: Sequence[Token], place: DocumentPlace, style: str = "") -> list[Inline]:
        """`style`: what all of it is already, as a heading is bold."""
        found = self._read(tokens, place, style)
        return found if self._joint is None else self._add_joints(found, self._joint)

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
        for each in inlines:
            last = joined[-1] if joined else None
            opens = isinstance(each, Wrapper) and isinstance(last, TextRun) and last.text[-1:].isalnum()
            closed = isinstance(last, Leave) and isinstance(each, TextRun) and each.text[:1].isalnum()
            joined += (joint, each) if opens or closed else (each,)
        return joined

    def _read_code(self, code: str, overhead: int) -> list[Inline]:
        words = TextRun(code, self._writing.code, breakable=False)
        wrapper = self._writing.wrap(lambda dialect: dialect.code(code)) if "`" in code else self._wrappers["code"]
        cost = self._writing.get_cost(wrapper) if "`" in code else self._costs["code"]
        if not self._writing.has_room_for(overhead + cost):
            return [words._replace(escapes=self._writing.words)]
        return [wrapper, words, _LEAVE]

    def _read_image(self, token: Token, opened: list[_Opened]) -> list[Inline]:
        url = str(token.attrs.get("src", ""))
        label = TextRun(token.content or url, self._writing.words, breakable=False)
        if opened[-1].is_link:
            return [label]
        link = self._make_link(url, opened[-1].cost, is_shown=not token.content)
        return [*([link.wrapper] if link.wrapper else []), label, *self._close(link)]

    # ── marks ───────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self, token: Token, following: Token, opened: Sequence[_Opened]) -> _Opened:
        style, cost = _STYLES.get(token.type, ""), opened[-1].cost
        is_link = opened[-1].is_link
        if style == "link":
            url = str(token.attrs.get("href", ""))
            is_shown = following.nesting == -1 or (following.content != "" and url.endswith(following.content))
            return self._make_link(url, cost, is_shown=is_shown)
        wrapper = self._wrappers.get(style)
        more = self._costs.get(style, 0)
        is_open = any(each.style == style for each in opened)
        if wrapper is None or is_open or not self._writing.has_room_for(cost + more):
            return _Opened(style, cost, is_link)
        return _Opened(style, cost + more, is_link, wrapper)

    def _begin(self, opened: _Opened, token: Token, following: Token) -> list[Inline]:
        """Return the opening marks, and as the label of a link that has none its address."""
        begun: list[Inline] = [opened.wrapper] if opened.wrapper else []
        if opened.style == "link" and following.nesting == -1:
            begun.append(TextRun(str(token.attrs.get("href", "")), self._writing.words, breakable=False))
        return begun

    def _make_link(self, url: str, cost: int, *, is_shown: bool) -> _Opened:
        """`is_shown`: the label is the address. Where marks are no way to give it, it stands behind the label."""
        writing = self._writing
        wrapper = writing.wrap(lambda dialect: dialect.link(url) if dialect.link else ("", ""))
        more = writing.get_cost(wrapper)
        if not writing.has_room_for(cost + more) or 4 * writing.get_size((url,)) > writing.limit:
            behind = None if is_shown else TextRun(f" ({url})", writing.words, breakable=False)
            return _Opened("link", cost, is_link=True, behind=behind)
        behind = None if is_shown else TextRun(f" ({url})", self._behind_label, breakable=False)
        return _Opened("link", cost + more, is_link=True, wrapper=wrapper, behind=behind)

    def _close(self, opened: _Opened) -> list[Inline]:
        closing: list[Inline] = [_LEAVE] if opened.wrapper else []
        return [*closing, opened.behind] if opened.behind else closing


def _leave_out(_text: str) -> str:
    return ""
