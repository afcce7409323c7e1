"""Directory names of sessions: readable for a person, with a hash, for a key is anybody's text."""

import re
import shutil
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

SESSIONS: Final = "sessions"
"""In the state directory."""
READABLE: Final = 48
"""Characters of a key that are worth showing."""


def copy_sessions(place: Path, target: Path) -> None:
    """The files of all conversations; locks and half-written files are nobody's content."""
    if place.is_dir():
        shutil.copytree(place, target, ignore=shutil.ignore_patterns("*.lock", ".*.new", "*.new"))


class Directories:
    def __init__(self, place: Path) -> None:
        self._place = place

    def of(self, session: str) -> Path:
        name = re.sub(r"[^A-Za-z0-9]+", "-", session)[:READABLE].strip("-")
        # A lone surrogate in a key is no reason to fail.
        digest = blake2b(session.encode(errors="surrogatepass"), digest_size=16).hexdigest()
        return self._place / (f"{name}-{digest}" if name else digest)

    def __iter__(self) -> Iterator[Path]:
        """All there are, whosever they are."""
        if self._place.is_dir():
            yield from sorted(path for path in self._place.iterdir() if path.is_dir())
