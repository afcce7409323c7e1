"""A backup's archive: a plain tar of regular files, and a manifest with the size and SHA-256 of each.

An archive is anybody's file. Nothing in it is believed before it was compared with the manifest, and no name in it
reaches the file system unless it is one that a backup writes.
"""

import hashlib
import os
import re
import shlex
import tarfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Final, cast

import apsw
import msgspec
from msgspec import Meta, Struct

from finclaw.builtins.mcp import pins
from finclaw.builtins.memory import notes
from finclaw.errors import ConfigError, FinclawError
from finclaw.finance import live_market, watchlist
from finclaw.finance.instruments import choices
from finclaw.private_files import make_private_directory, new_private_file
from finclaw.storage.kinds import StoreKind
from finclaw.storage.sqlite.database import DATABASE, check
from finclaw.storage.sqlite.schema import MIGRATIONS

MANIFEST: Final = "MANIFEST.json"
FORMAT: Final = 1
_LARGEST_MANIFEST: Final = 64 * 1_048_576
_DEEPEST: Final = 12
_PIECE: Final = 1_048_576
_TOP: Final = re.compile(
    r"finclaw\.db|finclaw\.yaml|token|extensions/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\.db|blobs/[0-9a-f]{64}"
    r"|instruments/(?:imported|refreshed)\.tsv"
)
_PART: Final = re.compile(r"[^/\\\x00-\x1f\x7f]{1,255}")


class BadArchive(FinclawError):
    """The file is no backup, or is not as it was written."""


class ArchiveEntry(Struct, frozen=True):
    size: Annotated[int, Meta(ge=0)]
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    format: int
    finclaw: str
    created_at: datetime
    kind: StoreKind
    schema: int  # of the database
    files: dict[str, ArchiveEntry]


def entry_of(path: Path) -> ArchiveEntry:
    with path.open("rb") as file:
        return ArchiveEntry(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def is_allowed(name: str) -> bool:
    """Whether a backup writes files of this name. No way leads out of the directory."""
    if _TOP.fullmatch(name):
        return True
    top, *parts = name.split("/")
    inside = all(_PART.fullmatch(part) and part not in (".", "..") for part in parts)
    return top in ("sessions", "skills") and 1 <= len(parts) <= _DEEPEST and inside


def write_archive(source: Path, manifest: Manifest, target: Path, *, force: bool) -> None:
    """Beside the target first, synced and read back; then under its name. Raises ConfigError or BadArchive."""
    if target.is_dir():
        raise ConfigError(f"{target} is a directory; give the name of a file")
    if target.exists() and not force:
        raise ConfigError(f"{target} is there already; choose another name, or replace it with --force")
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        (source / MANIFEST).write_bytes(msgspec.json.encode(manifest))
        with new_private_file(aside) as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name in (MANIFEST, *sorted(manifest.files)):
                tar.add(source / name, name, recursive=False, filter=_reset_owner)
        with open_archive(aside) as archive:
            if archive.manifest != manifest:
                raise BadArchive(f"{target} could not be read back as it was written; check the disk")
            archive.read_files()
        os.replace(aside, target)
        sync_directory(target.parent)
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error.strerror}; choose another place") from error
    finally:
        with suppress(OSError):
            aside.unlink()


