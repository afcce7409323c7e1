"""Directories and files that only their owner can open (0700 and 0600), whatever the umask is."""

import logging
import os
import shlex
import stat
from contextlib import suppress
from pathlib import Path

from finclaw.errors import ConfigError

log = logging.getLogger(__name__)


def make_private_directory(path: Path) -> None:
    """Make the directory and those of its parents that are missing. Raises OSError."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)


def close_to_others(directory: Path) -> None:
    """Take the rights of other users away. Raises ConfigError, with what to type, where others have a part in it."""
    mode = directory.stat().st_mode
    if not mode & 0o077:
        return
    if not (mode & 0o022 and _holds_files_of_others(directory)):
        with suppress(OSError):
            directory.chmod(0o700)
    if directory.stat().st_mode & 0o077:
        where = shlex.quote(str(directory))
        raise ConfigError(
            f"other users can open {directory} ({stat.S_IMODE(mode):04o}), and it or a file in it is not yours; choose "
            f"another with --state DIR, or look at the files and run: sudo chown -R {os.geteuid()} {where} && "
            f"sudo chmod 700 {where}"
        )
    log.warning("other users could open %s (%04o); now only you can (0700)", directory, stat.S_IMODE(mode))


def _holds_files_of_others(directory: Path) -> bool:
    """Whether somebody else may have put a settings file there, or uses the directory as everybody uses /tmp."""
    with os.scandir(directory) as entries:
        return any(entry.stat(follow_symlinks=False).st_uid != os.geteuid() for entry in entries)


def write_private_file(path: Path, content: bytes) -> None:
    """A new file, synced. Raises OSError, also if it is there already."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(opened, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
