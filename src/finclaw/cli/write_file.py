"""An atomic write of a private file: it is there as a whole or not at all, and never replaces another by accident."""

import os
from contextlib import suppress
from pathlib import Path

from finclaw.errors import ConfigError
from finclaw.private_files import write_private_file


def write_file(path: Path, content: bytes, *, force: bool) -> None:
    """Raises ConfigError if the file is there and `force` is not, and when it cannot be written."""
    if path.exists() and not path.is_file():  # a device would be replaced by a file
        raise ConfigError(f"{path} is no plain file; choose another place, or - for standard output")
    if path.exists() and not force:
        raise _explain_existing(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_private_file(aside, content)
        if force:
            os.replace(aside, path)
        else:
            _move_into_place(aside, path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; choose another place with --output FILE") from error
    finally:
        with suppress(OSError):
            aside.unlink()


def _move_into_place(aside: Path, path: Path) -> None:
    """A link fails if the name was taken meanwhile; not every file system has links."""
    try:
        os.link(aside, path)
    except FileExistsError:
        raise _explain_existing(path) from None
    except OSError:
        os.replace(aside, path)


def _explain_existing(path: Path) -> ConfigError:
    return ConfigError(f"{path} is there already; choose another name, or replace it with --force")
