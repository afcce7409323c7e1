"""A terminal made of characters, which shows what was written to it as a person would see it."""

import re

from finclaw.cli.formatting import width

_PIECE = re.compile(r"\x1b\[([?>]?)([0-9;]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|[^\x1b]", re.DOTALL)


class Emulator:
    """Rows that scroll out at the top are kept. A sequence that it does not know is an error."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self.row = self.column = 0
        self.styles: list[str] = []
        self._top = 0
        self._cells: list[list[str]] = [[]]
        self._wraps = True
        self._unread = ""

    def feed(self, text: str) -> None:
        text = self._unread + text
        begun = re.search(r"\x1b(?:\[[?>]?[0-9;]*|\][^\x07\x1b]*)?$", text)
        self._unread = begun[0] if begun else ""
        for piece in _PIECE.finditer(text.removesuffix(self._unread) if begun else text):
            if piece[3]:
                self._obey(piece[1], piece[2], piece[3])
            elif piece[0] in ("\x1b=", "\x1b>") or piece[0].startswith("\x1b]"):
                pass
            else:
                self._write(piece[0])

    @property
    def lines(self) -> list[str]:
        """Everything that was shown and not erased, without trailing blanks."""
        lines = ["".join(cell or "" for cell in row).rstrip() for row in self._cells]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _obey(self, private: str, numbers: str, name: str) -> None:
        count = int(numbers.split(";", maxsplit=1)[0] or 1) if not private else 0
        if private:
            if numbers == "7":
                self._wraps = name == "h"
        elif name == "m":
            self.styles.extend(numbers.split(";"))
        elif name in "AB":
            step = -count if name == "A" else count
            self.row = min(max(self.row + step, self._top), self._top + self.rows - 1)
        elif name in "CD":
            self._clamp()
            self.column = min(max(self.column + (count if name == "C" else -count), 0), self.columns - 1)
        elif name == "G":
            self.column = count - 1
        elif name in "JK":
            self._erase(numbers, name)
        elif name in "P@":
            cells = self._row()
            if name == "P":
                del cells[self.column : self.column + count]
            else:
                cells[self.column : self.column] = [" "] * count
        else:
            raise AssertionError(f"\\x1b[{numbers}{name}")

    def _erase(self, numbers: str, name: str) -> None:
        assert numbers in ("", "0"), f"\\x1b[{numbers}{name}"
        self._clamp()
        del self._row()[self.column :]
        if name == "J":
            del self._cells[self.row + 1 :]

    def _write(self, char: str) -> None:
        if char == "\n":
            self._down()
        elif char == "\r":
            self.column = 0
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char == "\t":
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif char >= " ":
            self._put(char)
        else:
            assert char in "\x00\x01\x02\x07", repr(char)

    def _put(self, char: str) -> None:
        room = width(char)
        if room == 0:
            return
        if self.column + room > self.columns:
            if self._wraps:
                self.column = 0
                self._down()
            else:
                self.column = self.columns - room
        cells = self._row()
        cells[self.column : self.column + room] = [char, *[""] * (room - 1)]
        self.column += room

    def _row(self) -> list[str]:
        """The cells of the cursor's row, at least up to the cursor."""
        while len(self._cells) <= self.row:
            self._cells.append([])
        cells = self._cells[self.row]
        cells.extend(" " * (self.column - len(cells)))
        return cells

    def _down(self) -> None:
        self.row += 1
        self._top = max(self._top, self.row - self.rows + 1)
        self._row()

    def _clamp(self) -> None:
        """A cursor that waits to wrap is still in the last column."""
        self.column = min(self.column, self.columns - 1)
