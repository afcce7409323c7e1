"""Copies of the store inside the state directory, from which a backup is made."""

import secrets
import shutil
from pathlib import Path
from typing import Final

from finclaw.kernel.store_port import Store

PREFIX: Final = ".backup-"
"""The prefix of the directories that hold a copy until it has become an archive."""


async def copy_for_backup(store: Store, state: Path) -> str:
    """Copy the store into a new directory inside the state, and return the directory's name."""
    remove_backup_copies(state)
    directory = state / f"{PREFIX}{secrets.token_hex(4)}"
    directory.mkdir(mode=0o700)
    try:
        await store.copy_into(directory)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return directory.name


def remove_backup_copies(state: Path) -> None:
    """Remove the copies of backups that were cut off."""
    for directory in state.glob(f"{PREFIX}*"):
        shutil.rmtree(directory, ignore_errors=True)
