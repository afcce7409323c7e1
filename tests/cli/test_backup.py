"""`finclaw backup` and `finclaw restore`: one file for everything, and a state that is the old one or the new one.

User trial B5: there was no backup, and `cp finclaw.db` of a running gateway lost its last minutes, unnoticed.
"""

import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace
from tests.cli.gateway_process import serving
from tests.cli.in_process import typed
from tests.cli.kept_file import keep_file
from tests.cli.terminal import finclaw

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.cli import archive
from finclaw.cli.archive import MANIFEST, is_allowed
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.extensions.registration import NULL_SERVICES
from finclaw.fetch.fetchers import open_fetchers
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.storage.sqlite.schema import MIGRATIONS

QUESTION = "What is AAPL trading at?"


@pytest.fixture(params=["sqlite", "jsonl"], scope="module")
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    state = tmp_path_factory.mktemp("said")
    (state / "finclaw.yaml").write_text(f"storage: {{kind: {request.param}}}\nagent: {{extensions: [memory]}}\n")
    (state / "skills" / "tax").mkdir(parents=True)
    (state / "skills" / "tax" / "SKILL.md").write_text("---\nname: tax\n---\nAsk a person.\n")
    assert finclaw("ask", QUESTION, "--state", state).code == 0
    assert finclaw("init", "--state", state).code == 0
    return state


@pytest.fixture
def state(said: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(said, tmp_path / "state"))


def backed_up(state: Path, *more: str) -> Path:
    file = state.parent / "copy.tar"
    done = typed("backup", file, "--state", state, *more)
    assert (done.code, done.err) == (0, ""), done.err
    return file


def shown(state: Path) -> str:
    done = typed("sessions", "show", "main", "--state", state)
    assert done.code == 0, done.err
    return done.out


@pytest.mark.parametrize("running", [False, True], ids=["here", "gateway"])
def test_a_backup_has_the_files_that_messages_refer_to(state: Path, tmp_path: Path, running: bool) -> None:
    name = keep_file(state, "main:web:owner:direct:main+owner")
    (state / "blobs" / ("0" * 64)).write_bytes(b"nobody refers to it")
    with serving(state) if running else nullcontext():
        file = backed_up(state)
    with tarfile.open(file) as tar:
        assert [each for each in tar.getnames() if each.startswith("blobs/")] == [f"blobs/{name}"]
    other = tmp_path / "other"
    assert typed("restore", file, "--state", other).code == 0
    assert (other / "blobs" / name).read_bytes() == (state / "blobs" / name).read_bytes()
    assert typed("restore", file, "--state", state, "--yes").code == 0
    assert [path.name for path in (state / "blobs").iterdir()] == [name]


def test_a_backup_without_a_file_that_a_message_refers_to_is_refused(state: Path, tmp_path: Path) -> None:
    name = keep_file(state, "main:web:owner:direct:main+owner")
    file, poorer = backed_up(state), tmp_path / "poorer.tar"
    with tarfile.open(file) as tar, tarfile.open(poorer, "w") as target:
        for member in tar.getmembers():
            content = tar.extractfile(member)
            assert content is not None
            data = content.read()
            if member.name == MANIFEST:
                manifest = json.loads(data)
                del manifest["files"][f"blobs/{name}"]
                data = json.dumps(manifest).encode()
                member.size = len(data)
            if member.name != f"blobs/{name}":
                target.addfile(member, io.BytesIO(data))
    done = typed("restore", poorer, "--state", tmp_path / "other")
    assert done.code != 0
    assert f"{name[:12]}… that a message refers to is not in it" in done.err
    (state / "blobs" / name).unlink()
    failed = typed("backup", tmp_path / "another.tar", "--state", state)
    assert failed.code != 0
    assert f"blobs/{name} cannot be copied" in failed.err


