"""Formatting: a reply in a channel's own markup and as plain text, in parts that the channel takes.

A text without marks, or for a reader who renders it, is read line by line: enough to keep code, tables, list items and
links in one piece. Others are parsed once as Markdown, and packed into parts in both forms at once.
"""

import gc
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.delivery.document import (
    Block,
    CodeStyle,
    Dialect,
    Fixed,
    Forms,
    Inline,
    TextRun,
    Wrapper,
    Writing,
    escape,
    get_dialect,
)
from finclaw.delivery.pack import Packer
from finclaw.kernel.envelope import ActionButton, Capabilities, Embed, Markup, NewFile
from finclaw.numerals.write import CurrencyDisplay, NumberStyle, format_financial_number
from finclaw.text import Language, LengthUnit, language_of, text_length

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
_DEEPEST: Final = 8  # levels of lists that are looked into; deeper ones are cut like lines


def split_message(text: str, max_length: int, unit: LengthUnit = "characters") -> list[str]:
    """Cut a text into parts of at most `max_length`, except for a single character that is longer.

    Code that is cut is closed and opened again, and the head of a table that is cut stands above each part of it.
    """
    text = text.strip()
    if not text:
        return []
    if max_length >= 1 and text_length(text, unit) <= max_length:
        return [text]
    parts = Packer(max_length, unit, forms=1, counted=1).pack(list(_read_blocks(text.split("\n"))))
    return [part for (form,) in parts if (part := form.strip())]


# ── blocks of lines ─────────────────────────────────────────────────────────────────────────────────────────────


def _read_blocks(lines: Sequence[str], depth: int = 0) -> Iterator[Block]:
    at = 0
    gap = ""
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            gap += f"{line}\n"
            at += 1
            continue
        at, block = _read_block(lines, at, depth)
        yield block._replace(gap=(gap,))
        gap = "\n"


def _read_block(lines: Sequence[str], at: int, depth: int) -> tuple[int, Block]:
    """Return the number of the line after the block that begins at this line, and the block."""
    fence = _FENCE.match(lines[at])
    if fence is not None:
        return _read_fence(lines, at, fence)
    if _is_table(lines, at):
        end = _find_end(lines, at, lambda line: not line.strip())
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


def _ends_paragraph(line: str) -> bool:
    return not line.strip() or _ITEM.match(line) is not None or _FENCE.match(line) is not None


def _is_table(lines: Sequence[str], at: int) -> bool:
    if at + 1 == len(lines) or "|" not in lines[at]:
        return False
    return "|" in lines[at + 1] and _DELIMITERS.match(lines[at + 1]) is not None


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


_SIGNS: Final = re.compile(r"[*_`~\[<&#|\\]|^[ \t]*[-+>]|^(?: {4}|\t)|  $", re.MULTILINE)
"""A text without any of these looks the same in every markup that has no blocks, and need not be parsed."""
_LINES: Final = re.compile(r"\n|^\d{1,9}[.)] ")
_TAG: Final = re.compile(r"<[^<>]*>")
_LONG: Final = 20_000
_CONTINUED: Final[dict[Language, str]] = {"en": "(continued)", "ko": "(이어짐)"}


class FormatOptions(Struct, frozen=True, kw_only=True):
    """Options of formatting: what a channel can show and how long, and how code and numbers are written."""

    max_length: int = 4_000
    length_unit: LengthUnit = "characters"
    max_marks: int = 0  # tags in one part; 0: no limit
    markup: Markup = "plain"
    embeds: bool = False  # it shows cards; elsewhere they are text
    code_style: CodeStyle = "fenced"
    number_locale: str = "en"
    currency_display: CurrencyDisplay = "symbol"
    file_bytes: int = 0
    """The largest file that it takes. Code and tables that are longer than a part become files, which whoever asks
    for it must keep on disk; 0: none do."""
    says_continued: bool = False
    """Every part but the first begins with a word that it continues."""

    def format_number(
        self, value: Decimal | int, currency: str = "", *, show_sign: bool = False, style: NumberStyle = "decimal"
    ) -> str:
        """A value that code writes into a text, before the text is formatted."""
        return format_financial_number(
            value,
            self.number_locale,
            currency,
            show_sign=show_sign,
            style=style,
            currency_display=self.currency_display,
        )


class FormattedPart(Struct, frozen=True, kw_only=True):
    """A part that is complete by itself. `plain` says the same without any markup."""

    content: str
    plain: str
    index: int
    is_last: bool
    embeds: tuple[Embed, ...] = ()


class FormattedMessage(Struct, frozen=True, kw_only=True):
    """A formatted reply. Its cards stand below the last part."""

    parts: tuple[FormattedPart, ...]
    total_length: int  # of the content of all parts, as the channel counts
    was_split: bool
    files: tuple[NewFile, ...] = ()


def get_format_options(capabilities: Capabilities, longest: int | None = None) -> FormatOptions:
    """Return the options of a channel, with room for the mark of a repeat. `longest`: the operator's own limit."""
    most = min(capabilities.max_length, longest or capabilities.max_length)
    return FormatOptions(
        max_length=max(1, most - len(RESENT_MARK)),
        says_continued=longest is not None,
        length_unit=capabilities.length_unit,
        max_marks=capabilities.max_marks,
        markup=capabilities.markup,
        embeds=capabilities.embeds,
    )


