"""The doctor finds what is wrong, says what to do, and leaves no trace."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest
from tests.cli.gateway_process import serving
from tests.cli.terminal import clean_environment, finclaw, reserved_port

from finclaw.cli.doctor import DoctorFinding
from finclaw.cli.doctor.machine import judge_clock, judge_terminal
from finclaw.cli.doctor.state import checks, holder, judge_directory, judge_kind
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE

QUESTION = "What is AAPL trading at?"


def doctor(state: Path, **environ: str) -> tuple[int, dict[str, DoctorFinding]]:
    """The exit code, and the findings by name; of several of one name the last."""
    with reserved_port() as port:
        environ = {"FINCLAW_WEB__PORT": str(port)} | environ
        ended = finclaw("doctor", "--json", "--state", state, cwd=None, **environ)
    told = json.loads(ended.out)
    assert told["healthy"] == (ended.code == 0)
    assert ended.err == ""
    return ended.code, {each["check"]: DoctorFinding(**each) for each in told["findings"]}


def test_a_variable_that_one_server_of_an_extension_lacks_hides_no_other_finding(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text(
        "agent: {extensions: [{use: mcp, settings: {servers: {desk: {command: [python3], env: {K: env:NOT_SET}}}}}]}\n"
    )
    code, found = doctor(tmp_path)
    assert (code, found["settings"].level) == (1, "bad")
    assert found["settings"].says.endswith(
        "desk.env.K refers to the environment variable NOT_SET, which is not set; set it"
    )
    assert found["mcp"].level in ("ok", "bad"), "the extension was asked as well"


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    files: dict[str, tuple[int, int, bytes]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        about = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        files[str(path)] = (about.st_mode, about.st_mtime_ns, content)
    return files


def test_before_there_is_anything(tmp_path: Path) -> None:
    code, found = doctor(tmp_path / "a" / "b")
    assert (code, {each.level for each in found.values()} - {"warn"}) == (0, {"ok"})
    assert "finclaw init" in found["state"].line
    assert list(tmp_path.iterdir()) == []


def test_in_words(tmp_path: Path) -> None:
    ended = finclaw("doctor", "--state", tmp_path, FINCLAW_WEB__PORT="0")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert all(line.startswith(("ok ", "warn ")) for line in lines[:-1])
    assert "\x1b" not in ended.out
    assert lines[-1].startswith(("all ", "nothing is bad"))


def test_a_state_at_rest_is_left_as_it_was(tmp_path: Path) -> None:
    assert finclaw("ask", QUESTION, "--state", tmp_path).code == 0
    before = snapshot(tmp_path)
    code, found = doctor(tmp_path)
    assert (code, found["database"].level) == (0, "ok")
    assert "sound" in found["database"].says
    assert snapshot(tmp_path) == before


def test_after_a_crash_the_journal_is_read_and_left_alone(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway:
        assert finclaw("ask", QUESTION, "--state", tmp_path).code == 0
        gateway.stop(signal.SIGKILL)
    assert (tmp_path / "finclaw.db-wal").stat().st_size > 0
    before = snapshot(tmp_path)
    code, found = doctor(tmp_path)
    assert (code, found["database"].level) == (0, "ok")
    assert "did not end by itself" in found["gateway"].line
    assert snapshot(tmp_path) == before


def test_beside_a_running_gateway(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway:
        code, found = doctor(tmp_path)
        assert code == 0
        assert str(gateway.process.pid) in found["lock"].says
        assert gateway.url in found["gateway"].says
        assert found["database"].says.startswith("sound")
        assert found["port"].level == "ok"
        assert finclaw("ask", QUESTION, "--state", tmp_path).code == 0
        assert gateway.stop()[0] == 0


def test_a_state_that_is_held_by_no_gateway(tmp_path: Path) -> None:
    with StateLock(tmp_path):
        assert holder(tmp_path) == str(os.getpid())
        _, found = doctor(tmp_path)
        assert found["lock"].level == "warn"
    assert holder(tmp_path) is None


def test_a_damaged_database(tmp_path: Path) -> None:
    assert finclaw("ask", QUESTION, "--state", tmp_path).code == 0
    with (tmp_path / DATABASE).open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 20_000)
    code, found = doctor(tmp_path)
    assert (code, found["database"].level) == (1, "bad")
    (tmp_path / DATABASE).write_bytes(b"this is no database" * 1_000)
    code, found = doctor(tmp_path)
    assert code == 1
    assert "is damaged" in found["database"].says


def test_a_database_of_tomorrow(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / DATABASE))
    db.execute("PRAGMA user_version = 99")
    db.close()
    code, found = doctor(tmp_path)
    assert code == 1
    assert "newer FinClaw" in found["database"].says


def test_who_may_look_and_write(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * 43)
    (tmp_path / "token").chmod(0o644)
    tmp_path.chmod(0o755)
    code, found = doctor(tmp_path)
    assert (code, found["state"].level, found["token"].level) == (1, "warn", "bad")
    assert "chmod 700" in found["state"].advice
    assert "chmod 600" in found["token"].line
    tmp_path.chmod(0o777)
    assert doctor(tmp_path)[1]["state"].level == "bad"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_state_of_somebody_else(tmp_path: Path) -> None:
    os.chown(tmp_path, 65_534, -1)
    code, found = doctor(tmp_path)
    assert code == 1
    assert "belongs to nobody" in found["state"].says


def test_a_state_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for state in (tmp_path / "file", tmp_path / "file" / "below"):
        code, found = doctor(state)
        assert (code, found["state"].level) == (1, "bad")
        assert "--state DIR" in found["state"].line


def test_bad_settings_are_each_told(tmp_path: Path) -> None:
    (tmp_path / "finclaw.yaml").write_text("web:\n  prot: 1\nlog: {level: loud}\n")
    ended = finclaw("doctor", "--state", tmp_path)
    assert ended.code == 1
    assert "did you mean web.port?" in ended.out
    assert "log.level must be one of" in ended.out
    assert "disk speed" in ended.out  # it goes on


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, found = doctor(tmp_path, FINCLAW_WEB__PORT=str(taken.getsockname()[1]))
    assert (code, found["port"].level) == (1, "bad")
    assert "in use by another program" in found["port"].says


def test_no_time_zones_and_no_korean(tmp_path: Path) -> None:
    (tmp_path / "tzdata.py").touch()  # hides the package of that name
    hidden = {"PYTHONTZPATH": "", "PYTHONPATH": str(tmp_path)}
    code, found = doctor(tmp_path / "state", **hidden, PYTHONIOENCODING="ascii")
    assert (code, found["time zones"].level, found["terminal"].level) == (1, "bad", "warn")
    assert "tzdata" in found["time zones"].advice


def test_a_package_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "aiohttp.py").write_text("raise ImportError('broken')")
    code, found = doctor(tmp_path / "state", PYTHONPATH=str(tmp_path))
    assert code == 1
    assert "aiohttp cannot be loaded (broken)" in found["packages"].says


def test_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "finclaw", "doctor", "--json", "--state", str(tmp_path)],
        capture_output=True,
        check=False,
        timeout=60,
        env=clean_environment() | {"FINCLAW_WEB__PORT": "0"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert done.returncode == 1
    assert b"cannot write in" in done.stdout


def test_kinds_of_disk() -> None:
    assert judge_kind(Path("/s"), "ext4").level == "ok"
    assert judge_kind(Path("/s"), "").level == "ok"
    assert judge_kind(Path("/s"), "nfs4").level == judge_kind(Path("/s"), "fuse.sshfs").level == "warn"
    assert "power cut" in judge_kind(Path("/s"), "tmpfs").advice


def test_clocks() -> None:
    today = datetime(2026, 11, 15, tzinfo=UTC)
    assert judge_clock(today, 1.0, 1.0).level == "ok"
    assert judge_clock(today.replace(year=1970), 1.0, 2.0).level == "bad"
    assert judge_clock(today, 2.0, 1.0).level == "bad"


def test_terminals() -> None:
    assert judge_terminal("utf-8").level == judge_terminal("euc-kr").level == "ok"
    assert judge_terminal("latin-1").level == judge_terminal("no-such").level == "warn"


def test_a_database_that_others_can_read_is_remarked_where_they_can_get_at_it(tmp_path: Path) -> None:
    """User trial C."""
    database = tmp_path / "finclaw.db"
    database.write_bytes(b"")
    database.chmod(0o644)
    tmp_path.chmod(0o755)
    found = [each for each in checks(tmp_path) if "other users can read what people wrote" in each.says]
    assert [each.advice for each in found] == [f"run: chmod 600 {database}"]
    tmp_path.chmod(0o700)
    assert all("can read" not in each.says for each in checks(tmp_path))


def test_a_file_system_that_is_read_only_is_not_a_matter_of_rights(tmp_path: Path) -> None:
    """User trial C: it advised `chmod 700`."""
    found = judge_directory(tmp_path, os.geteuid(), 0o700, read_only=True)
    assert (found.level, "is read-only" in found.says, "chmod" in found.line) == ("bad", True, False)
    assert judge_directory(tmp_path, os.geteuid(), 0o700, read_only=False).level == "ok"
