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
    Fixed,
    Forms,
    Marks,
    TextRun,
    Wrapper,
    Writing,
)
from finclaw.delivery.markdown import InlineReader, parse_markdown
from finclaw.delivery.table import LongBlocks, TableLayout, read_table

_FIGURE: Final = re.compile(r"[\d.,₩$€£¥%]")
"""What may be a negative number behind a minus, which must not become a bullet."""


def read_markdown(text: str, writing: Writing, long_blocks: LongBlocks) -> list[Block]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _BlockReader(parse_markdown(text), text.split("\n"), writing, long_blocks).read_blocks("", writing.top)


class _Item(NamedTuple):
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
        self._paragraph = writing.wrap(lambda dialect: _get_tags(dialect, "p"))
        self._item = writing.wrap(lambda dialect: _get_tags(dialect, "li"))
        self._bullets = writing.wrap(lambda dialect: _get_list(dialect, 0))
        self._numbers = writing.wrap(lambda dialect: _get_list(dialect, 10_000))

    def read_blocks(self, end: str, place: DocumentPlace) -> list[Block]:
        """All blocks up to that token, with an empty line between them where there was one."""
        blocks = list[Block]()
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.type == end:
                break
            for block in self._read_block(token, place):
                if blocks:
                    gap = self._writing.separate(place, self._count_line_ends(token), blocks[-1], block)
                    blocks.append(block._replace(gap=gap))
                else:
                    blocks.append(block)
        return blocks

    def _count_line_ends(self, token: Token) -> int:
        """Return 2 for a block behind an empty line, else 1."""
        follows_line = token.map and token.map[0] and self._source[token.map[0] - 1].strip(" \t>")
        return 1 if follows_line else 2

    def _read_block(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        match token.type:
            case "paragraph_open" | "heading_open":
                return self._read_paragraph(token, place)
            case "fence" | "code_block":
                return self._read_code(token, place)
            case "hr":
                return [
                    Block(
                        self._writing.nothing, wrapper=self._writing.wrap(lambda dialect: (dialect.rule, "")), keep=True
                    )
                ]
            case "blockquote_open":
                return self._read_quote(place)
            case "bullet_list_open" | "ordered_list_open":
                return self._read_list(token, place)
            case _:
                return self._read_table(token, place)

    def _read_paragraph(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        inline = self._tokens[self._at]
        self._at += 2
        style = ""
        wrapper = self._paragraph
        if token.type == "heading_open":
            level = int(token.tag[1:])
            style = "bold"
            wrapper = self._writing.wrap(lambda dialect: dialect.heading(level))
        found = None
        if not token.hidden:
            place, found = self._enter(place, wrapper)
        return [Block(self._writing.nothing, self._inlines.read(inline.children or (), place, style), wrapper=found)]

    def _enter(self, place: DocumentPlace, wrapper: Wrapper) -> tuple[DocumentPlace, Wrapper | None]:
        """Return the place inside the wrapper, and the wrapper if there is room for its marks."""
        overhead = place.overhead + self._writing.get_cost(wrapper)
        if not any(wrapper.open) or not self._writing.has_room_for(overhead):
            return place, None
        return place._replace(overhead=overhead), wrapper

    def _read_code(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        code = token.content.removesuffix("\n")
        language = token.info.strip().partition(" ")[0]
        if not code.strip():
            return ()
        said = self._long_blocks.attach_code(code, language)
        if said is not None:
            return [Block(self._writing.nothing, [TextRun(said, self._writing.words)])]
        if self._writing.code_style == "indented":
            place = self._writing.indent(place, "    ")
            wrapper = self._writing.wrap(_get_indented)
        else:
            fence = self._writing.wrap(lambda dialect: dialect.fence(code, language))
            wrapper = self._writing.add_prefix(fence, place)
        place, entered = self._enter(place, wrapper)
        gap = self._writing.break_code_line(place)
        escapes = self._writing.words
        if entered is not None:
            escapes = self._writing.code
        lines = [Block(gap, [TextRun(line, escapes, breakable=False)]) for line in code.split("\n")]
        return [Block(self._writing.nothing, children=lines, wrapper=entered, keep=True)]

    def _read_quote(self, place: DocumentPlace) -> Sequence[Block]:
        """Only markup with blocks has quotes inside quotes; elsewhere they are one."""

        def get_marks(dialect: Dialect) -> Marks:
            if place.is_quoted and not dialect.has_blocks:
                return NO_MARKS
            return dialect.quote[0] + dialect.quote_prefix, dialect.quote[1]

        inside, wrapper = self._enter(place, self._writing.wrap(get_marks))
        if wrapper is not None and not place.is_quoted:
            marks = self._writing.each(lambda dialect: dialect.quote_prefix)
            prefix = tuple([old + mark for old, mark in zip(place.prefix, marks, strict=True)])
            inside = inside._replace(prefix=prefix, is_quoted=True)
        blocks = self.read_blocks("blockquote_close", inside)
        if not blocks:
            return ()
        return [Block(self._writing.nothing, children=blocks, wrapper=wrapper)]

    def _read_list(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        is_numbered = token.type == "ordered_list_open"
        outer = self._bullets
        indent = "  "
        if is_numbered:
            outer = self._numbers
            indent = "   "
        inside = self._writing.indent(place, indent)
        overhead = place.overhead + self._writing.get_cost(outer) + self._writing.get_cost(self._item)
        has_tags = any(outer.open) and self._writing.has_room_for(overhead)
        if has_tags:
            inside = inside._replace(overhead=overhead)
        items, lines = self._read_items(inside, is_numbered=is_numbered)
        bullets = self._choose_bullets(token, items)
        gap = self._writing.break_line(place, lines)
        if has_tags:
            gap = (*gap[:-1], "")
        blocks = [self._make_item(item, bullets, has_tags=has_tags) for item in items]
        blocks[1:] = [block._replace(gap=gap) for block in blocks[1:]]
        if has_tags:
            return self._group_items(items, blocks)
        if not blocks:
            return ()
        return [Block(self._writing.nothing, children=blocks)]

    def _read_items(self, place: DocumentPlace, *, is_numbered: bool) -> tuple[list[_Item], int]:
        """Return the items, and how many line breaks apart they stand."""
        items = list[_Item]()
        lines = 1
        while (token := self._tokens[self._at]).type == "list_item_open":
            self._at += 1
            first = self._tokens[self._at]
            if first.type == "paragraph_open" and not first.hidden:
                lines = 2
            blocks = self.read_blocks("list_item_close", place)
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
        return self._writing.each(lambda dialect: dialect.bullet)

    def _make_item(self, item: _Item, bullets: Forms, *, has_tags: bool) -> Block:
        marker = [item.marker or bullet for bullet in bullets]
        if not has_tags:
            return self._add_marker(item, tuple(marker))
        marker[-1] = ""
        block = self._add_marker(item, tuple(marker))._replace(wrapper=self._item)
        if not item.marker:
            return block
        return block._replace(resume=self._open_list(item.number))

    def _add_marker(self, item: _Item, marker: Forms) -> Block:
        nothing = self._writing.nothing
        bullet = Fixed(marker)
        if not item.blocks:
            return Block(nothing, [bullet], keep=True)
        first, *others = item.blocks
        if first.children or first.wrapper:
            return Block(nothing, children=[Block(nothing, [bullet]), *item.blocks], keep=True)
        inlines = [bullet, *first.inlines]
        if not others:
            return Block(nothing, inlines, keep=True)
        return Block(nothing, children=[first._replace(inlines=inlines), *others], keep=True)

    def _open_list(self, number: int) -> Forms:
        return self._writing.each(lambda dialect: _get_list(dialect, number)[0])

    def _group_items(self, items: Sequence[_Item], blocks: Sequence[Block]) -> list[Block]:
        """Lists with tags: one that does not count on by one is another list."""
        lists = list[Block]()
        children = list[Block]()
        following = -1
        for item, block in zip(items, blocks, strict=True):
            if item.number not in (0, following) or not lists:
                opening = self._open_list(item.number)
                outer = self._numbers if item.number else self._bullets
                children = [block._replace(gap=self._writing.nothing)]
                wrapper = outer._replace(open=opening, resume=opening)
                lists.append(Block(block.gap, children=children, wrapper=wrapper))
            else:
                children.append(block)
            following = item.number + 1
        return lists

    def _read_table(self, token: Token, place: DocumentPlace) -> Sequence[Block]:
        if token.type != "table_open":
            return ()
        start = self._at
        while self._tokens[self._at].type != "table_close":
            self._at += 1
        table = read_table(self._tokens[start : self._at])
        self._at += 1
        said = self._long_blocks.attach_table(table)
        if said is not None:
            return [Block(self._writing.nothing, [TextRun(said, self._writing.words)])]
        return [TableLayout(table, self._writing, place, self._inlines).make_block()]


def _begins_with_figure(item: _Item) -> bool:
    inlines = [inline for block in item.blocks[:1] for inline in block.inlines]
    first = next((inline for inline in inlines if isinstance(inline, TextRun)), None)
    return first is not None and _FIGURE.match(first.text) is not None


def _get_tags(dialect: Dialect, name: str) -> Marks:
    if not dialect.has_blocks:
        return NO_MARKS
    return f"<{name}>", f"</{name}>"


def _get_indented(dialect: Dialect) -> Marks:
    if dialect.has_blocks or not dialect.counts_marks:
        return dialect.fence("", "")
    return "    ", ""


def _get_list(dialect: Dialect, number: int) -> Marks:
    """`number`: that of the first item, where they have numbers."""
    if not dialect.has_blocks or not number:
        return _get_tags(dialect, "ul")
    return f'<ol start="{number}">', "</ol>"
