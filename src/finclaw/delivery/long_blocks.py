"""Code and tables that no message can hold, as files beside it where the channel takes files."""

import re
from typing import Final

from finclaw.delivery.limits import text_length
from finclaw.delivery.table import Table, write_csv
from finclaw.kernel.envelope import NewFile
from finclaw.text import Language, LengthUnit

_MOST_FILES: Final = 5
"""Of one reply, which may have others beside them."""
_ENDINGS: Final = {
    "python": "py", "javascript": "js", "typescript": "ts", "bash": "sh", "shell": "sh", "markdown": "md",
    "rust": "rs", "kotlin": "kt", "csharp": "cs", "ruby": "rb", "text": "txt", "plaintext": "txt", "": "txt",
}  # fmt: skip
_ENDING: Final = re.compile(r"[a-z0-9]{1,8}")
_CODE: Final[dict[Language, str]] = {
    "en": "📎 {name} (attached, {lines:,} lines)",
    "ko": "📎 {name} (첨부 파일, {lines:,}줄)",
}
_TABLE: Final[dict[Language, str]] = {
    "en": "📎 {name} (attached, {lines:,} rows)",
    "ko": "📎 {name} (첨부 파일, {lines:,}행)",
}


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
