"""How much room a text takes on the screen: Hangul is two columns wide, a combining mark none."""

import re
import unicodedata


def width(char: str) -> int:
    if char.isascii():
        return 1
    # The vowels and finals of a syllable spelled in parts stand in the room of its first consonant.
    if "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff":
        return 0
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def rows_down(text: str, columns: int) -> int:
    """How many rows below its first row the cursor stands after this text was printed at the left margin."""
    rows = column = 0
    for char in text:
        if char == "\n":
            rows, column = rows + 1, 0
        elif column + width(char) > columns:
            rows, column = rows + 1, width(char)
        else:
            column += width(char)
    return rows


def wrap(text: str, columns: int) -> str:
    """Lines that are too long are broken between words, so that no figure is torn in two. Columns: at least 2."""
    return "\n".join("\n".join(_rows(line, columns)) for line in text.split("\n"))


def _rows(line: str, columns: int) -> list[str]:
    rows = [""]
    for word in re.findall(r"\s*\S+|\s+$", line):
        if room(rows[-1] + word) <= columns:
            rows[-1] += word
            continue
        rest = word.lstrip() if rows[-1] else word  # the break stands for the space
        rows += [""] if rows[-1] else []
        while len(head := cut(rest, columns)) < len(rest):
            rows[-1] = head
            rest = rest[len(head) :]
            rows.append("")
        rows[-1] = rest
    return rows


def room(text: str) -> int:
    return len(text) if text.isascii() else sum(map(width, text))


def cut(text: str, columns: int) -> str:
    """As much of one line as fits."""
    taken = 0
    for place, char in enumerate(text):
        taken += width(char)
        if taken > columns:
            return text[:place]
    return text