@pytest.mark.parametrize("running", [False, True], ids=["here", "gateway"])
def test_a_backup_restores_to_the_same_conversations(state: Path, tmp_path: Path, running: bool) -> None:
    before = shown(state)
    with serving(state) if running else nullcontext():
        file = backed_up(state)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not list(state.glob(".backup-*"))
    with tarfile.open(file) as tar:
        names = tar.getnames()
    assert {"finclaw.db", "finclaw.yaml", "skills/tax/SKILL.md", MANIFEST} <= set(names)
    assert "token" not in names
    other = tmp_path / "other" / "place"
    done = typed("restore", file, "--state", other)
    assert (done.code, done.err) == (0, "")
    assert shown(other) == before
    assert (other / "skills" / "tax" / "SKILL.md").read_text() == (state / "skills" / "tax" / "SKILL.md").read_text()
    assert json.loads(typed("doctor", "--json", "--state", other).out)
    with serving(other):
        assert typed("ask", QUESTION, "--state", other).code == 0


def test_the_token_is_in_it_only_if_asked_for_and_stays_otherwise(state: Path, tmp_path: Path) -> None:
    token = (state / "token").read_text()
    file = backed_up(state, "--with-token")
    with tarfile.open(file) as tar:
        assert tar.extractfile("token").read().decode() == token  # pyright: ignore[reportOptionalMemberAccess]
    file = backed_up(state, "--force")
    (state / "token").write_text("x" * 43)
    assert typed("restore", file, "--state", state, "--yes").code == 0
    assert (state / "token").read_text() == "x" * 43


def test_a_restore_keeps_the_old_state_aside_and_names_it(state: Path) -> None:
    file = backed_up(state)
    assert typed("sessions", "reset", "main", "--state", state).code == 0
    assert typed("restore", file, "--state", state).code == 2, "a state that is there is not replaced without a yes"
    done = json.loads(typed("restore", file, "--state", state, "--yes", "--json").out)
    old = Path(done["old"])
    assert old.parent == state.parent
    assert (old / "finclaw.db").exists()
    assert QUESTION in shown(state)
    assert not [path for path in state.parent.iterdir() if ".restore-" in path.name]


def test_a_running_gateway_is_not_restored_over(state: Path) -> None:
    file = backed_up(state)
    with StateLock(state):
        done = typed("restore", file, "--state", state, "--yes")
    assert done.code == 1
    assert "already uses" in done.err


def test_a_newer_schema_is_refused_and_nothing_changes(state: Path) -> None:
    file = backed_up(state)
    newer = rebuilt(file, {"finclaw.db": newer_schema})
    before = shown(state)
    done = typed("restore", newer, "--state", state, "--yes")
    assert done.code == 2
    assert "newer FinClaw" in done.err
    assert shown(state) == before


def newer_schema(content: bytes) -> bytes:
    at = 60  # user_version in the header
    return content[:at] + (len(MIGRATIONS) + 1).to_bytes(4, "big") + content[at + 4 :]


def rebuilt(file: Path, changes: dict[str, Callable[[bytes], bytes]]) -> Path:
    """The same archive with some files changed, and a manifest that agrees."""
    with tarfile.open(file) as tar:
        contents = {name: tar.extractfile(name).read() for name in tar.getnames()}  # pyright: ignore
    manifest = json.loads(contents.pop(MANIFEST))
    for name, change in changes.items():
        contents[name] = change(contents.get(name, b""))
        digest = hashlib.sha256(contents[name]).hexdigest()
        manifest["files"][name] = {"size": len(contents[name]), "sha256": digest}
    target = file.with_name("changed.tar")
    with tarfile.open(target, "w") as tar:
        for name, content in {MANIFEST: json.dumps(manifest).encode(), **contents}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target


def refused(state: Path, file: Path) -> str:
    before = sorted((str(path), path.read_bytes()) for path in state.rglob("*") if path.is_file())
    done = typed("restore", file, "--state", state, "--yes")
    assert done.code != 0
    after = sorted((str(path), path.read_bytes()) for path in state.rglob("*") if path.is_file())
    assert [name for name, _ in after if not name.endswith("lock")] == [
        name for name, _ in before if not name.endswith("lock")
    ]
    assert not [path for path in state.parent.iterdir() if ".restore-" in path.name or "before-restore" in path.name]
    return done.err


