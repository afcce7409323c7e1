"""`finclaw restore`: put a backup in the place of a state. The old state stays beside it.

The new state is complete and synced before the names of the two directories are exchanged, in one step where the
system can do that: after a crash the directory is the old state or the new one.
"""

import ctypes
import errno
import os
import shutil
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from finclaw.cli.archive import BadArchive, Manifest, check_databases, open_archive, open_unchanged, sync_directory
from finclaw.cli.arguments import add_json_option, add_state_options
from finclaw.cli.commands.forget import ask_to_go_on, needs_confirmation
from finclaw.cli.formatting import print_result
from finclaw.config.load import state_directory
from finclaw.errors import ConfigError, StateBusy
from finclaw.private_files import make_private_directory, write_private_file
from finclaw.storage.blobs.directory import BLOBS
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE
from finclaw.web.token import FILE_NAME as TOKEN
from finclaw.web.token import read_token

_EXCHANGE: Final = 2
_HERE: Final = -100
_LOCK: Final = "lock"


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("file", metavar="FILE", help="what `finclaw backup` wrote")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_json_option(parser)


def run(args: Namespace) -> None:
    state = state_directory(args.state, os.environ)
    refusal = f"{state} holds a state already, which would be put aside; say --yes"
    if (state / DATABASE).exists() and needs_confirmation(args, refusal):
        print(f"{state} holds a state already. It will be kept beside the restored one.")
        if not ask_to_go_on():
            raise ConfigError("nothing was changed")
    try:
        with open_archive(Path(args.file)) as archive, ExitStack() as locked:
            manifest = archive.manifest
            fresh = state.with_name(f".{state.name}.restore-{os.getpid()}")
            try:
                if state.exists():
                    locked.enter_context(StateLock(state))
                make_private_directory(fresh)
                archive.extract(fresh)
                check_databases(fresh, manifest)
                _check_blobs(fresh, manifest)
                token = _choose_token(state, fresh)
                if not state.exists():  # one that is refused leaves nothing there
                    locked.enter_context(StateLock(state))
                old = _exchange(state, fresh)
            except OSError as error:
                raise _explain_error(state, error) from error
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
    except StateBusy as error:
        raise StateBusy(f"{error}; a restore needs the state for itself") from error
    _report(args, state, old, manifest, token)


def _check_blobs(fresh: Path, manifest: Manifest) -> None:
    """Every file that the database refers to, under its own digest."""
    with closing(open_unchanged(fresh / DATABASE)) as db:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'blob'").fetchone() is None:
            return
        names = {str(name) for (name,) in db.execute("SELECT sha256 FROM blob")}
    for name in names:
        entry = manifest.files.get(f"{BLOBS}/{name}")
        if entry is None or entry.sha256 != name:
            raise BadArchive(f"the file {name[:12]}… that a message refers to is not in it; nothing was changed")


def _choose_token(state: Path, fresh: Path) -> str:
    """Keep the current token, since the backup's may be known to others. Return a note for the report."""
    try:
        theirs = read_token(fresh)
    except ConfigError as error:
        raise BadArchive("the token in it is none that FinClaw makes; nothing was changed") from error
    if not (state / TOKEN).is_file():
        return "" if theirs is None else "the token is that of the backup: who has it, can use this gateway"
    (fresh / TOKEN).unlink(missing_ok=True)
    write_private_file(fresh / TOKEN, (state / TOKEN).read_bytes())
    sync_directory(fresh)
    if theirs is None or theirs == read_token(fresh):
        return ""
    return "the token that was here is kept; the backup has another, which counts only where there is none"


def _exchange(state: Path, fresh: Path) -> Path | None:
    """Gives the place of the old state; None if there was none worth keeping."""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    old = state.with_name(f"{state.name}.before-restore-{stamp}")
    if old.exists():
        raise ConfigError(f"{old} is there already; try again in a second")
    if _swap(state, fresh):
        fresh.rename(old)
    else:
        state.rename(old)
        fresh.rename(state)
    sync_directory(state.parent)
    if {path.name for path in old.iterdir()} <= {_LOCK}:
        shutil.rmtree(old)
        return None
    return old


def _swap(one: Path, other: Path) -> bool:
    """Exchange two names in one step. False where the system has no such call."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(code, os.strerror(code))


def _explain_error(state: Path, error: OSError) -> ConfigError:
    if error.errno == errno.EBUSY:
        advice = "restore into a directory inside it, with --state DIR, and use that. Nothing was changed"
        return ConfigError(f"{state} is a mount point, which cannot change its place; {advice}")
    return ConfigError(f"cannot restore into {state}: {error.strerror}; the state there is as it was")


def _report(args: Namespace, state: Path, old: Path | None, manifest: Manifest, token: str) -> None:
    report: dict[str, object] = {"state": str(state), "old": old and str(old), "created_at": manifest.created_at}
    lines = [f"{state} is as it was at {manifest.created_at:%Y-%m-%d %H:%M:%S} UTC ({len(manifest.files)} files)"]
    if old is not None:
        lines.append(f"the state before is kept in {old}; remove it when you do not need it any more")
    if token:
        report["token"] = token
        lines.append(token)
    lines.append(
        "start the gateway: it answers the messages that were unanswered then; what was done since is not in it"
    )
    print_result(args, report, lines)
