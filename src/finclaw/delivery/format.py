"""The formatter: a reply in a channel's own markup and as plain text, in parts that the channel takes.

Control tokens are gone before it begins, and numbers that code writes are written. The text is parsed once, with the
disclaimer that stands at its end, and packed into parts in both forms at once.
"""

import gc
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.delivery.document import Block, CodeStyle, Fixed, Forms, Inline, TextRun, Writing
from finclaw.delivery.markup import Dialect, escape, get_dialect
from finclaw.delivery.pack import Packer
from finclaw.delivery.split import RESENT_MARK, split_message
from finclaw.kernel.envelope import ActionButton, Capabilities, Embed, Markup, NewFile
from finclaw.numerals.write import CurrencyDisplay, NumberStyle, format_financial_number
from finclaw.text import Language, LengthUnit, language_of, text_length

_SIGNS: Final = re.compile(r"[*_`~\[<&#|\\]|^[ \t]*[-+>]|^(?: {4}|\t)|  $", re.MULTILINE)
"""A text without any of these looks the same in every markup that has no blocks, and need not be parsed."""
_LINES: Final = re.compile(r"\n|^\d{1,9}[.)] ")
_TAG: Final = re.compile(r"<[^<>]*>")
_LONG: Final = 20_000
"""Characters."""
_CONTINUED: Final[dict[Language, str]] = {"en": "(continued)", "ko": "(이어짐)"}


class FormatOptions(Struct, frozen=True, kw_only=True):
    """Options of formatting: what a channel can show and how long, and how code and numbers are written."""

    max_length: int = 4_000
    length_unit: LengthUnit = "characters"
    max_marks: int = 0
    """Tags in one part; 0: no limit."""
    markup: Markup = "plain"
    embeds: bool = False
    """It shows cards; elsewhere they are text."""
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
    total_length: int
    """Of the content of all parts, as the channel counts."""
    was_split: bool
    files: tuple[NewFile, ...] = ()


def get_format_options(capabilities: Capabilities, longest: int | None = None) -> FormatOptions:
    """As the channel needs it, with room for the mark of a repeat in every part.

    `longest`: of a part, where the operator wants shorter ones; the further ones then say that they continue.
    """
    most = capabilities.max_length if longest is None else min(longest, capabilities.max_length)
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
    mark = _CONTINUED[language_of(text)] if options.says_continued else ""
    limit = max(1, options.max_length - (text_length(mark, options.length_unit) + 5 if mark else 0))
    forms, files = _make_forms(text, options, limit, is_literal=is_literal)
    if not forms and embeds:
        forms = [("", "")]
    newline = get_dialect(options.markup).newline
    last = len(forms) - 1
    parts = tuple(
        FormattedPart(
            content=f"{mark}{newline}{marked}" if mark and place else marked,
            plain=f"{mark}\n{plain}" if mark and place else plain,
            index=place,
            is_last=place == last,
            embeds=tuple(embeds) if place == last else (),
        )
        for place, (plain, marked) in enumerate(forms)
    )
    total = sum([text_length(part.content, options.length_unit) for part in parts])
    return FormattedMessage(parts=parts, total_length=total, was_split=last > 0, files=tuple(files))


def format_embeds(
    embeds: Sequence[Embed], options: FormatOptions, *, is_literal: bool = False
) -> tuple[Sequence[Embed], Sequence[Embed]]:
    """Cards in the channel's markup, and those that become text: it shows no cards, or not such long ones."""
    if not options.embeds:
        return (), embeds
    cards, others = list[Embed](), list[Embed]()
    for each in embeds:
        message = format_message(each.text, replace(options, file_bytes=0), is_literal=is_literal)
        if message.was_split:
            others.append(each)
        else:
            content = message.parts[0].content if message.parts else ""
            cards.append(replace(each, rendered=None if content == each.text else content))
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
    """A card as text."""
    return "\n".join(part for part in (embed.title, embed.text, embed.url) if part)


def has_room_for(capabilities: Capabilities, text: str) -> bool:
    """Whether one message may be as long as this."""
    return text_length(text, capabilities.length_unit) <= capabilities.max_length


def has_buttons_for(capabilities: Capabilities, actions: Sequence[ActionButton]) -> bool:
    """Whether one message may have all these buttons."""
    most = capabilities.buttons
    if most is None or len(actions) > most.count:
        return False
    return all(len(each.label) <= most.label and len(each.command.encode()) <= most.data for each in actions)


def _make_forms(
    text: str, options: FormatOptions, limit: int, *, is_literal: bool
) -> tuple[list[tuple[str, str]], Sequence[NewFile]]:
    """The parts, each as plain text and in the channel's markup, and the files beside them."""
    unit, markup = options.length_unit, options.markup
    is_read = markup != "source" and not is_literal and _has_markdown(text, markup)
    if not is_read and (not is_literal or escape(text, markup) == text):
        return [(part, part) for part in split_message(text, limit, unit)], ()
    dialects = [get_dialect("plain"), *([] if markup == "plain" else [get_dialect(markup)])]
    writing = Writing(dialects, limit, unit, options.code_style)
    files: Sequence[NewFile] = ()
    if is_read:
        from finclaw.delivery.read_markdown import read_markdown  # noqa: PLC0415 - 80 ms of `cold_start`: the parser
        from finclaw.delivery.table import LongBlocks  # noqa: PLC0415 - 80 ms of `cold_start`, as the next line

        long_blocks = LongBlocks(limit, unit, options.file_bytes, language_of(text))
        with _no_collection(text):
            blocks, files = read_markdown(text, writing, long_blocks), long_blocks.files
            packed = Packer(limit, unit, len(dialects), writing.counted, options.max_marks).pack(blocks)
    else:
        packed = Packer(limit, unit, len(dialects), writing.counted).pack(_read_literal(text, writing))
    return [pair for forms in packed if (pair := _clean(forms, markup))[0]], files


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


def _has_markdown(text: str, markup: Markup) -> bool:
    return _SIGNS.search(text) is not None or (markup == "html" and _LINES.search(text) is not None)


def _read_literal(text: str, writing: Writing) -> list[Block]:
    inlines = list[Inline]()
    for place, line in enumerate(text.split("\n")):
        if place:
            inlines.append(Fixed(writing.break_line(writing.top), is_line_end=True))
        inlines.append(TextRun(line, writing.words))
    return [Block(writing.nothing, inlines)]


def _clean(forms: Forms, markup: Markup) -> tuple[str, str]:
    """Without white space around it. Where marks are all that a part has in the markup, its words are shown."""
    plain, marked = forms[0].strip("\n").rstrip(), forms[-1].strip("\n").rstrip()
    shown = _TAG.sub("", marked) if markup in ("html", "inline_html") else marked
    return plain, marked if shown.strip() else escape(plain, markup)
