"""The bearer token, kept in the state directory where only its owner can read it."""

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from finclaw.errors import ConfigError
from finclaw.private_files import write_private_file
from finclaw.redaction import Secret

log = logging.getLogger(__name__)

FILE_NAME = "token"


def obtain_token(state: Path) -> tuple[Secret, bool]:
    """The token, and whether it was made just now."""
    if (token := read_token(state)) is not None:
        return token, False
    _make(state / FILE_NAME)
    token = read_token(state)
    if token is None:
        raise ConfigError(f"{state / FILE_NAME} was removed while the gateway started; start it again")
    return token, True


def read_token(state: Path) -> Secret | None:
    """None if there is none yet. Raises ConfigError when others can read it or it holds no token."""
    path = state / FILE_NAME
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read the token in {path}: {error.strerror}; it must be a plain file") from error
    try:
        text = _read(opened, path)
    finally:
        os.close(opened)
    if not re.fullmatch(r"[A-Za-z0-9_-]{32,}", text):
        raise ConfigError(f"{path} does not hold a token; remove it and start again: a new one is made")
    return Secret(text)


class TokenOnDisk(Secret):
    """The token as its file holds it at this moment: one that was replaced is good for nothing from then on. While
    the file holds none that we would take, nobody is let in."""

    __slots__ = ("_state",)

    def __init__(self, state: Path) -> None:
        super().__init__("")
        self._state: Final = state

    def reveal(self) -> str:
        try:
            token = read_token(self._state)
            if token is not None:
                return token.reveal()
        except ConfigError as error:
            log.warning("%s; until then nobody is let in", error)
        return secrets.token_urlsafe(32)


def _read(opened: int, path: Path) -> str:
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{path} must be a plain file; remove it and start again: a new token is made")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"other users of this machine can open {path}; run: chmod 600 {path}")
    return os.read(opened, 1_024).decode("ascii", "replace").strip()


def prove(token: Secret, challenge: str, port: int) -> str:
    """Shows that we know the token without telling it, so that a client can ask before it sends its own. The port is
    part of the proof: a stranger's server could otherwise pass on what ours answers elsewhere."""
    return hmac.new(token.reveal().encode(), f"finclaw:{port}:{challenge}".encode(), hashlib.sha256).hexdigest()


def _make(path: Path) -> None:
    """Written aside and linked into place: the file is never there half, and never replaces another."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        write_private_file(aside, f"{secrets.token_urlsafe(32)}\n".encode())
        with suppress(FileExistsError):  # somebody was faster; theirs is as good
            os.link(aside, path)
    finally:
        aside.unlink(missing_ok=True)