@pytest.mark.parametrize(
    "name", ["../evil", "/tmp/evil", "skills/../../evil", "extensions/../finclaw.db", "gateway.json", "lock", "a\\b"]
)
def test_names_that_lead_elsewhere_are_refused(state: Path, name: str) -> None:
    assert not is_allowed(name)
    told = refused(state, rebuilt(backed_up(state), {name: lambda _: b"evil"}))
    assert "no backup does" in told
    assert not (state.parent / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_and_devices_are_refused(state: Path, kind: bytes) -> None:
    file = rebuilt(backed_up(state), {"skills/x": lambda _: b""})
    with tarfile.open(file) as tar:
        members = [(each, b"" if each.name == "skills/x" else tar.extractfile(each).read()) for each in tar]  # pyright: ignore
    with tarfile.open(file, "w") as tar:
        for member, content in members:
            if member.name == "skills/x":
                member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member, io.BytesIO(content))
    assert "no plain file" in refused(state, file)


def test_an_archive_that_is_cut_off_changed_or_none_is_refused(state: Path) -> None:
    file = backed_up(state)
    content = file.read_bytes()
    flipped = content.replace(QUESTION.encode(), b"What is MSFT trading at?")
    assert flipped != content
    for broken in (content[: len(content) // 2], content[:-20_000], flipped, b"", b"hello" * 1_000):
        file.write_bytes(broken)
        assert "no sound backup" in refused(state, file)
    assert "cannot read" in refused(state, file.with_name("nobody.tar"))


def test_a_damaged_database_in_a_whole_archive_is_refused(state: Path) -> None:
    file = rebuilt(backed_up(state), {"finclaw.db": lambda content: content[:4096] + os.urandom(len(content) - 4096)})
    assert "damaged" in refused(state, file)


def test_a_backup_never_replaces_a_file_by_accident_and_leaves_no_half_of_one(state: Path, tmp_path: Path) -> None:
    file = backed_up(state)
    assert typed("backup", file, "--state", state).code == 2
    assert typed("backup", tmp_path, "--state", state).code == 2
    assert typed("backup", tmp_path / "nowhere" / "x.tar", "--state", state).code == 2
    assert not list(state.glob(".backup-*"))
    assert typed("backup", file, "--state", tmp_path / "empty").code == 1


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_SPARSE, tarfile.REGTYPE], ids=["GNU", "PAX"])
def test_sparse_files_are_refused(state: Path, kind: bytes) -> None:
    """A few bytes of them may stand for terabytes."""
    file = rebuilt(backed_up(state), {"skills/x": lambda _: b"\0" * 4_096})
    with tarfile.open(file) as tar:
        members = [(each, tar.extractfile(each).read()) for each in tar]  # pyright: ignore
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in members:
            data = content
            if member.name == "skills/x":
                member.type, member.size, data = kind, 512, b"1\n0\n4096\n".ljust(512, b"\0")
                if kind == tarfile.REGTYPE:
                    realsize = {"major": "1", "minor": "0", "name": "skills/x", "realsize": "4096"}
                    member.pax_headers = {f"GNU.sparse.{name}": value for name, value in realsize.items()}
            tar.addfile(member, io.BytesIO(data))
    assert "no plain file" in refused(state, file) + refused(state.parent / "elsewhere", file)
    assert not (state.parent / "elsewhere").exists()


def with_sql(*statements: str) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content[:18] + b"\1\1" + content[20:] if content else b"")  # not in WAL mode
            file.flush()
            db = apsw.Connection(file.name)
            for statement in statements:
                db.execute(statement)
            db.close()
            return Path(file.name).read_bytes()

    return change


