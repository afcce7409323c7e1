"""Markdown as a terminal shows it: bold, italic and coloured words, bullets, and tables in columns.

Styles are marks of no width until they are written, so that lines can be measured and wrapped with them. The marks are
tag characters that no text needs; those of the text itself are left out.
"""

import re
from typing import Final

from finclaw.cli.formatting import clean

_BOLD: Final = ("\U000e0042", "\U000e0043")
_ITALIC: Final = ("\U000e0049", "\U000e004a")
_STRIKE: Final = ("\U000e0053", "\U000e0054")
_CODE: Final = ("\U000e004b", "\U000e004c")
_SEQUENCES: Final = {
    ord(mark): sequence
    for marks, sequences in (
        (_BOLD, ("\x1b[1m", "\x1b[22m")),
        (_ITALIC, ("\x1b[3m", "\x1b[23m")),
        (_STRIKE, ("\x1b[9m", "\x1b[29m")),
        (_CODE, ("\x1b[36m", "\x1b[39m")),
    )
    for mark, sequence in zip(marks, sequences, strict=True)
}
MARKS: Final = re.compile("[\U000e0041-\U000e005a]")
_SIGNS: Final = re.compile(r"[*_`~\[<&#|\\]|^[ \t]*[-+>]|^(?: {4}|\t)|  $", re.MULTILINE)


def clean_text(text: str) -> str:
    """Return a text as it may be shown, without any mark of ours."""
    return MARKS.sub("", clean(text))


def without_last_table(text: str) -> str:
    """Leave out a table at the end of a text that grows: its columns are known when all of it is."""
    lines = text.removesuffix("\n").split("\n")
    count = len(lines)
    while count and lines[count - 1].lstrip(" \t").startswith("|"):
        count -= 1
    return text if count == len(lines) else "\n".join(lines[:count])


def set_markdown(text: str, *, styled: bool) -> str:
    """Return a cleaned text with marks for its styles."""
    if _SIGNS.search(text) is None:
        return text
    from finclaw.delivery.document import Dialect  # noqa: PLC0415 - 150 ms of `cold_start`, with the next
    from finclaw.delivery.format import format_whole  # noqa: PLC0415 - 150 ms of `cold_start`: parser and formatter

    dialect = Dialect()
    if styled:
        dialect = Dialect(bold=_BOLD, italic=_ITALIC, strike=_STRIKE, heading=_mark_heading, code=_mark_code)
    return format_whole(text, dialect)


def write_reply(text: str, *, is_markdown: bool) -> str:
    """Return a reply for a file or a script, without any marks."""
    return set_markdown(clean_text(text), styled=False) if is_markdown else clean(text)


def _mark_heading(_level: int) -> tuple[str, str]:
    return _BOLD


def _mark_code(_code: str) -> tuple[str, str]:
    return _CODE


def apply_styles(text: str) -> str:
    """Replace the marks by what a terminal obeys."""
    return text.translate(_SEQUENCES)
