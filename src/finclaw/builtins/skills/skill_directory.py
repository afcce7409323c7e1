"""The skills directory as it is now. Each file is read once for each time it was changed."""

import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final

from finclaw.builtins.skills.folder import SKILL_FILE, read_plain
from finclaw.builtins.skills.front_matter import HEADER_ROOM, read_skill, read_text
from finclaw.builtins.skills.record import RECORD, record_of
from finclaw.builtins.skills.skill import NAME, BadSkill, Skill

_Stamp = tuple[int, int, int, int]
"""Which file it is, when it was written, its size, and when its record was written."""
_BYTES: Final = 4
"""Of one character, at most."""


class SkillDirectory:
    def __init__(self, directory: Path, longest: int, logger: logging.Logger) -> None:
        self._directory = directory
        self._longest = longest
        self._logger = logger
        self._read: dict[Path, tuple[_Stamp, Skill | None]] = {}
        self._left_out: dict[Path, str] = {}

    def skills(self) -> list[Skill]:
        """In the order of their names, so that the same skills are the same request."""
        # Without a thread: to look at a few dozen files costs less than to hand that over.
        self._read = kept = dict(self._look())
        found = {skill.name: skill for _, skill in kept.values() if skill is not None}
        return [found[name] for name in sorted(found)]

    def left_out(self) -> dict[str, str]:
        """The skills that are not given though they are there, with the reason."""
        self.skills()
        return {_name(path): self._left_out[path] for path in self._read if path in self._left_out}

    def _look(self) -> Iterator[tuple[Path, tuple[_Stamp, Skill | None]]]:
        for path in self._files():
            try:
                status = path.lstat()
            except OSError:
                continue  # gone since we looked, or no skill at all
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size, _recorded_at(path))
            known = self._read.get(path)
            yield path, known if known is not None and known[0] == stamp else (stamp, self._open(path))

    def _files(self) -> Iterator[Path]:
        """Texts first: a folder of the same name takes a text's place."""
        try:
            entries = sorted(os.scandir(self._directory), key=lambda each: each.name)
        except OSError as error:
            self._logger.warning("the skills cannot be looked at: %s", error)
            return
        shown = [each for each in entries if not each.name.startswith(".")]
        yield from (Path(each.path) for each in shown if each.name.endswith(".md") and _is(S_ISREG, each))
        yield from (Path(each.path) / SKILL_FILE for each in shown if _is(S_ISDIR, each))

    def _open(self, path: Path) -> Skill | None:
        self._left_out.pop(path, None)
        try:
            return self._skill(path)
        except (OSError, UnicodeDecodeError, BadSkill) as error:
            self._logger.warning("the skill %s is not given: %s", _name(path), error)
            self._left_out[path] = str(error)
            return None

    def _skill(self, path: Path) -> Skill | None:
        content = read_plain(path, _BYTES * (self._longest + HEADER_ROOM), path.name)
        record = record_of(path.parent) if path.name == SKILL_FILE else None
        if record is not None and not record.is_of(content):
            raise BadSkill(
                "it is not the one that was added; look at it, then add it again, "
                f"or remove {RECORD} beside it if the change is your own"
            )
        text = content.decode()
        skill = read_skill(path.parent.name, text) if path.name == SKILL_FILE else read_text(path.stem, text)
        if len(skill.text) > self._longest:
            raise BadSkill(f"it has more than {self._longest} characters; make two of it")
        return skill if skill.text else None


def _name(path: Path) -> str:
    return path.parent.name if path.name == SKILL_FILE else path.name


def _recorded_at(path: Path) -> int:
    """0 for a text, and for a folder that somebody has put there by hand."""
    try:
        return (path.parent / RECORD).lstat().st_mtime_ns if path.name == SKILL_FILE else 0
    except OSError:
        return 0


def is_name(text: str) -> bool:
    return re.fullmatch(NAME, text) is not None


def _is(kind: Callable[[int], bool], entry: os.DirEntry[str]) -> bool:
    """Itself and not what it points to: a link could lead out of the directory."""
    try:
        return kind(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False
