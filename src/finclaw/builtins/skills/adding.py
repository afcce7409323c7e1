"""Installation and removal of a skill's folder: whole or not at all, and never over another."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from finclaw.builtins.skills.folder import SKILL_FILE, Contents, read_folder
from finclaw.builtins.skills.front_matter import name_in, read_skill
from finclaw.builtins.skills.record import RECORD, Record, record_of
from finclaw.builtins.skills.skill import BadSkill, Skill
from finclaw.builtins.skills.skill_directory import is_name
from finclaw.private_files import make_private_directory, write_private_file


class Added(Struct, frozen=True):
    skill: Skill
    contents: Contents
    replaced: bool


def add(source: Path, directory: Path, now: datetime, *, force: bool = False) -> Added:
    """Raises BadSkill and changes nothing where anything is wrong with it; OSError when it cannot be written."""
    contents = read_folder(source)
    text = contents.text(SKILL_FILE)
    skill = read_skill(name_in(text), text)
    target = directory / skill.name
    there = os.path.lexists(target)
    if there and not force:
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
    return Added(skill, contents, there)


def remove(name: str, directory: Path, *, force: bool = False) -> None:
    """Raises BadSkill where there is none of that name, or it was put there by hand and may be the only copy."""
    folder = directory / name
    if not is_name(name) or not os.path.lexists(folder):
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