def format_message(
    text: str, options: FormatOptions, *, embeds: Sequence[Embed] = (), is_literal: bool = False
) -> FormattedMessage:
    """A text as it is sent. `is_literal`: it is no Markdown, and every sign of it is shown."""
    if embeds:
        embeds, others = format_embeds(embeds, options, is_literal=is_literal)
        text = "\n\n".join([text, *map(write_embed, others)])
    text = text.strip()
    mark = ""
    limit = options.max_length
    if options.says_continued:
        mark = _CONTINUED[language_of(text)]
        limit -= text_length(mark, options.length_unit) + 5
    forms, files = _make_forms(text, options, max(1, limit), is_literal=is_literal)
    if not forms and embeds:
        forms = [("", "")]
    if mark and len(forms) > 1:
        newline = get_dialect(options.markup).newline
        forms[1:] = [(f"{mark}\n{plain}", f"{mark}{newline}{marked}") for plain, marked in forms[1:]]
    last = len(forms) - 1
    parts = [
        FormattedPart(content=marked, plain=plain, index=place, is_last=place == last)
        for place, (plain, marked) in enumerate(forms)
    ]
    if embeds:
        parts[-1] = replace(parts[-1], embeds=tuple(embeds))
    total = sum([text_length(part.content, options.length_unit) for part in parts])
    return FormattedMessage(parts=tuple(parts), total_length=total, was_split=last > 0, files=tuple(files))


def format_embeds(
    embeds: Sequence[Embed], options: FormatOptions, *, is_literal: bool = False
) -> tuple[Sequence[Embed], Sequence[Embed]]:
    """Return the cards in the channel's markup, and those that become text: it shows none, or not such long ones."""
    if not options.embeds:
        return (), embeds
    cards = list[Embed]()
    others = list[Embed]()
    for embed in embeds:
        message = format_message(embed.text, replace(options, file_bytes=0), is_literal=is_literal)
        if message.was_split:
            others.append(embed)
            continue
        content = "".join(part.content for part in message.parts)
        cards.append(replace(embed, rendered=None if content == embed.text else content))
    return cards, others


def format_whole(text: str, dialect: Dialect) -> str:
    """A Markdown text in one piece and one form, for a reader without limits, such as a terminal."""
    from finclaw.delivery.read_markdown import read_markdown  # noqa: PLC0415 - 80 ms of `cold_start`: the parser
    from finclaw.delivery.table import LongBlocks  # noqa: PLC0415 - 80 ms of `cold_start`: the parser

    limit = 100 * (len(text) + 100)  # more than any marks and columns need
    writing = Writing([dialect], limit, "characters")
    blocks = read_markdown(text, writing, LongBlocks(limit, "characters", 0, "en"))
    return "".join(form.strip("\n").rstrip() for (form,) in Packer(limit, "characters", 1, 1).pack(blocks))


def write_embed(embed: Embed) -> str:
    return "\n".join(part for part in (embed.title, embed.text, embed.url) if part)


def has_room_for(capabilities: Capabilities, text: str) -> bool:
    return text_length(text, capabilities.length_unit) <= capabilities.max_length


def has_buttons_for(capabilities: Capabilities, actions: Sequence[ActionButton]) -> bool:
    most = capabilities.buttons
    if most is None or len(actions) > most.count:
        return False
    return all(len(each.label) <= most.label and len(each.command.encode()) <= most.data for each in actions)


def _make_forms(
    text: str, options: FormatOptions, limit: int, *, is_literal: bool
) -> tuple[list[tuple[str, str]], Sequence[NewFile]]:
    """Return the parts, each as plain text and in the channel's markup, and the files beside them."""
    unit = options.length_unit
    markup = options.markup
    is_read = False
    if markup != "source" and not is_literal:
        is_read = _SIGNS.search(text) is not None or (markup == "html" and _LINES.search(text) is not None)
    if not is_read and (not is_literal or escape(text, markup) == text):
        return [(part, part) for part in split_message(text, limit, unit)], ()
    dialects = [get_dialect(name) for name in dict.fromkeys(("plain", markup))]
    writing = Writing(dialects, limit, unit, options.code_style)
    files: Sequence[NewFile] = ()
    if is_read:
        from finclaw.delivery.read_markdown import read_markdown  # noqa: PLC0415 - 80 ms of `cold_start`: the parser
        from finclaw.delivery.table import LongBlocks  # noqa: PLC0415 - 80 ms of `cold_start`, as the next line

        long_blocks = LongBlocks(limit, unit, options.file_bytes, language_of(text))
        with _no_collection(text):
            blocks = read_markdown(text, writing, long_blocks)
            packed = Packer(limit, unit, len(dialects), writing.counted, options.max_marks).pack(blocks)
        files = long_blocks.files
    else:
        packed = Packer(limit, unit, len(dialects), writing.counted).pack(_read_literal(text, writing))
    pairs = [_clean(forms, markup) for forms in packed]
    return [pair for pair in pairs if pair[0]], files


@contextmanager
def _no_collection(text: str) -> Generator[None]:
    """No garbage collection while a long text is read: of its many objects none is garbage yet, and a third of the time
    that an answer of 100 kB may take would go into looking at them."""
    is_paused = len(text) > _LONG and gc.isenabled()
    if is_paused:
        gc.disable()
    try:
        yield
    finally:
        if is_paused:
            gc.enable()


def _read_literal(text: str, writing: Writing) -> list[Block]:
    inlines = list[Inline]()
    for place, line in enumerate(text.split("\n")):
        if place:
            inlines.append(Fixed(writing.break_line(writing.top), is_line_end=True))
        inlines.append(TextRun(line, writing.words))
    return [Block(writing.nothing, inlines)]


def _clean(forms: Forms, markup: Markup) -> tuple[str, str]:
    """Strip the white space around a part. Where marks are all that it has in the markup, its words are shown."""
    plain = forms[0].strip("\n").rstrip()
    marked = forms[-1].strip("\n").rstrip()
    shown = _TAG.sub("", marked) if markup in ("html", "inline_html") else marked
    if not shown.strip():
        marked = escape(plain, markup)
    return plain, marked
