"""Text files: bytes decoded, if they are text, and a page of their lines."""

import codecs
import re
from dataclasses import dataclass
from typing import Final

from finclaw.errors import ToolError

LONGEST_PAGE: Final = 40_000
"""Characters. What is longer fills a model's window with one look."""

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),  # begins as UTF-16 does, so it is asked first
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
_KNOWN: Final = {
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "an archive or an office document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"\x1f\x8b": "a compressed file",
    b"\xd0\xcf\x11\xe0": "an office document",
    b"SQLite format 3": "a database",
    b"\x7fELF": "a program",
}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


class NoText(ToolError):
    pass


@dataclass(frozen=True, slots=True)
class TextPage:
    lines: tuple[str, ...]
    first: int
    total: int
    is_cut: bool
    """Its only line is longer than a page."""

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def decode(content: bytes) -> tuple[str, str]:
    """The text and its encoding. Raises NoText."""
    for magic, kind in _KNOWN.items():
        if content.startswith(magic):
            raise NoText(f"this is {kind}, not text; ask for it as text, Markdown or CSV")
    for mark, codec, encoding in _MARKS:
        if content.startswith(mark):
            return _decode_text(content, codec), encoding
    for codec, encoding in (("utf-8", "UTF-8"), ("cp949", "CP949")):
        try:
            return _decode_text(content, codec), encoding
        except NoText:
            continue
    raise NoText("this is no text in UTF-8, UTF-16 or CP949; ask for it as text, Markdown or CSV")


def _decode_text(content: bytes, codec: str) -> str:
    try:
        text = content.decode(codec)
    except UnicodeDecodeError as error:
        raise NoText("this claims to be text and is not; it may be damaged") from error
    if _CONTROL.search(text):
        raise NoText("this holds control characters, as only programs and pictures do; it is not text")
    return text


def page(text: str, start: int, count: int) -> TextPage:
    """So many lines from `start` on, counted from one, as far as a page goes. Raises NoText beyond the end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    if start > max(len(lines), 1):
        raise NoText(f"there is no line {start:,}: the file has {len(lines):,}")
    wanted, room, taken = lines[start - 1 : start - 1 + count], LONGEST_PAGE, list[str]()
    for line in wanted:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    if wanted and not taken:
        return TextPage((wanted[0][:LONGEST_PAGE],), start, len(lines), is_cut=True)
    return TextPage(tuple(taken), start, len(lines), is_cut=False)
