"""A session's directory: whose it is, for people and for finding it again, and how it is made and removed."""

import logging
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.storage.jsonl.files import Files

log = logging.getLogger(__name__)

IDENTITY: Final = "session.json"
MESSAGES: Final = "messages"
NAMES: Final = ("base.jsonl", "events.jsonl")


class Identity(Struct, frozen=True):
    """`began` tells a session from a later namesake, and `database` from one of another state."""

    key: str
    database: str
    began: int


def read_identity(files: Files, directory: Path) -> Identity | None:
    try:
        return msgspec.json.decode(files.read(directory / IDENTITY), type=Identity)
    except (msgspec.MsgspecError, ValueError):
        return None


def introduce(files: Files, directory: Path, identity: Identity) -> bool:
    """Make the directory, or recognise it. False: it was another's, and was put away, not taken over."""
    known = read_identity(files, directory)
    inside = directory / MESSAGES
    if known == identity and inside.is_dir():
        return True
    namesake = known is not None and known.database == identity.database and known.began != identity.began
    if namesake:
        log.warning("%s is of a session that is gone; it is put away for its namesake", directory)
        files.move(directory, files.free_name(directory, "old"))
    files.make(inside)
    for name in NAMES:
        files.append(inside / name, files.tail(inside / name, 0)[1], b"")
    files.keep_names(inside)
    files.replace(directory / IDENTITY, msgspec.json.encode(identity) + b"\n")
    return not namesake


def remove(files: Files, directory: Path) -> None:
    """The identity last, so that what is left half done can be told to be so."""
    for inside in (directory / MESSAGES, directory):
        paths = sorted(inside.iterdir(), key=lambda path: path.name == IDENTITY) if inside.is_dir() else []
        for path in paths:
            files.remove(path)
    files.remove(directory)


def erase(files: Files, directory: Path) -> None:
    """Everything in a session's directory, backups of earlier repairs too, and what was put away for a namesake."""
    for each in (*directory.parent.glob(f"{directory.name}.old-*"), directory):
        inside = sorted(each.rglob("*"), key=lambda path: (-len(path.parts), path.name == IDENTITY))
        for path in (*inside, each):
            files.erase(path)