GRANT = (
    "CREATE TRIGGER mine AFTER INSERT ON approval BEGIN UPDATE approval SET state = 'granted' WHERE id = new.id; END"
)
IN_NOTES = "CREATE TRIGGER mine AFTER INSERT ON notes BEGIN DELETE FROM notes; END"
AS_STATISTICS = (
    "VALUES ('trigger', 'sqlite_stat1', 'approval', 0, "
    "'CREATE TRIGGER sqlite_stat1 AFTER INSERT ON approval BEGIN DELETE FROM approval; END')"
)
MESSAGE_ADDED = "CREATE TRIGGER message_added AFTER INSERT ON message BEGIN UPDATE approval SET state = 'granted'; END"


@pytest.mark.parametrize(
    ("name", "statements"),
    [
        ("finclaw.db", [GRANT]),
        ("finclaw.db", ["DROP TRIGGER message_added", MESSAGE_ADDED]),
        ("finclaw.db", ["DROP TRIGGER message_added"]),
        ("finclaw.db", ["CREATE VIEW mine AS SELECT * FROM approval"]),
        ("finclaw.db", ["CREATE TABLE mine (a)"]),
        ("finclaw.db", ["CREATE VIRTUAL TABLE mine USING fts5(a)"]),
        ("finclaw.db", ["DROP INDEX grant_of", "CREATE UNIQUE INDEX grant_of ON standing_grant (abs(requester))"]),
        ("finclaw.db", ["ALTER TABLE approval ADD COLUMN mine TEXT GENERATED ALWAYS AS ('granted')"]),
        ("finclaw.db", ["PRAGMA writable_schema = ON", f"INSERT INTO sqlite_master {AS_STATISTICS}"]),
        ("finclaw.db", ["PRAGMA user_version = -1"]),
        ("finclaw.db", ["PRAGMA user_version = -2147483648"]),
        ("finclaw.db", ["PRAGMA user_version = 0"]),
        ("finclaw.db", ["PRAGMA user_version = 1"]),
        ("extensions/memory.db", [IN_NOTES]),
        ("extensions/memory.db", ["PRAGMA user_version = -1"]),
        ("extensions/theirs.db", ["PRAGMA user_version = -1"]),
    ],
)
def test_database_with_a_schema_that_no_finclaw_makes_is_refused(state: Path, name: str, statements: list[str]) -> None:
    told = refused(state, rebuilt(backed_up(state), {name: with_sql(*statements)}))
    assert name in told
    assert "as this FinClaw makes it" in told or "which no FinClaw writes" in told


def test_databases_of_extensions_are_restored(state: Path, tmp_path: Path) -> None:
    own_search = ("CREATE VIRTUAL TABLE f USING fts5(b)", "CREATE VIEW v AS SELECT 1", "PRAGMA user_version = 7")
    trigger = "CREATE TRIGGER c AFTER INSERT ON a BEGIN INSERT INTO f VALUES (new.b); END"
    theirs = with_sql("CREATE TABLE a (b UNIQUE)", *own_search, trigger, "INSERT INTO a VALUES ('x')")
    file = rebuilt(backed_up(state), {"extensions/theirs.db": theirs, "finclaw.db": with_sql("ANALYZE")})
    assert (state / "extensions" / "memory.db").exists()
    assert typed("restore", file, "--state", tmp_path / "other").code == 0


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("INDEX", "ON message (id)"),
        ("TABLE", "(a UNIQUE)"),
        ("VIRTUAL TABLE", "USING fts5(a)"),
        ("VIEW", "AS SELECT 1"),
    ],
)
def test_backup_that_restore_refuses_is_reported(state: Path, tmp_path: Path, kind: str, body: str) -> None:
    with closing(apsw.Connection(str(state / "finclaw.db"))) as db:
        db.execute(f'CREATE {kind} "my_own" {body}')
    file, drop = tmp_path / "copy.tar", f'DROP {kind.removeprefix("VIRTUAL ")} "my_own"'
    told = typed("backup", file, "--state", state)
    assert told.code == 1
    assert f"run in the state directory: sqlite3 finclaw.db '{drop}'" in told.err
    assert "is not as this FinClaw makes it" in refused(state, file)
    with closing(apsw.Connection(str(state / "finclaw.db"))) as db:
        db.execute(drop)
    assert typed("restore", backed_up(state, "--force"), "--state", state, "--yes").code == 0


