"""Installation records of `finclaw skills add`: what was added, from where and when."""

import hashlib
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.builtins.skills.folder import read_plain
from finclaw.builtins.skills.skill import BadSkill

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
