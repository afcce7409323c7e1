"""The split of a long Markdown text into parts, cut where a reader would: between blocks, lines, sentences, words.

It reads lines, not Markdown as a whole: enough to keep code, tables, list items and links in one piece where they fit,
and to close and reopen code where they do not.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from finclaw.delivery.document import Block, Fixed, Inline, TextRun, Wrapper
from finclaw.delivery.pack import Packer
from finclaw.text import LengthUnit, text_length

RESENT_MARK = "(re-sent) "
"""Before a part of which nobody knows whether it has arrived already. Room for it is kept in every part."""

_FENCE: Final = re.compile(
    r"(?P<lead>[ \t>]{0,60}(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,4})?)(?P<marks>`{3,9}|~{3,9})(?P<info>[^`\n]{0,24})$"
)
_ITEM: Final = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_DELIMITERS: Final = re.compile(r"[ \t]*+(?:\|[ \t]*+)?:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+(?:\|[ \t]*+)?$")
_QUOTE: Final = re.compile(r"[ \t]{0,3}>[ \t>]{0,20}")
_UNIT: Final = re.compile(
    r"!?\[[^\[\]\n]{0,500}\]\([^()\s]{1,2100}(?:[ \t][^()\n]{0,300})?\)"
    r"|(?<!`)(`{1,3})(?!`)[^`\n]{1,2000}\1(?!`)"
    r"|(\*\*|__|~~)(?=\S)[^*_~\n]{1,500}(?<=\S)\2"
)
"""A link, code in a line and words in bold, each of which means something else if it is torn."""
_DEEPEST: Final = 8
"""Levels of lists that are looked into; deeper ones are cut like lines."""


def split_message(text: str, max_length: int, unit: LengthUnit = "characters") -> list[str]:
    """Parts no longer than `max_length`, but for a single character that is; white space at the cuts is left out.

    Code that is cut is closed and opened again, and the head of a table that is cut stands above each part of it.
    """
    text = text.strip()
    if max_length >= 1 and text_length(text, unit) <= max_length:
        return [text] if text else []
    parts = Packer(max_length, unit, forms=1, counted=1).pack(list(_read_blocks(text.split("\n"))))
    return [part for (form,) in parts if (part := form.strip())]


# ── blocks of lines ─────────────────────────────────────────────────────────────────────────────────────────────


def _read_blocks(lines: Sequence[str], depth: int = 0) -> Iterator[Block]:
    at, gap = 0, ""
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            gap, at = f"{gap}{line}\n", at + 1
            continue
        end, block = _read_block(lines, at, depth)
        yield block._replace(gap=(gap,))
        at, gap = end, "\n"


def _read_block(lines: Sequence[str], at: int, depth: int) -> tuple[int, Block]:
    """The block that begins at this line, and the line behind it."""
    fence = _FENCE.match(lines[at])
    if fence is not None:
        return _read_fence(lines, at, fence)
    if _is_table(lines, at):
        end = _find_end(lines, at, _is_blank)
        return end, _make_table(lines[at:end])
    item = _ITEM.match(lines[at])
    if item is not None and depth < _DEEPEST:
        end = _find_item_end(lines, at, len(item[1]))
        below = list(_read_blocks(lines[at + 1 : end], depth + 1))
        if below:
            below[0] = below[0]._replace(gap=("\n" + below[0].gap[0],))
        return end, Block(("",), children=[_make_line(lines[at]), *below], keep=True)
    end = _find_end(lines, at, _ends_paragraph)
    if _QUOTE.match(lines[at]):
        return end, Block(("",), children=[_make_line(line, "\n") for line in lines[at:end]])
    return end, _make_lines(lines[at:end])


def _read_fence(lines: Sequence[str], at: int, fence: re.Match[str]) -> tuple[int, Block]:
    """Code up to the line that closes it; if nobody closed it, up to the end."""
    marks = fence["marks"]
    closing = re.compile(rf"[ \t>]*{re.escape(marks)}{re.escape(marks[0])}*[ \t]*$")
    end = _find_end(lines, at, lambda line: closing.match(line) is not None)
    lead = re.sub(r"[^>\t]", " ", fence["lead"])
    stop = f"\n{lead}{marks}"
    last = f"\n{lines[end]}" if end < len(lines) else ""
    wrapper = Wrapper((lines[at] + "\n",), (last,), (stop,), (f"{lead}{marks}{fence['info']}\n",))
    code = [Block(("\n",), [TextRun(line, (str,), breakable=False)]) for line in lines[at + 1 : end]]
    behind = min(end + 1, len(lines))
    if not code:
        return behind, _make_lines(lines[at:behind])
    return behind, Block(("",), children=code, wrapper=wrapper, keep=True)


def _make_table(lines: Sequence[str]) -> Block:
    head = "\n".join(lines[:2]) + "\n"
    rows = [_make_line(line, "\n")._replace(keep=True) for line in lines[2:]]
    if not rows:
        return _make_lines(lines)
    body = Block(("\n",), children=rows, wrapper=Wrapper(("",), ("",), ("",), (head,)))
    return Block(("",), children=[_make_lines(lines[:2]), body], keep=True)


def _make_lines(lines: Sequence[str]) -> Block:
    inlines = list[Inline]()
    for place, line in enumerate(lines):
        if place:
            inlines.append(Fixed(("\n",), is_line_end=True))
        inlines += _read_inlines(line)
    return Block(("",), inlines)


def _make_line(line: str, gap: str = "") -> Block:
    quote = _QUOTE.match(line)
    if quote is None or quote.end() == len(line):
        return Block((gap,), list(_read_inlines(line)))
    wrapper = Wrapper((quote[0],), ("",), ("",), (quote[0],))
    return Block((gap,), list(_read_inlines(line[quote.end() :])), wrapper=wrapper)


def _read_inlines(line: str) -> Iterator[Inline]:
    at = 0
    for unit in _UNIT.finditer(line):
        if unit.start() > at:
            yield TextRun(line[at : unit.start()], (str,))
        yield TextRun(unit[0], (str,), breakable=False)
        at = unit.end()
    if at < len(line):
        yield TextRun(line[at:], (str,))


# ── where blocks end ────────────────────────────────────────────────────────────────────────────────────────────


def _is_blank(line: str) -> bool:
    return not line.strip()


def _ends_paragraph(line: str) -> bool:
    return not line.strip() or _ITEM.match(line) is not None or _FENCE.match(line) is not None


def _is_table(lines: Sequence[str], at: int) -> bool:
    return (
        "|" in lines[at]
        and at + 1 < len(lines)
        and "|" in lines[at + 1]
        and _DELIMITERS.match(lines[at + 1]) is not None
    )


def _find_item_end(lines: Sequence[str], at: int, indent: int) -> int:
    """An item ends before the next one that is not deeper, and before a paragraph that is not indented."""
    end = at + 1
    while end < len(lines):
        line = lines[end]
        item = _ITEM.match(line)
        if item is not None and len(item[1]) <= indent:
            break
        is_indented = len(line) - len(line.lstrip()) > indent
        if line.strip() and not is_indented and (not lines[end - 1].strip() or _FENCE.match(line)):
            break
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return end


def _find_end(lines: Sequence[str], at: int, is_end: Callable[[str], bool]) -> int:
    end = at + 1
    while end < len(lines) and not is_end(lines[end]):
        end += 1
    return end
