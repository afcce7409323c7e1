"""What is done to a state as a whole: erasing parts of it, and copying it for a backup."""

from pathlib import Path
from typing import Final, Protocol

from finclaw.kernel.erasure import ErasureDoor, ErasureStore

BACKUP_PREFIX: Final = ".backup-"
"""Of the directories, in the state directory, in which a copy is made before it becomes an archive."""


class BackupStore(Protocol):
    async def copy_into(self, directory: Path) -> None:
        """Copy the database and all conversations, as they are at one instant, into a directory that is there.

        Whoever writes meanwhile goes on. Raises StoreFailed.
        """
        ...


class BackupDoor(Protocol):
    async def prepare_backup(self) -> str:
        """Make such a copy in the state directory; gives its name there. The caller removes it."""
        ...


class UpkeepStore(ErasureStore, BackupStore, Protocol):
    pass


class UpkeepDoor(ErasureDoor, BackupDoor, Protocol):
    pass
