"""`finclaw backup`: everything that a state holds in one file, also while the gateway runs."""

import shutil
from argparse import ArgumentParser, Namespace
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw

from finclaw import __version__
from finclaw.cli.archive import FORMAT, Manifest, check_databases, entry_of, is_allowed, write_archive
from finclaw.cli.arguments import add_json_option, add_state_options, settings_to_look
from finclaw.cli.attach import LONG, attach
from finclaw.cli.formatting import print_result
from finclaw.config.load import FILE_NAME as SETTINGS
from finclaw.config.schema import Settings
from finclaw.errors import SessionError
from finclaw.kernel.extension import EXTENSIONS
from finclaw.storage.sqlite.database import DATABASE, copy_database
from finclaw.web.token import FILE_NAME as TOKEN
from finclaw.web.view import BackupView


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("file", metavar="FILE", help="the archive to write; only you can read it")
    parser.add_argument("--with-token", action="store_true", help="with the API's token, which opens the gateway")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    add_json_option(parser)


def run(args: Namespace) -> None:
    settings = settings_to_look(args)
    target = Path(args.file)
    with attach(settings) as client:
        if client.is_empty:
            raise SessionError("there is nothing to back up: nothing was ever stored here")
        copy = settings.state / client.call("POST", "/api/v1/backup", BackupView, b"{}", timeout=LONG).directory
        try:
            _copy_rest(settings, copy, args.config or settings.state / SETTINGS, with_token=args.with_token)
            manifest = _manifest(settings, copy)
            write_archive(copy, manifest, target, force=args.force)
            _report(args, target, manifest)
            check_databases(copy, manifest)
        finally:
            shutil.rmtree(copy, ignore_errors=True)


def _report(args: Namespace, target: Path, manifest: Manifest) -> None:
    size = sum(entry.size for entry in manifest.files.values())
    lines = (
        f"{target}: {len(manifest.files)} files, {size:,} bytes, read back and compared",
        "it has the token; keep it as you keep that" if args.with_token else "without the token",
        f"put it back with:  finclaw restore {target}",
    )
    print_result(args, {"file": str(target), "files": len(manifest.files), "bytes": size}, lines)


def _copy_rest(settings: Settings, copy: Path, config: Path, *, with_token: bool) -> None:
    """What is not the store's: extensions' databases, skills, instruments, the settings file and perhaps the token."""
    for path in sorted((settings.state / EXTENSIONS).glob("*.db")):
        (copy / EXTENSIONS).mkdir(mode=0o700, exist_ok=True)
        copy_database(path, copy / EXTENSIONS / path.name)
    for name in ("skills", "instruments"):
        if (settings.state / name).is_dir():
            shutil.copytree(settings.state / name, copy / name, symlinks=True)
    if config.is_file():
        shutil.copyfile(config, copy / SETTINGS)
    if with_token and (settings.state / TOKEN).is_file():
        shutil.copyfile(settings.state / TOKEN, copy / TOKEN)


def _manifest(settings: Settings, copy: Path) -> Manifest:
    paths = (path for path in sorted(copy.rglob("*")) if path.is_file() and not path.is_symlink())
    names = {str(path.relative_to(copy)): path for path in paths}
    with closing(apsw.Connection(str(copy / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        schema = int(db.pragma("user_version"))
    files = {name: entry_of(path) for name, path in names.items() if is_allowed(name)}
    kind = settings.storage.kind
    now = datetime.now(UTC)
    return Manifest(format=FORMAT, finclaw=__version__, created_at=now, kind=kind, schema=schema, files=files)
