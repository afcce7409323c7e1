"""Every way to get it wrong ends in one line that names the thing and says what to do."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from tests.cli.gateway_process import serving
from tests.cli.terminal import Ended, clean_environment, finclaw

from finclaw.cli.parser import build_parser
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE

QUESTION = "What is AAPL trading at?"
NO_TEXT = os.fsdecode(b"\xff\xfe")
COMMANDS = [name for name in build_parser().commands if name != "chat"]


def says(ended: Ended, *parts: str) -> None:
    line = ended.line()
    assert ended.code in (1, 2), ended.code
    assert "Traceback" not in line
    assert "Errno" not in line
    for part in parts:
        assert part in line, line


# ── what is typed ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["servee"], ["'servee' is no command", "did you mean serve?"]),
        (["zzz"], ["'zzz' is no command", "serve", "ask", "doctor"]),
        ([NO_TEXT], ["is no command"]),
        (["--prot"], ["unknown argument --prot", "finclaw --help"]),
        (["serve", "--prot", "1"], ["unknown argument --prot; did you mean --port?", "finclaw serve --help"]),
        (["status", "now"], ["unknown argument now", "finclaw status --help"]),
        (["serve", "--port"], ["--port: expected one argument", "finclaw serve --help"]),
        (["serve", "--port", "http"], ["--port", "'http' is not a port; give a number from 0 to 65535"]),
        (["serve", "--port", "70000"], ["'70000' is not a port"]),
        (["serve", "--demo", "--live"], ["--live: not allowed with argument --demo"]),
        (["serve", "--state", ""], ["--state", "the path is empty; give one"]),
        (["config"], ["check|show", "finclaw config --help"]),
        (["config", "chekc"], ["'chekc' is no choice; did you mean check?"]),
        (["completion", "tcsh"], ["'tcsh' is no choice", "zsh"]),
        (["sessions"], ["ACTION", "finclaw sessions --help"]),
        (["sessions", "lst"], ["'lst' is no command; did you mean list?"]),
        (["sessions", "list", "--limt", "1"], ["did you mean --limit?", "finclaw sessions list --help"]),
        (["sessions", "list", "--limit", "0"], ["'0' is not a number from 1 to 500"]),
        (["sessions", "export"], ["KEY", "finclaw sessions export --help"]),
        (["sessions", "import", "/no/such/file"], ["cannot read /no/such/file", "sessions export"]),
        (["prune", "--older-than", "soon"], ["'soon' is not an age", "90d"]),
        (["prune", "--older-than", "0d"], ["'0d' is not an age", "90d"]),
        (["prune"], ["--yes", "--dry-run"]),
        (["ask"], ["there is no question", "try: finclaw ask"]),
        (["ask", " "], ["there is no question", "try: finclaw ask"]),
        (["ask", NO_TEXT], ["not UTF-8", "terminal's character encoding"]),
        (["ask", "hi", "--session", ""], ["--session", "1 to 200 characters", "try: --session main"]),
        (["ask", "hi", "--session", NO_TEXT], ["--session", "UTF-8"]),
    ],
)
def test_what_is_typed(tmp_path: Path, argv: list[str], parts: list[str]) -> None:
    ended = finclaw(*argv, FINCLAW_HOME=str(tmp_path / "state"))
    assert ended.code == 2
    says(ended, *parts)
    assert not ended.out
    assert not (tmp_path / "state").exists()


# ── what is set ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("web: [", ["line 1", "ends in the middle", "close the bracket"]),
        ('log: {level: "info', ["ends in the middle", "quote"]),
        ("web:\n\tport: 1\n", ["line 2", "a tab stands there; indent with spaces"]),
        ("market: demo: x\n", ["line 1", "second colon", "quotes"]),
        ("market: demo\n---\nmarket: demo\n", ["two documents", "---"]),
        ("market: !demo x\n", ["a tag like `!name`", "plain value"]),
        ("market: *demo\n", ["an alias", "quotes"]),
        ("market: demo\nmarket: demo\n", ["line 2", "already set in line 1"]),
        ("just words\n", ["write settings as `key: value` lines"]),
        ("market\x01: demo\n", ["special characters are not allowed", "remove it"]),
        (b"market: \xff\n", ["not UTF-8", "save it as UTF-8"]),
        ("prot: 1\n", ["line 1", "unknown key prot"]),
        ("web: {prot: 1}\n", ["unknown key web.prot; did you mean web.port?"]),
        ("web: {port: 99999}\n", ["web.port must be a whole number from 0 to 65535, not 99999"]),
        ("web: {host: 0.0.0.0}\n", ["web.host", "use 127.0.0.1"]),
        ("state: /elsewhere\n", ["the file cannot move the state", "--state DIR"]),
        ("market_data: {disabled: [moon]}\n", ["'moon'", "there are naver"]),
    ],
)
def test_what_is_in_the_file(tmp_path: Path, text: str | bytes, parts: list[str]) -> None:
    file = tmp_path / "finclaw.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    ended = finclaw("status", "--state", tmp_path)
    assert ended.code == 2
    says(ended, "finclaw.yaml", *parts)


@pytest.mark.parametrize("command", [("serve",), ("config", "show"), ("config", "check"), ("ask", "hi")])
def test_every_command_reads_the_same_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "finclaw.yaml").write_text("agnet: {}\n")
    ended = finclaw(*command, "--state", tmp_path)
    assert ended.code != 0
    assert "agnet" in ended.out + ended.err


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for file in (tmp_path / "none.yaml", tmp_path):
        says(
            finclaw("ask", "hi", "--config", file, "--state", tmp_path / "s"),
            str(file),
            "--config FILE",
            "finclaw init",
        )


def test_variables(tmp_path: Path) -> None:
    home = str(tmp_path)
    says(finclaw("ask", "hi", FINCLAW_HOME=home, FINCLAW_WEB__PROT="1"), "did you mean FINCLAW_WEB__PORT?")
    says(finclaw("ask", "hi", FINCLAW_HOME=home, FINCLAW_WEB__PORT="x"), "FINCLAW_WEB__PORT", 'not "x"')
    says(finclaw("ask", "hi", FINCLAW_HOME=home, FINCLAW_QQQQ="x"), "FINCLAW_QQQQ sets nothing", "unset it")


# ── where it is kept ─────────────────────────────────────────────────────────────────────────────────────


def test_a_state_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    long = tmp_path / ("x" * 300)
    for command in (["ask", "hi"], ["serve", "--port", "0"], ["init"]):
        for state in (tmp_path / "file", tmp_path / "file" / "below"):
            says(finclaw(*command, "--state", state), f"{tmp_path}/file is a file, not a directory", "--state DIR")
        for state in (Path("/proc/finclaw"), long):
            says(finclaw(*command, "--state", state), "the state directory", str(state), "--state")
        says(finclaw(*command, "--state", f"{tmp_path}/{NO_TEXT}"), "not UTF-8", "--state DIR")
    says(finclaw("ask", "hi", "--state", "~no-such-user/x"), "~no-such-user", "--state DIR")
    says(finclaw("ask", "hi", "--config", f"{tmp_path}/no\n\x1b[31m", "--state", tmp_path / "s"), "no\\n\\x1b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_database_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / DATABASE
    path.write_bytes(b"no database" * 1_000)
    for command in (["ask", "hi"], ["serve", "--port", "0"], ["status"]):
        says(finclaw(*command, "--state", tmp_path), "finclaw.db", "is damaged", "finclaw restore FILE")
    path.unlink()
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version = 99")
    db.close()
    says(finclaw("ask", "hi", "--state", tmp_path), "newer FinClaw", "install that version")
    path.unlink()
    path.mkdir()
    says(finclaw("ask", "hi", "--state", tmp_path), "finclaw.db", "check")


def test_a_token_that_cannot_be_used(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t" * 43)
    token.chmod(0o644)
    for command in (["serve", "--port", "0"], ["init"]):
        says(finclaw(*command, "--state", tmp_path), str(token), "run: chmod 600")
    token.chmod(0o600)
    token.write_text("short")
    says(finclaw("serve", "--port", "0", "--state", tmp_path), str(token), "remove it")
    token.unlink()
    token.mkdir()
    says(finclaw("serve", "--port", "0", "--state", tmp_path), str(token), "plain file")


@pytest.mark.parametrize("limit", [0, 100, 20_000])
def test_a_full_disk(tmp_path: Path, limit: int) -> None:
    for command in (["ask", QUESTION], ["serve", "--port", "0"], ["init"]):
        if command == ["init"] and limit > 10_000:
            continue  # it needs less
        ended = limited(
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)), *command, "--state", tmp_path
        )
        says(ended, "space" if "finclaw.db" in ended.err else "limit")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this root cannot mount")
    try:
        (small / "ballast").write_bytes(b"\0" * 40_000)
        says(finclaw("ask", QUESTION, "--state", small), str(small), "free ")
        fill(small)
        says(finclaw("init", "--state", small), "No space left on device; free some space")
        assert "No space left on device; free some space" in finclaw("doctor", "--state", small).out
    finally:
        subprocess.run(["umount", str(small)], check=True)


def fill(folder: Path) -> None:
    """Take the last byte of a disk."""
    with (folder / "more").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 1_024)


# ── who is there already ─────────────────────────────────────────────────────────────────────────────────


def test_somebody_holds_the_state_or_the_port(tmp_path: Path) -> None:
    with StateLock(tmp_path):
        says(finclaw("serve", "--port", "0", "--state", tmp_path), "another gateway", str(os.getpid()), "--state")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        says(finclaw("serve", "--port", port, "--state", tmp_path), f"port {port} is in use", "--port N")


def test_the_gateway_went_away(tmp_path: Path) -> None:
    with serving(tmp_path) as gateway:
        gateway.stop(signal.SIGKILL)
    ended = finclaw("status", "--state", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "start it with: finclaw serve" in ended.out


# ── who listens ──────────────────────────────────────────────────────────────────────────────────────────


def limited(prepare: Callable[[], None], *args: str | Path) -> Ended:
    """A command whose process was prepared in a way that a shell's user could."""
    done = subprocess.run(
        [sys.executable, "-m", "finclaw", *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
        env=clean_environment(),
        preexec_fn=prepare,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def argv(command: str, state: Path) -> list[str]:
    more = {
        "ask": [QUESTION],
        "explain": ["tool", "market__quote"],
        "channels": ["list"],
        "memory": ["list"],
        "people": ["list"],
        "skills": ["list"],
        "config": ["show"],
        "completion": ["bash"],
        "sessions": ["list"],
        "prune": ["--dry-run"],
        "forget": ["web:owner:owner", "--dry-run"],
        "trace": ["last"],
        "replay": ["last"],
        "instruments": ["search", "AAPL"],
    }
    return [command, *more.get(command, []), "--state", str(state)]


# A backup needs something to write, and a restore what a backup wrote; what they print goes the same way.
PRINTING = [each for each in COMMANDS if each not in ("serve", "mcp", "backup", "restore")]


@pytest.mark.parametrize(
    "command", [*PRINTING[::2], *(pytest.param(each, marks=pytest.mark.soak) for each in PRINTING[1::2])]
)
def test_a_closed_or_full_standard_output(tmp_path: Path, command: str) -> None:
    if command in ("trace", "replay"):  # they need a turn to tell about
        ask = [sys.executable, "-m", "finclaw", *argv("ask", tmp_path)]
        subprocess.run(ask, stdout=subprocess.DEVNULL, check=True, env=clean_environment())
    closed = limited(lambda: os.close(1), *argv(command, tmp_path))
    says(closed, "standard output is closed", "/dev/null")
    # What a full device did not take stays in the buffer, and must not fail once more at the interpreter's end.
    buffered = {name: value for name, value in clean_environment().items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "finclaw", *argv(command, tmp_path)],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            env=buffered,
        )
    says(Ended(done.returncode, "", done.stderr.decode()), "No space left on device; free some space")


def test_a_closed_standard_error() -> None:
    ended = limited(lambda: os.close(2), "servee")
    assert (ended.code, ended.out) == (2, "")
