"""The history of typed lines, in the state directory: a JSON string each, so that a pasted paragraph is one entry."""

import json
import os
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path
from typing import cast

FILE_NAME = "chat_history"
KEPT = 1_000


class History:
    """A history of lines. It never fails: what cannot be read or written is not remembered."""

    def __init__(self, state: Path) -> None:
        self._path = state / FILE_NAME
        self.lines = self._load()
        if len(self.lines) > 2 * KEPT:
            self.lines = self.lines[-KEPT:]
            self._rewrite()

    def add(self, text: str) -> bool:
        """False for a line that is just the last one again."""
        if self.lines and self.lines[-1] == text:
            return False
        self.lines.append(text)
        with suppress(OSError), self._open(os.O_APPEND) as file:
            file.write(_encode(text))
        return True

    def _load(self) -> list[str]:
        lines: list[str] = []
        with suppress(OSError):
            for line in self._path.read_bytes().splitlines():
                with suppress(ValueError):  # cut short by a full disk, or edited
                    entry = cast("object", json.loads(line))
                    if isinstance(entry, str):
                        lines.append(entry)
        return lines

    def _rewrite(self) -> None:
        with suppress(OSError), self._open(os.O_TRUNC) as file:
            file.writelines(map(_encode, self.lines))

    def _open(self, how: int) -> BufferedWriter:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | how
        return open(os.open(self._path, flags, 0o600), "wb")


def _encode(text: str) -> bytes:
    return json.dumps(text).encode() + b"\n"
