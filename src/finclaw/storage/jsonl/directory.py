"""Session directories of the file store: their names, the identity file, how they are made and removed."""

import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.storage.files import Files
from finclaw.storage.locks import hash_key

log = logging.getLogger(__name__)

SESSIONS: Final = "sessions"
"""The directory of all sessions, in the state directory."""
READABLE: Final = 48
"""Characters of a session key that appear in the name of its directory."""
IDENTITY: Final = "session.json"
MESSAGES: Final = "messages"
NAMES: Final = ("base.jsonl", "events.jsonl")


def session_directory(sessions: Path, session: str) -> Path:
    """Return the directory of a session: readable for a person, with a hash, because a key may be any text."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", session)[:READABLE].strip("-")
    return sessions / "-".join(filter(None, (name, hash_key(session))))


def list_directories(sessions: Path) -> list[Path]:
    return sorted(path for path in sessions.iterdir() if path.is_dir()) if sessions.is_dir() else []


def copy_sessions(sessions: Path, target: Path) -> None:
    if sessions.is_dir():
        shutil.copytree(sessions, target, ignore=shutil.ignore_patterns("*.lock", "*.new"))


class Identity(Struct, frozen=True):
    """`began` tells a session from a later one of the same key, and `database` from one of another state."""

    key: str
    database: str
    began: int


def read_identity(files: Files, directory: Path) -> Identity | None:
    try:
        return msgspec.json.decode(files.read(directory / IDENTITY), type=Identity)
    except (msgspec.MsgspecError, ValueError):
        return None


def prepare_directory(files: Files, directory: Path, identity: Identity) -> bool:
    """Make the directory if it is not there. False: it belonged to an earlier session of this key and was put away."""
    known = read_identity(files, directory)
    inside = directory / MESSAGES
    if known == identity and inside.is_dir():
        return True
    is_namesake = known is not None and known.database == identity.database and known.began != identity.began
    if is_namesake:
        log.warning("%s belongs to an earlier session of the same key and is put away", directory)
        files.put_away(directory, "old")
    files.make(inside)
    for name in NAMES:
        files.append(inside / name, files.size(inside / name), b"")
    files.keep_names(inside)
    files.replace(directory / IDENTITY, msgspec.json.encode(identity) + b"\n")
    return not is_namesake


def erase_directory(files: Files, directory: Path) -> None:
    """Overwrite and remove the directory, with backups of repairs and directories of earlier sessions of this key."""
    for path in (*directory.parent.glob(f"{directory.name}.old-*"), directory):
        remove_tree(path, files.erase)


def remove_tree(directory: Path, remove: Callable[[Path], None]) -> None:
    """Remove a directory. The identity goes last, so that an interrupted removal can be recognised and finished."""
    inside = sorted(directory.rglob("*"), key=lambda path: (-len(path.parts), path.name == IDENTITY))
    for path in (*inside, directory):
        remove(path)
