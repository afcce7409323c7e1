"""The lock of a state directory, for one gateway. It is the kernel's: it dies with its holder, however that dies."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from finclaw.errors import ConfigError, StateBusy
from finclaw.private_files import close_to_others, make_private_directory


class StateLock:
    """Held from construction until `release`. The file's text is a courtesy to readers, never a claim."""

    def __init__(self, state: Path) -> None:
        path = state / "lock"
        try:
            make_private_directory(state)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(
                f"cannot use the state directory {str(state)!r}: {error.strerror}; "
                "make it a writable directory or choose another with --state"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 64, 0).decode(errors="replace").strip()
            os.close(self._file)
            who = f" (process {holder})" if holder.isdigit() else ""
            raise StateBusy(
                f"another gateway or chat{who} already uses {str(state)!r}; stop it, or use another state directory"
            ) from None
        try:
            close_to_others(state)
        except ConfigError:
            self.release()
            raise
        self._sign()

    def _sign(self) -> None:
        with suppress(OSError):  # a full disk must not cost us the lock, which is held already
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "StateLock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
