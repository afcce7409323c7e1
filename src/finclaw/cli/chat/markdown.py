"""Markdown as a terminal shows it: bold, italic and coloured words, bullets, and tables in columns.

Styles are marks of no width until they are written, so that lines can be measured and wrapped with them. The marks are
tag characters that no text needs; those of the text itself are left out.
"""

import re
from bisect import bisect_right
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
_MARKS: Final = re.compile("[\U000e0041-\U000e005a]")
_SIGNS: Final = re.compile(r"[*_`~\[<&#|\\]|^[ \t]*[-+>]|^(?: {4}|\t)|  $", re.MULTILINE)
_PARAGRAPH: Final = re.compile(r"\n\n(?=[^\W\d_])")
_FENCE: Final = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)


def clean_text(text: str) -> str:
    """A text as it may be shown, without any mark of ours."""
    return _MARKS.sub("", clean(text))


class GrowingMarkdown:
    """A Markdown text that grows. What stands before its last paragraph is set once, and not again with every word."""

    def __init__(self, *, styled: bool) -> None:
        self._styled = styled
        self._source = self._shown = ""

    def set(self, text: str, *, is_final: bool = False) -> str:
        """The text so far. A table at its end is left out: its columns are known when all of it is.

        `is_final`: only what no further word changes.
        """
        if not text.startswith(self._source):
            self._source = self._shown = ""
        end = _find_settled(text, len(self._source))
        if end > len(self._source):
            settled = set_markdown(text[len(self._source) : end].strip("\n"), styled=self._styled)
            self._shown += f"{settled}\n\n" if settled else ""
            self._source = text[:end]
        if is_final:
            return self._shown
        return (self._shown + set_markdown(_without_last_table(text[end:]), styled=self._styled)).rstrip()


def _find_settled(text: str, start: int) -> int:
    """Where the last paragraph begins whose first word nothing above it can change; `start`: if there is none."""
    fences = [each.end() for each in _FENCE.finditer(text, start)]
    for found in reversed([*_PARAGRAPH.finditer(text, start)]):
        if bisect_right(fences, found.end()) % 2 == 0:
            return found.end()
    return start


def _without_last_table(text: str) -> str:
    lines = text.removesuffix("\n").split("\n")
    count = len(lines)
    while count and lines[count - 1].lstrip(" \t").startswith("|"):
        count -= 1
    return text if count == len(lines) else "\n".join(lines[:count])


def set_markdown(text: str, *, styled: bool) -> str:
    """A cleaned text with marks for its styles."""
    if _SIGNS.search(text) is None:
        return text
    from finclaw.delivery.document import Dialect  # noqa: PLC0415 - 150 ms of `cold_start`, with the above
    from finclaw.delivery.format import format_whole  # noqa: PLC0415 - 150 ms of `cold_start`: parser and formatter

    dialect = Dialect()
    if styled:
        dialect = Dialect(
            bold=_BOLD,
            italic=_ITALIC,
            strike=_STRIKE,
            heading=_mark_heading,
            code=_mark_code,
        )
    return format_whole(text, dialect)


def write_reply(text: str, *, is_markdown: bool) -> str:
    """A reply for a file or a script, without any marks."""
    return set_markdown(clean_text(text), styled=False) if is_markdown else clean(text)


def _mark_heading(_level: int) -> tuple[str, str]:
    return _BOLD


def _mark_code(_code: str) -> tuple[str, str]:
    return _CODE


def apply_styles(text: str) -> str:
    """The text with what a terminal obeys in place of the marks."""
    return text.translate(_SEQUENCES)


def find_unchanged(before: str, now: str) -> int:
    """Up to where both are the same: the beginning of a line at which no style is open."""
    end = next((place for place, (old, new) in enumerate(zip(before, now, strict=False)) if old != new), None)
    end = min(len(before), len(now)) if end is None else end
    while end := now.rfind("\n", 0, end) + 1:
        if len(_MARKS.findall(now, 0, end)) % 2 == 0:
            break
        end -= 1
    return end
