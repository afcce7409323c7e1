"""Security trial H14: a gateway's keys are not read from its environment by another process of the same user."""

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.terminal import clean_environment

ORDINARY = [sys.executable, str(Path(__file__).with_name("without_capabilities.py")), sys.executable]
READ = """
import sys
try:
    print(open(f"/proc/{sys.argv[1]}/{sys.argv[2]}", "rb").read(1_000_000))
except PermissionError:
    print("refused")
"""
KEY = "plumtree-zanzibar-9"

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no /proc, and nothing is promised")


def read_as_a_program_would(pid: int, name: str) -> str:
    command = [*ORDINARY, "-c", READ, str(pid), name]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@contextmanager
def running(*arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that waits for its standard input."""
    process = subprocess.Popen(
        [*ORDINARY, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment() | {"SOME_KEY": KEY},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def comes_to(pid: int, words: str) -> bool:
    """It takes a process a moment to be itself: before that it is one with capabilities, which nobody may read."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()  # empty while it becomes another program
        if command and b"without_capabilities" not in command and words in read_as_a_program_would(pid, "environ"):
            return True
    return False


@on_linux
def test_a_program_can_read_a_process_that_is_not_closed() -> None:
    with running("-c", "input()") as process:
        assert comes_to(process.pid, KEY)


@on_linux
@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("chat",), ("ask", "-"), ("mcp", "serve")])
def test_what_holds_keys_is_closed_to_other_programs(tmp_path: Path, words: tuple[str, ...]) -> None:
    with running("-m", "finclaw", *words, "--state", str(tmp_path / "state")) as process:
        assert comes_to(process.pid, "refused"), f"{words[0]} stays open"
        assert process.poll() is None
        for name in ("environ", "maps", "mem"):
            assert read_as_a_program_would(process.pid, name).strip() == "refused", name


@pytest.mark.parametrize("name", ["msgspec", "asyncio", "json", "apsw"])
def test_a_module_in_the_working_directory_is_not_run(tmp_path: Path, name: str) -> None:
    """A near miss of the trial: `python -m finclaw` ran `msgspec.py` of the directory where somebody stood."""
    (tmp_path / f"{name}.py").write_text("raise SystemExit('run from the working directory')\n")
    command = [sys.executable, "-m", "finclaw", "config", "show", "--state", str(tmp_path / "state")]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path, env=clean_environment()
    )
    assert "run from the working directory" not in ended.stderr + ended.stdout
    assert ended.returncode == 0, ended.stderr
