"""Tables as a channel can show them, and code and tables that no message can hold, as files beside it.

A narrow table is aligned lines of code, another one a list of rows. Where the markup has real tables it is one, and
what stands in the plain text is laid out as above.
"""

import csv
import io
import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from markdown_it.token import Token

from finclaw.delivery.document import Block, DocumentPlace, Fixed, Forms, Inline, TextRun, Wrapper, Writing
from finclaw.delivery.markdown import InlineReader
from finclaw.kernel.envelope import NewFile
from finclaw.text import Language, LengthUnit, text_length

Alignment = Literal["", "left", "center", "right"]
WIDEST: Final = 44
"""Columns of a screen. A telephone shows about so many letters of code in a line."""
_FIGURE: Final = re.compile(
    r"[-+−±(]?\s?(?:[₩$€£¥]|[A-Z]{3}\s)?[-+−]?\d[\d,.]*\s?(?:%p?|[조억만천]?원|[조억만천주배]|[xXkKmMbB]|bps?|[A-Z]{3})?\)?"
)
_FORMULA: Final = re.compile(r"\A(?:[=@\t\r]|[-+](?![\s\d.,]*(?:%|\d)))")
"""What a spreadsheet would run."""
_MOST_FILES: Final = 5  # of one reply, which may have others beside them

_ENDINGS: Final = {
    "python": "py", "javascript": "js", "typescript": "ts", "bash": "sh", "shell": "sh", "markdown": "md",
    "rust": "rs", "kotlin": "kt", "csharp": "cs", "ruby": "rb", "text": "txt", "plaintext": "txt", "": "txt",
}  # fmt: skip

_ENDING: Final = re.compile(r"[a-z0-9]{1,8}")
_BREAKS: Final = {"softbreak": " ", "hardbreak": " "}

_ALIGNMENTS: Final[dict[object, Alignment]] = {
    "text-align:left": "left",
    "text-align:center": "center",
    "text-align:right": "right",
}

_CODE: Final[dict[Language, str]] = {
    "en": "📎 {name} (attached, {lines:,} lines)",
    "ko": "📎 {name} (첨부 파일, {lines:,}줄)",
}

_TABLE: Final[dict[Language, str]] = {
    "en": "📎 {name} (attached, {lines:,} rows)",
    "ko": "📎 {name} (첨부 파일, {lines:,}행)",
}


class Cell(NamedTuple):
    tokens: Sequence[Token]
    text: str


class Table(NamedTuple):
    """A table as it was written. Every row has as many cells as the head."""

    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    alignments: Sequence[Alignment]


class LongBlocks:
    """The files of one reply. `most`: bytes of one file that the channel takes, 0 for none at all."""

    def __init__(self, limit: int, unit: LengthUnit, most: int, language: Language) -> None:
        self.files: list[NewFile] = []
        self._limit = limit
        self._unit: LengthUnit = unit
        self._most = most
        self._language: Language = language

    def attach_code(self, code: str, language: str) -> str | None:
        """The line that stands in the code's place. None: it stays where it is."""
        if not self._most or text_length(code, self._unit) <= self._limit:
            return None
        ending = _ENDINGS.get(language.lower(), language.lower())
        if _ENDING.fullmatch(ending) is None:
            ending = "txt"
        lines = code.count("\n") + 1
        return self._attach("code", ending, "text/plain", code.encode(errors="replace"), _CODE[self._language], lines)

    def attach_table(self, table: Table) -> str | None:
        cells = [cell.text for row in (table.head, *table.rows) for cell in row]
        if not self._most or sum([text_length(cell, self._unit) + 2 for cell in cells]) <= self._limit:
            return None
        return self._attach("table", "csv", "text/csv", write_csv(table), _TABLE[self._language], len(table.rows))

    def _attach(self, kind: str, ending: str, mime: str, content: bytes, words: str, lines: int) -> str | None:
        if len(content) > self._most or len(self.files) == _MOST_FILES:
            return None
        name = f"{kind}-{len(self.files) + 1}.{ending}"
        said = words.format(name=name, lines=lines)
        self.files.append(NewFile(data=content, name=name, mime=mime, alt=said.removeprefix("📎 ")))
        return said


def read_table(tokens: Sequence[Token]) -> Table:
    """A table from its tokens, from `table_open` on."""
    head = list[Cell]()
    rows = list[list[Cell]]()
    alignments = list[Alignment]()
    cells = head
    for place, token in enumerate(tokens):
        if token.type == "tr_open" and alignments:
            cells = list[Cell]()
            rows.append(cells)
        elif token.type in ("th_open", "td_open"):
            children = tokens[place + 1].children or ()
            words = "".join([_BREAKS.get(child.type, child.content) for child in children])
            cells.append(Cell(children, words.strip()))
            if token.type == "th_open":
                alignments.append(_ALIGNMENTS.get(token.attrs.get("style"), ""))
    return Table(head, rows, alignments)


def write_csv(table: Table) -> bytes:
    """With the mark by which spreadsheets know UTF-8, and nothing that one would run as a formula."""
    file = io.StringIO()
    writer = csv.writer(file)
    for row in (table.head, *table.rows):
        writer.writerow([_FORMULA.sub(r"'\g<0>", cell.text) for cell in row])
    return file.getvalue().encode("utf-8-sig")


