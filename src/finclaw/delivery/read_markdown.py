"""The reader of a Markdown text as a document: blocks and inline content, in all forms that a channel needs."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from markdown_it.token import Token

from finclaw.delivery.document import (
    NO_MARKS,
    Block,
    Dialect,
    DocumentPlace,
    Escapes,
    Fixed,
    Forms,
    Inline,
    Leave,
    Marks,
    TextRun,
    Wrapper,
    Writing,
)
from finclaw.delivery.markdown import parse_markdown
from finclaw.delivery.table import LongBlocks, TableLayout, read_table

_FIGURE: Final = re.compile(r"[\d.,₩$€£¥%]")
"""What may be a negative number behind a minus, which must not become a bullet."""


_STYLES: Final = {"strong_open": "bold", "em_open": "italic", "s_open": "strike", "link_open": "link"}

_LEAVE: Final = Leave()


def read_markdown(text: str, writing: Writing, long_blocks: LongBlocks) -> list[Block]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BlockReader(parse_markdown(text), text.split("\n"), writing, long_blocks).read()


class _Item(NamedTuple):
    """An item of a list, with its number if it has one."""

    number: int
    marker: str
    blocks: Sequence[Block]


class _BlockReader:
    """A reader of block tokens, from the first to the last."""

    def __init__(
        self, tokens: Sequence[Token], source: Sequence[str], writing: Writing, long_blocks: LongBlocks
    ) -> None:
        self._tokens = tokens
        self._source = source
        self._writing = writing
        self._long_blocks = long_blocks
        self._inlines = InlineReader(writing)
        self._at = 0
        self._paragraph = writing.wrap(_get_paragraph)
        self._item = writing.wrap(_get_item)
        self._bullets = writing.wrap(lambda dialect: _get_list(dialect, 0))
        self._numbers = writing.wrap(lambda dialect: _get_list(dialect, 10_000))

    def read(self) -> list[Block]:
        return self._read_blocks("", self._writing.top)

    def _read_blocks(self, end: str, place: DocumentPlace) -> list[Block]:
        """All blocks up to that token, with an empty line between them where there was one."""
        blocks = list[Block]()
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == end:
                break
            for block in self._read_block(token, place):
                lines = 2 if self._follows_empty_line(token) else 1
                gap = self._writing.separate(place, lines, blocks[-1], block) if blocks else block.gap
                blocks.append(block._replace(gap=gap))
        return blocks

    def _follows_empty_line(self, token: Token) -> bool:
        return not (token.map and token.map[0] and self._source[token.map[0] - 1].strip(" \t>"))

    def _read_block(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        blocks: Sequence[Block] = ()
        match token.type:
            case "paragraph_open" | "heading_open":
                blocks = self._read_paragraph(token, place)
            case "fence" | "code_block":
                blocks = self._read_code(token, place)
            case "hr":
                blocks = [Block(self._writing.nothing, wrapper=self._writing.wrap(_get_rule), keep=True)]
            case "blockquote_open":
                blocks = self._read_quote(place)
            case "bullet_list_open" | "ordered_list_open":
                blocks = self._read_list(token, place)
            case "table_open":
                blocks = self._read_table(place)
            case _:
                pass
        return blocks

    # ── paragraphs, headings, code ──────────────────────────────────────────────────────────────────────────

    def _read_paragraph(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        inline = self._tokens[self._at]
        self._at += 2
        if token.type == "heading_open":
            level, style = int(token.tag[1:]), "bold"
            wrapper = self._writing.wrap(lambda dialect: dialect.heading(level))
        else:
            style, wrapper = "", self._paragraph
        place, found = self._enter(place, wrapper if not token.hidden else None)
        return [Block(self._writing.nothing, self._inlines.read(inline.children or (), place, style), wrapper=found)]

    def _enter(self, place: DocumentPlace, wrapper: Wrapper | None) -> tuple[DocumentPlace, Wrapper | None]:
        """The place inside the wrapper, and the wrapper if there is room for its marks."""
        if wrapper is None or not any(wrapper.open):
            return place, None
        overhead = place.overhead + self._writing.get_cost(wrapper)
        return (place._replace(overhead=overhead), wrapper) if self._writing.has_room_for(overhead) else (place, None)

    def _read_code(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        code, language = token.content.removesuffix("\n"), token.info.strip().partition(" ")[0]
        if not code.strip():
            return ()
        said = self._long_blocks.attach_code(code, language)
        if said is not None:
            return [Block(self._writing.nothing, [TextRun(said, self._writing.words)])]
        if self._writing.code_style == "indented":
            place = self._writing.indent(place, "    ")
            wrapper = self._writing.wrap(_get_indented)
        else:
            wrapper = self._add_prefix(self._writing.wrap(lambda dialect: dialect.fence(code, language)), place)
        place, wrapper = self._enter(place, wrapper)
        gap, escapes = self._writing.break_code_line(place), self._writing.code if wrapper else self._writing.words
        lines = [Block(gap, [TextRun(line, escapes, breakable=False)]) for line in code.split("\n")]
        return [Block(self._writing.nothing, children=lines, wrapper=wrapper, keep=True)]

    def _add_prefix(self, wrapper: Wrapper, place: DocumentPlace) -> Wrapper:
        """The wrapper with what stands before each line of this place."""
        gap = self._writing.break_code_line(place)
        opening, closing = [
            tuple([mark.replace("\n", each) for mark, each in zip(marks, gap, strict=True)])
            for marks in (wrapper.open, wrapper.close)
        ]
        return Wrapper(opening, closing, closing, opening)

    # ── quotes ──────────────────────────────────────────────────────────────────────────────────────────────

    def _read_quote(self, place: DocumentPlace) -> Sequence[Block]:
        """Only markup with blocks has quotes inside quotes; elsewhere they are one."""

        def get_marks(dialect: Dialect) -> Marks:
            if place.is_quoted and not dialect.has_blocks:
                return NO_MARKS
            return dialect.quote[0] + dialect.quote_prefix, dialect.quote[1]

        inside, wrapper = self._enter(place, self._writing.wrap(get_marks))
        if wrapper is not None:
            marks = self._writing.each(lambda dialect: "" if place.is_quoted else dialect.quote_prefix)
            prefix = tuple([old + mark for old, mark in zip(place.prefix, marks, strict=True)])
            inside = inside._replace(prefix=prefix, is_quoted=True)
        blocks = self._read_blocks("blockquote_close", inside)
        return [Block(self._writing.nothing, children=blocks, wrapper=wrapper)] if blocks else ()

    # ── lists ───────────────────────────────────────────────────────────────────────────────────────────────

    def _read_list(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        is_numbered = token.type == "ordered_list_open"
        outer, inner = self._numbers if is_numbered else self._bullets, self._item
        overhead = place.overhead + self._writing.get_cost(outer) + self._writing.get_cost(inner)
        has_tags = any(outer.open) and self._writing.has_room_for(overhead)
        inside = self._writing.indent(place, "   " if is_numbered else "  ")
        inside = inside._replace(overhead=overhead) if has_tags else inside
        items, lines = self._read_items(inside, is_numbered=is_numbered)
        bullets = self._choose_bullets(token, items)
        blocks = list[Block]()
        gap = self._writing.break_line(place, lines)
        gap = (*gap[:-1], "") if has_tags else gap
        for item in items:
            marker = [
                "" if has_tags and dialect.has_blocks else item.marker or bullet
                for dialect, bullet in zip(self._writing.dialects, bullets, strict=True)
            ]
            block = self._make_item(item, tuple(marker), inner if has_tags else None)
            resume = self._open_list(item.number) if has_tags and is_numbered else None
            blocks.append(block._replace(gap=gap if blocks else self._writing.nothing, resume=resume))
        if not has_tags:
            return [Block(self._writing.nothing, children=blocks)] if blocks else ()
        return self._group_items(items, blocks)

    def _read_items(self, place: DocumentPlace, *, is_numbered: bool) -> tuple[list[_Item], int]:
        """The items, and how many line breaks apart they stand."""
        items, lines = list[_Item](), 1
        while (token := self._tokens[self._at]).type == "list_item_open":
            self._at += 1
            is_tight = self._tokens[self._at].hidden or self._tokens[self._at].type != "paragraph_open"
            lines = lines if is_tight else 2
            blocks = self._read_blocks("list_item_close", place)
            if is_numbered:
                items.append(_Item(int(token.info), f"{token.info}{token.markup} ", blocks))
            else:
                items.append(_Item(0, "", blocks))
        self._at += 1
        return items, lines

    def _choose_bullets(self, token: Token, items: Sequence[_Item]) -> Forms:
        """Bullets, but a minus before a figure stays one: nobody knows whether a list was meant."""
        if token.markup in "-+" and any(_begins_with_figure(item) for item in items):
            return self._writing.each(lambda _: f"{token.markup} ")
        return self._writing.each(lambda dialect: "• " if dialect.has_blocks else dialect.bullet)

    def _make_item(self, item: _Item, marker: Forms, wrapper: Wrapper | None) -> Block:
        bullet: list[Inline] = [Fixed(marker)]
        first = item.blocks[0] if item.blocks else Block(self._writing.nothing)
        if first.children or first.wrapper:
            children = [Block(self._writing.nothing, bullet), *item.blocks]
        elif len(item.blocks) > 1:
            children = [first._replace(inlines=[*bullet, *first.inlines]), *item.blocks[1:]]
        else:
            return Block(self._writing.nothing, [*bullet, *first.inlines], wrapper=wrapper, keep=True)
        return Block(self._writing.nothing, children=children, wrapper=wrapper, keep=True)

    def _open_list(self, number: int) -> Forms:
        return self._writing.each(lambda dialect: _get_list(dialect, number)[0])

    def _group_items(self, items: Sequence[_Item], blocks: Sequence[Block]) -> list[Block]:
        """Lists with tags: one that does not count on by one is another list."""
        groups, lists = list[list[Block]](), list[Block]()
        for place, (item, block) in enumerate(zip(items, blocks, strict=True)):
            if not place or item.number not in (0, items[place - 1].number + 1):
                groups.append([])
                opening = self._open_list(item.number)
                outer = self._numbers if item.number else self._bullets
                wrapper = outer._replace(open=opening, resume=opening)
                lists.append(Block(block.gap, children=groups[-1], wrapper=wrapper))
            groups[-1].append(block if groups[-1] else block._replace(gap=self._writing.nothing))
        return lists

    # ── tables ──────────────────────────────────────────────────────────────────────────────────────────────

    def _read_table(self, place: DocumentPlace) -> Sequence[Block]:
        start = self._at
        while self._tokens[self._at].type != "table_close":
            self._at += 1
        table = read_table(self._tokens[start : self._at])
        self._at += 1
        said = self._long_blocks.attach_table(table)
        if said is not None:
            return [Block(self._writing.nothing, [TextRun(said, self._writing.words)])]
        return [TableLayout(table, self._writing, place, self._inlines.read).make_block()]


def _begins_with_figure(item: _Item) -> bool:
    for block in item.blocks[:1]:
        for each in block.inlines:
            if isinstance(each, TextRun):
                return _FIGURE.match(each.text) is not None
    return False


# ── marks of blocks ─────────────────────────────────────────────────────────────────────────────────────────────


def _get_paragraph(dialect: Dialect) -> Marks:
    return ("<p>", "</p>") if dialect.has_blocks else NO_MARKS


def _get_rule(dialect: Dialect) -> Marks:
    return dialect.rule, ""


def _get_indented(dialect: Dialect) -> Marks:
    return dialect.fence("", "") if dialect.has_blocks or not dialect.counts_marks else ("    ", "")


def _get_item(dialect: Dialect) -> Marks:
    return ("<li>", "</li>") if dialect.has_blocks else NO_MARKS


def _get_list(dialect: Dialect, number: int) -> Marks:
    """`number`: that of the first item, where they have numbers."""
    if not dialect.has_blocks:
        return NO_MARKS
    return (f'<ol start="{number}">', "</ol>") if number else ("<ul>", "</ul>")


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
