"""The directory of skills. A file is read again only when it has changed."""

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from finclaw.builtins.skills.folder import RECORD, SKILL_FILE, Contents, Record, read_folder, read_plain, record_of
from finclaw.builtins.skills.skill import HEADER_ROOM, NAME, BadSkill, Skill, read_skill, read_text
from finclaw.private_files import make_private_directory, write_private_file

_BYTES: Final = 4  # of one character, at most

_Stamp = tuple[int, int, int, int]
"""The inode, the time of the last change, the size, and when the installation record was written."""


class _ReadSkill(NamedTuple):
    stamp: _Stamp
    skill: Skill | None
    problem: str = ""


class SkillDirectory:
    def __init__(self, directory: Path, longest: int, logger: logging.Logger) -> None:
        self._directory = directory
        self._longest = longest
        self._logger = logger
        self._read: dict[Path, _ReadSkill] = {}

    def skills(self) -> list[Skill]:
        """Return the skills in the order of their names, so that the same skills make the same request."""
        # Not in a thread: to look at a few dozen files takes less time than to start one.
        read: dict[Path, _ReadSkill] = {}
        for path in self._files():
            try:
                stamp = _stamp(path)
            except OSError:
                continue  # removed since it was listed, or not a skill
            known = self._read.get(path)
            read[path] = known if known is not None and known.stamp == stamp else self._open(path, stamp)
        self._read = read
        found = {each.skill.name: each.skill for each in read.values() if each.skill is not None}
        return [found[name] for name in sorted(found)]

    def left_out(self) -> dict[str, str]:
        """The skills that are not given though they are there, with the reason."""
        self.skills()
        return {_name(path): each.problem for path, each in self._read.items() if each.problem}

    def _files(self) -> list[Path]:
        """Texts first: a folder of the same name takes a text's place. Links are left out: they could lead anywhere."""
        try:
            entries = sorted(os.scandir(self._directory), key=lambda each: each.name)
        except OSError as error:
            self._logger.warning("the skills cannot be looked at: %s", error)
            return []
        shown = [each for each in entries if not each.name.startswith(".")]
        texts = [Path(each) for each in shown if each.name.endswith(".md") and each.is_file(follow_symlinks=False)]
        return texts + [Path(each, SKILL_FILE) for each in shown if each.is_dir(follow_symlinks=False)]

    def _open(self, path: Path, stamp: _Stamp) -> _ReadSkill:
        try:
            return _ReadSkill(stamp, self._skill(path))
        except (OSError, UnicodeDecodeError, BadSkill) as error:
            self._logger.warning("the skill %s is not given: %s", _name(path), error)
            return _ReadSkill(stamp, None, str(error))

    def _skill(self, path: Path) -> Skill | None:
        content = read_plain(path, _BYTES * (self._longest + HEADER_ROOM), path.name)
        if path.name == SKILL_FILE:
            record = record_of(path.parent)
            if record is not None and not record.is_of(content):
                raise BadSkill(
                    "it is not the one that was added; look at it, then add it again, "
                    f"or remove {RECORD} beside it if the change is your own"
                )
            skill = read_skill(path.parent.name, content.decode())
        else:
            skill = read_text(path.stem, content.decode())
        if len(skill.text) > self._longest:
            raise BadSkill(f"it has more than {self._longest} characters; make two of it")
        return skill if skill.text else None


def _stamp(path: Path) -> _Stamp:
    status = path.lstat()
    recorded_at = 0
    if path.name == SKILL_FILE:
        with suppress(OSError):  # a folder that was put there by hand has no record
            recorded_at = (path.parent / RECORD).lstat().st_mtime_ns
    return (status.st_ino, status.st_mtime_ns, status.st_size, recorded_at)


def _name(path: Path) -> str:
    return path.parent.name if path.name == SKILL_FILE else path.name


# ── installation and removal of a skill's folder: whole or not at all, and never over another ───────────────


class Added(Struct, frozen=True):
    skill: Skill
    contents: Contents
    replaced: bool


def add(source: Path, directory: Path, now: datetime, *, force: bool = False) -> Added:
    """Raises BadSkill and changes nothing where anything is wrong with it; OSError when it cannot be written."""
    contents = read_folder(source)
    skill = read_skill(None, contents.text(SKILL_FILE))
    target = directory / skill.name
    is_taken = os.path.lexists(target)
    if is_taken and not force:
        raise BadSkill(f"there is a skill {skill.name} already; look at both, then replace it with --force")
    if os.path.lexists(beside := directory / f"{skill.name}.md") and not force:
        raise BadSkill(f"it would take the place of {beside.name}; look at both, then remove that one, or say --force")
    make_private_directory(directory)
    aside = directory / f".new-{skill.name}-{os.getpid()}"
    try:
        words = hashlib.sha256(contents.files[SKILL_FILE]).hexdigest()
        record = Record(str(source.absolute()), contents.digest, now, words)
        _write(aside, {**contents.files, RECORD: msgspec.json.encode(record)})
        _put(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Added(skill, contents, replaced=is_taken)


def remove(name: str, directory: Path, *, force: bool = False) -> None:
    """Raises BadSkill where there is none of that name, or it was put there by hand and may be the only copy."""
    folder = directory / name
    if not re.fullmatch(NAME, name) or not os.path.lexists(folder):
        raise BadSkill(f"there is no skill {name!r}; `finclaw skills list` shows those there are")
    if not force and (folder.is_symlink() or record_of(folder) is None):
        raise BadSkill(f"{folder} was not added with `finclaw skills add`; remove it yourself, or say --force")
    _discard(_out_of_the_way(folder))


def _put(new: Path, target: Path) -> None:
    """What was there before stays until the new one has taken its place."""
    before = _out_of_the_way(target) if os.path.lexists(target) else None
    try:
        os.rename(new, target)
    except OSError:
        if before is not None:
            os.rename(before, target)
        raise
    if before is not None:
        _discard(before)


def _out_of_the_way(folder: Path) -> Path:
    aside = folder.with_name(f".old-{folder.name}-{os.getpid()}")
    os.rename(folder, aside)
    return aside


def _discard(folder: Path) -> None:
    """A link is removed, and not what it leads to."""
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
    else:
        shutil.rmtree(folder)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        path = folder / name
        make_private_directory(path.parent)
        write_private_file(path, content)