def test_databases_of_all_built_in_extensions_are_known(tmp_path: Path) -> None:
    opened = dict[str, Sequence[str]]()

    def note(name: str, migrations: Sequence[str]) -> ExtensionDatabase:
        opened[name] = migrations
        return ExtensionDatabase(tmp_path, name, migrations)

    agent = AgentSettings(extensions=("memory", ExtensionRef("mcp", {"servers": {}})))
    services = replace(NULL_SERVICES, database=note, fetcher=open_fetchers())
    load_registrar(Settings(state=tmp_path, market="live", agent=agent), services)
    assert opened == archive.EXTENSIONS


@pytest.mark.parametrize("depth", [2_000, 1_000_000])
def test_deeply_nested_manifest_is_refused(state: Path, depth: int) -> None:
    manifest = b'{"deep":' + b"[" * depth
    file = state.parent / "deep.tar"
    with tarfile.open(file, "w") as tar:
        info = tarfile.TarInfo(MANIFEST)
        info.size = len(manifest)
        tar.addfile(info, io.BytesIO(manifest))
    assert "no sound backup" in refused(state, file)


def test_token_that_is_there_is_kept_and_that_is_said(state: Path, tmp_path: Path) -> None:
    mine = (state / "token").read_text()
    file = backed_up(state, "--with-token")
    assert "token in it is none" in refused(state, rebuilt(file, {"token": lambda _: b"short"}))
    foreign = rebuilt(file, {"token": lambda _: b"f" * 43})
    done = typed("restore", foreign, "--state", state, "--yes")
    assert (done.code, (state / "token").read_text()) == (0, mine)
    assert "the token that was here is kept" in done.out
    assert "the token is that of the backup" in typed("restore", foreign, "--state", tmp_path / "other").out
    assert (tmp_path / "other" / "token").read_text() == "f" * 43


# ── doctor ──────────────────────────────────────────────────────────────────────────────────────────────────


def database_finding(state: Path) -> dict[str, str]:
    found = json.loads(typed("doctor", "--json", "--state", state).out)["findings"]
    return next(each for each in found if each["check"] == "database")


def test_doctor_tells_a_copy_without_its_journal_from_a_sound_database(state: Path, tmp_path: Path) -> None:
    """`cp finclaw.db` of a running gateway."""
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o700)
    with serving(state):
        assert typed("ask", QUESTION, "--session", "late", "--state", state).code == 0
        shutil.copyfile(state / "finclaw.db", copy / "finclaw.db")
        assert database_finding(state)["level"] == "ok"
    found = database_finding(copy)
    assert found["level"] == "bad"
    assert "journal" in found["says"]
    assert "finclaw backup" in found["advice"]
    assert database_finding(state)["level"] == "ok", "stopped in good order"
    shutil.copytree(state, tmp_path / "whole")
    assert database_finding(tmp_path / "whole")["level"] == "ok"
    typed("status", "--state", copy)
    assert database_finding(copy)["level"] == "bad", "looking at it does not make it whole"


def test_doctor_calls_what_a_crash_leaves_sound(state: Path) -> None:
    """The journal stands beside the database then; a look through another command does not take it away."""
    db = apsw.Connection(str(state / "finclaw.db"))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.execute("UPDATE meta SET value = 1 WHERE key = 'open'")
    db.close()
    assert (state / "finclaw.db-wal").exists()
    assert database_finding(state)["level"] == "ok"
    assert typed("status", "--state", state).code == 0
    assert database_finding(state)["level"] == "ok"