def _reset_owner(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o600
    return info


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Archive:
    """An open archive. All raise BadArchive for what is not as the manifest says."""

    def __init__(self, tar: tarfile.TarFile, path: Path) -> None:
        self._tar = tar
        self._path = path
        self.manifest = self._read_manifest()

    def _read_manifest(self) -> Manifest:
        first = next(self._members(), None)
        if first is None or first.name != MANIFEST or not _is_plain(first) or first.size > _LARGEST_MANIFEST:
            raise self._bad(f"it does not begin with {MANIFEST}")
        try:
            manifest = msgspec.json.decode(self._content(first).read(), type=Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._bad(f"its {MANIFEST} cannot be read: {error}") from error
        if manifest.format != FORMAT:
            raise self._bad(f"it has format {manifest.format}, and this FinClaw reads {FORMAT}; install a newer one")
        if wrong := next((name for name in manifest.files if not is_allowed(name)), None):
            raise self._bad(f"it wants to write {wrong!r}, which no backup does")
        if "finclaw.db" not in manifest.files:
            raise self._bad("it holds no database")
        return manifest

    def extract(self, target: Path) -> None:
        """Every file, synced, in a directory that is empty."""
        self.read_files(target)
        for directory in (target, *(path for path in target.rglob("*") if path.is_dir())):
            sync_directory(directory)

    def read_files(self, target: Path | None = None) -> None:
        """Compare every file with the manifest; with a target, copy them there."""
        for member in self._check_members():
            if self._copy(member, target) != self.manifest.files[member.name].sha256:
                raise self._bad(f"{member.name!r} is not as it was written")

    def _check_members(self) -> list[tarfile.TarInfo]:
        """All files, compared with the manifest before the content of any of them is copied."""
        missing = dict(self.manifest.files)
        members: list[tarfile.TarInfo] = []
        for member in self._members():
            expected = missing.pop(member.name, None)
            if expected is None:
                raise self._bad(f"{member.name!r} is not in its {MANIFEST}, or is there twice")
            if not _is_plain(member) or member.size != expected.size:
                raise self._bad(f"{member.name!r} is no plain file of {expected.size} bytes")
            members.append(member)
        if missing:
            raise self._bad(f"{next(iter(missing))!r} is missing")
        return members

    def _members(self) -> Iterator[tarfile.TarInfo]:
        try:
            yield from iter(self._tar.next, None)
        except (ValueError, ArithmeticError) as error:  # a header with numbers that are none
            raise self._bad(f"a header in it cannot be read: {error}") from error

    def _copy(self, member: tarfile.TarInfo, target: Path | None) -> str:
        content = self._content(member)
        if target is None:
            return hashlib.file_digest(content, "sha256").hexdigest()
        path = target / member.name
        make_private_directory(path.parent)
        digest = hashlib.sha256()
        with new_private_file(path) as file:
            while piece := content.read(_PIECE):
                digest.update(piece)
                file.write(piece)
        return digest.hexdigest()

    def _content(self, member: tarfile.TarInfo) -> BufferedReader:
        content = self._tar.extractfile(member)
        if content is None:
            raise self._bad(f"{member.name!r} is no plain file")
        return cast("BufferedReader", content)

    def _bad(self, why: str) -> BadArchive:
        return BadArchive(f"{self._path} is no sound backup: {why}; nothing was changed")


def _is_plain(member: tarfile.TarInfo) -> bool:
    return member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()


@contextmanager
def open_archive(path: Path) -> Generator[Archive]:
    """Raises BadArchive, also for a file that is cut off, and ConfigError for one that cannot be read."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; give a file of `finclaw backup`") from error
    with file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                yield Archive(tar, path)
        except tarfile.TarError as error:
            raise BadArchive(f"{path} is no sound backup: {error}; nothing was changed") from error


EXTENSIONS: Final = {
    "finance": live_market.MIGRATIONS,
    "instruments": choices.MIGRATIONS,
    "mcp": pins.MIGRATIONS,
    "memory": notes.MIGRATIONS,
    "watching": watchlist.MIGRATIONS,
}
_OBJECTS: Final = (
    "SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_master "
    "WHERE NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4'))"
)


def check_databases(fresh: Path, manifest: Manifest) -> None:
    """The databases themselves, and not what the manifest says about them."""
    for path in (fresh / DATABASE, *sorted((fresh / "extensions").glob("*.db"))):
        try:
            with closing(open_unchanged(path)) as db:
                migrations = MIGRATIONS if path == fresh / DATABASE else EXTENSIONS.get(path.stem)
                _check_schema(db, str(path.relative_to(fresh)), migrations, manifest)
                check(db, path)
        except apsw.Error as error:
            raise BadArchive(f"{path.name} in it is damaged ({error}); nothing was changed") from error


def _check_schema(db: apsw.Connection, name: str, migrations: Sequence[str] | None, manifest: Manifest) -> None:
    """Compare what is in the database with what its migrations make: a trigger could grant every approval, and a view
    could hide one. An extension that is not ours may have both, since they reach nothing outside of its own file."""
    version = int(db.pragma("user_version"))
    if migrations is not None and version > len(migrations):
        raise ConfigError(
            f"the backup is of a newer FinClaw (version {manifest.finclaw}, schema {version} of {name}, this one knows "
            f"{len(migrations)}); install that version. Nothing was changed"
        )
    if version < 0 or (version == 0 and name == DATABASE):
        raise BadArchive(f"{name} in it has schema {version}, which no FinClaw writes; nothing was changed")
    if migrations is None:
        return
    with closing(apsw.Connection(":memory:")) as made:
        for migration in migrations[:version]:
            made.execute(migration)
        known = _schema_objects(made)
    differing = _schema_objects(db) ^ known
    if not differing:
        return
    kind, odd, _, sql = min(differing, key=lambda each: (not each[3], each))  # first those that can be dropped
    advice = "somebody may have changed it; make another backup"
    if sql and odd not in {each[1] for each in known}:
        drop = shlex.quote(f'DROP {kind.upper()} "{odd}"')
        advice = f"if you added it, run in the state directory: sqlite3 {name} {drop}; if not, {advice}"
    says = f"`finclaw restore` refuses {name}: the {kind} {odd!r} in it is not as this FinClaw makes it"
    raise BadArchive(f"{says}; {advice}")


def _schema_objects(db: apsw.Connection) -> set[tuple[str, ...]]:
    """Kind, name, table and SQL, without comments, of all but the tables of ANALYZE."""
    rows = db.execute(_OBJECTS)
    return {(*map(str, about), " ".join(re.sub("--[^\n]*", " ", str(sql)).split())) for *about, sql in rows}


def open_unchanged(path: Path) -> apsw.Connection:
    """A connection that leaves no file beside the database."""
    return apsw.Connection(f"{path.as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
