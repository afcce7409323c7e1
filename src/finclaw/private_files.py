"""Directories and files that only their owner can open (0700 and 0600), whatever the umask is."""

import logging
import os
import shlex
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from finclaw.errors import ConfigError

log = logging.getLogger(__name__)


def make_private_directory(path: Path) -> None:
    """Make the directory and those of its parents that are missing. Raises OSError."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


def close_to_others(directory: Path) -> None:
    """Take the rights of other users away, also in subdirectories. Raises ConfigError with the command to run if
    another user owns the directory or a file in it."""
    refuse_files_of_others(directory)
    mode = directory.stat().st_mode
    if not mode & 0o077:
        return
    with suppress(OSError):
        for each, *_ in os.walk(directory):
            os.chmod(each, 0o700)
    if directory.stat().st_mode & 0o077:
        raise _refusal(directory)
    log.warning("other users could open %s (%04o); now only you can (0700)", directory, stat.S_IMODE(mode))


def refuse_files_of_others(directory: Path) -> None:
    """Raises ConfigError if others can open the directory, and another user owns it or a file in it. One that is
    closed to others belongs to whoever the gateway runs as; root may look at it as it is."""
    if not directory.exists() or not directory.stat().st_mode & 0o077:
        return
    inside = (Path(root, name) for root, *names in os.walk(directory) for name in (*names[0], *names[1]))
    if _is_foreign(directory.resolve()) or any(map(_is_foreign, inside)):
        raise _refusal(directory)


def _refusal(directory: Path) -> ConfigError:
    mode = stat.S_IMODE(directory.stat().st_mode)
    where = shlex.quote(str(directory))
    return ConfigError(
        f"other users own or can open {directory} ({mode:04o}) or a file in it; choose another with --state DIR, or "
        f"look at the files and run: sudo chown -R {os.geteuid()} {where} && sudo chmod 700 {where}"
    )


def _is_foreign(path: Path) -> bool:
    try:
        return path.lstat().st_uid not in (0, os.geteuid())
    except OSError:  # removed meanwhile
        return False


@contextmanager
def new_private_file(path: Path) -> Generator[IO[bytes]]:
    """A new file, synced at the end of the block. Raises OSError, also if it is there already."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(opened, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def write_private_file(path: Path, content: bytes) -> None:
    with new_private_file(path) as file:
        file.write(content)
