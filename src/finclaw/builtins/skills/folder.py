"""A skill's folder, read as a whole and with suspicion: plain files only, few and small, and no way out of it."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.builtins.skills.skill import BadSkill

SKILL_FILE: Final = "SKILL.md"
CODE_FILE: Final = "tools.py"
MOST_FILES: Final = 200
LARGEST_FILE: Final = 1_000_000
MOST_BYTES: Final = 5_000_000
DEEPEST: Final = 8
_IGNORED: Final = frozenset({"__pycache__"})
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Contents:
    """Its files by their path inside. Hidden ones are no part of it."""

    files: Mapping[str, bytes]

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def has_code(self) -> bool:
        return CODE_FILE in self.files

    @property
    def digest(self) -> str:
        """SHA-256 over names and contents in order; with the lengths, so that nothing can move between the two."""
        digest = hashlib.sha256()
        for name, content in sorted((name.encode(), content) for name, content in self.files.items()):
            for part in (name, content):
                digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()

    def text(self, name: str = SKILL_FILE) -> str:
        if name not in self.files:
            raise BadSkill(f"there is no {name} in it")
        try:
            return self.files[name].decode()
        except UnicodeDecodeError as error:
            raise BadSkill(f"{name} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def read_folder(path: Path) -> Contents:
    """Raises BadSkill for what is no folder of plain files, or too much of it; OSError when it cannot be read."""
    if path.is_symlink() or not path.is_dir():
        raise BadSkill("it is no folder; links are not followed")
    files, size = dict[str, bytes](), 0
    for root, folders, names, here in os.fwalk(path, follow_symlinks=False):
        inside = Path(root).relative_to(path)
        if len(inside.parts) > DEEPEST:
            raise BadSkill(f"its folders are nested more than {DEEPEST} deep")
        folders[:] = [each for each in sorted(folders) if _counts(each)]
        for name in folders:
            if not S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                raise BadSkill(f"{(inside / name).as_posix()!r} is a link; put the real folder there")
        for name in filter(_counts, sorted(names)):
            where = (inside / name).as_posix()
            if len(files) == MOST_FILES:
                raise BadSkill(f"it has more than {MOST_FILES} files")
            files[where] = read_plain(name, LARGEST_FILE, where, dir_fd=here)
            size += len(files[where])
            if size > MOST_BYTES:
                raise BadSkill(f"it has more than {MOST_BYTES:,} bytes")
    return Contents(files)


def read_plain(path: str | Path, most: int, shown: str, dir_fd: int | None = None) -> bytes:
    """A regular file and nothing else: to open a pipe may never end, and a link may lead anywhere."""
    if not S_ISREG(os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode):
        raise BadSkill(f"{shown!r} is no plain file; links, pipes and devices are not read")
    with open(os.open(path, _OPEN, dir_fd=dir_fd), "rb") as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):  # it was exchanged just now
            raise BadSkill(f"{shown!r} is no plain file; links, pipes and devices are not read")
        content = file.read(most + 1)
    if len(content) > most:
        raise BadSkill(f"{shown!r} has more than {most:,} bytes")
    return content


def _counts(name: str) -> bool:
    """Raises BadSkill for a name that could look like a line of its own."""
    if not name.isprintable():
        raise BadSkill(f"{name!r} holds characters that no name here has; rename it")
    return not name.startswith(".") and name not in _IGNORED


RECORD: Final = ".added.json"
_LARGEST: Final = 10_000


class Record(Struct, frozen=True):
    """An installation record. Its file is hidden, and so no part of the skill."""

    source: str
    sha256: str
    added_at: datetime
    words: str = ""
    """The SHA-256 of its SKILL.md alone."""

    def is_of(self, words: bytes) -> bool:
        return self.words in ("", hashlib.sha256(words).hexdigest())


def record_of(folder: Path) -> Record | None:
    """None for a folder that was put there by hand, and for a record that cannot be read."""
    try:
        return msgspec.json.decode(read_plain(folder / RECORD, _LARGEST, RECORD), type=Record)
    except (OSError, BadSkill, msgspec.DecodeError):
        return None