class TableLayout:
    def __init__(self, table: Table, writing: Writing, place: DocumentPlace, inlines: InlineReader) -> None:
        self._table = table
        self._writing = writing
        self._place = place
        self._read_inlines = inlines.read

    def make_block(self) -> Block:
        lines = self._align_lines()
        block = None
        if self._writing.dialects[-1].has_blocks:
            block = self._make_real(lines)
        elif lines:
            block = self._make_code(lines)
        return block or self._make_list()

    def _align_lines(self) -> list[str]:
        """Return the head, a line below it, and the rows; nothing: too wide, or with links, which code cannot have."""
        rows = [self._table.head, *self._table.rows]
        if any(token.type in ("link_open", "image") for row in rows for cell in row for token in cell.tokens):
            return []
        sizes = [[_get_width(cell.text) for cell in row] for row in rows]
        widths = [max(column) for column in zip(*sizes, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) > WIDEST:
            return []
        alignments: list[Alignment] = [self._get_alignment(column) for column in range(len(widths))]
        lines = [
            "  ".join(map(_pad, [cell.text for cell in row], widths, size, alignments))
            for row, size in zip(rows, sizes, strict=True)
        ]
        return [line.rstrip() for line in (lines[0], "  ".join(["-" * width for width in widths]), *lines[1:])]

    def _get_alignment(self, column: int) -> Alignment:
        """As it was written, else figures on the right."""
        if self._table.alignments[column]:
            return self._table.alignments[column]
        texts = [row[column].text for row in self._table.rows if row[column].text]
        if texts and all(_FIGURE.fullmatch(text) for text in texts):
            return "right"
        return "left"

    def _make_code(self, lines: Sequence[str]) -> Block | None:
        writing = self._writing
        gap = writing.break_code_line(self._place)
        rows = [Block(gap, [TextRun(line, writing.code, breakable=False)], keep=True) for line in lines[2:]]
        head = writing.write(Block(gap, [TextRun(line, writing.code) for line in lines[:1]]))
        rule = (lines[1],) * len(head)
        fence = writing.add_prefix(writing.wrap(lambda dialect: dialect.fence("", "")), self._place)
        opening = tuple(map("".join, zip(fence.open, head, gap, rule, gap, strict=True)))
        return self._make_rows(rows, fence._replace(open=opening, resume=opening))

    def _make_rows(self, rows: Sequence[Block], wrapper: Wrapper) -> Block | None:
        """None: a row has no room beside the head."""
        writing = self._writing
        overhead = self._place.overhead + writing.get_cost(wrapper)
        longest = max([writing.get_size(writing.write(row)) for row in rows], default=0)
        if not rows or not writing.has_room_for(overhead) or overhead + longest > writing.limit:
            return None
        return Block(writing.nothing, children=rows, wrapper=wrapper, keep=True)

    def _make_real(self, lines: Sequence[str]) -> Block | None:
        """`lines`: the plain text, aligned; empty if it cannot be."""
        head = "".join(f"{line}\n" for line in lines[:2])
        plain = lines[2:]
        if not lines:
            head = f"{self._write_line(self._table.head)}\n"
            plain = list(map(self._write_line, self._table.rows))
        marked = [self._write_row(row, "td") for row in self._table.rows]
        opening: Forms = (head, f"<table><thead>{self._write_row(self._table.head, 'th')}</thead><tbody>")
        closing: Forms = ("", "</tbody></table>")
        rows = [Block(("\n", ""), [Fixed(forms)], keep=True) for forms in zip(plain, marked, strict=True)]
        return self._make_rows(rows, Wrapper(opening, closing, closing, opening))

    def _write_line(self, row: Sequence[Cell]) -> str:
        return " | ".join([self._write_cell(cell)[0] for cell in row])

    def _write_row(self, row: Sequence[Cell], tag: str) -> str:
        return "".join(["<tr>", *[f"<{tag}>{self._write_cell(cell)[-1]}</{tag}>" for cell in row], "</tr>"])

    def _write_cell(self, cell: Cell) -> Forms:
        return self._writing.write(Block((), self._read_inlines(cell.tokens, self._place)))

    def _make_list(self) -> Block:
        writing = self._writing
        place = writing.indent(self._place, "  ")
        gap = writing.break_line(self._place)
        line_end = Fixed(writing.break_line(place), is_line_end=True)
        bullet = Fixed(writing.each(lambda dialect: dialect.bullet))
        items = list[Block]()
        for row in self._table.rows or [self._table.head]:
            inlines: list[Inline] = [bullet]
            for head, cell in zip(self._table.head, row, strict=True):
                if not cell.text:
                    continue
                if len(inlines) > 1:
                    inlines.append(line_end)
                if self._table.rows and head.text:
                    inlines += self._read_inlines(head.tokens, place)
                    inlines.append(TextRun(": ", writing.words))
                inlines += self._read_inlines(cell.tokens, place)
            items.append(Block(gap, inlines, keep=True))
        return Block(writing.nothing, children=items)


def _get_width(text: str) -> int:
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # noqa: PLC0415 - 35 ms of `cold_start`, for tables with letters of other scripts

    width = wcswidth(text)
    return len(text) if width < 0 else width


def _pad(text: str, width: int, size: int, alignment: Alignment) -> str:
    space = width - size
    left = {"right": space, "center": space // 2}.get(alignment, 0)
    return " " * left + text + " " * (space - left)
