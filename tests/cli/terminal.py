"""`finclaw` as a child process, as a person at a terminal meets it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from tests.fork_server import GATEWAY

import finclaw as finclaw_package


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    def line(self) -> str:
        """The one clear line; fails when there is more, or a traceback."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("finclaw: ")
        return lines[0]


def finclaw(*args: str | Path, stdin: str | bytes = "", cwd: Path | None = None, **environ: str) -> Ended:
    """Run `finclaw` in a process of its own, forked where its modules are imported already: most of a start's time.

    What `python -m finclaw` does before that, `test_main` and `test_closed_process` look at.
    """
    command = _Command([*map(str, args)], str(cwd or os.getcwd()), clean_environment() | environ)
    given = stdin.encode() if isinstance(stdin, str) else stdin
    if any(name.startswith("PYTHON") for name in environ):  # the interpreter reads those at its start
        return _start_python(command, given)
    with TemporaryDirectory() as folder:
        (Path(folder) / "in").write_bytes(given)
        process = _forked(_run_command, (command, folder))
        process.join(60)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise AssertionError(f"finclaw {' '.join(command.words)} still runs after 60 s")
        code = process.exitcode
        process.close()
        return Ended(code, *((Path(folder) / name).read_bytes().decode() for name in ("out", "err")))


@dataclass(frozen=True)
class _Command:
    words: list[str]
    cwd: str
    environ: dict[str, str]


def _start_python(command: _Command, given: bytes) -> Ended:
    done = subprocess.run(
        [sys.executable, "-m", "finclaw", *command.words],
        input=given,
        capture_output=True,
        timeout=60,
        check=False,
        cwd=command.cwd,
        env=command.environ,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def _forked(target: Callable[[_Command, str], None], args: tuple[_Command, str]) -> BaseProcess:
    context = get_context("forkserver")
    context.set_forkserver_preload([*GATEWAY])
    process = context.Process(target=target, args=args)
    with _starting:  # two threads of one test may both be the first
        process.start()
    return process


_starting = Lock()


def _run_command(command: _Command, folder: str) -> None:
    """In the child: be what the shell would have started."""
    flags = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_APPEND, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for target, name, flag in zip((0, 1, 2), ("in", "out", "err"), flags, strict=True):
        opened = os.open(os.path.join(folder, name), flag, 0o600)
        os.dup2(opened, target)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, (0, 1, 2), "rww")
    os.environ.clear()
    os.environ.update(command.environ)
    time.tzset()
    os.chdir(command.cwd)
    sys.argv = [str(Path(finclaw_package.__file__).with_name("__main__.py")), *command.words]
    from finclaw.cli.main import main

    sys.exit(main())


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("FINCLAW_")}


def pytest_environment(directory: Path) -> dict[str, str]:
    """For a pytest of its own: without this it removes what earlier runs left behind, which can take minutes."""
    return clean_environment() | {"PYTEST_DEBUG_TEMPROOT": str(directory)}


def run_pytest(directory: Path) -> str:
    """What pytest prints about the tests in this directory, all of which pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(directory)]
    environment = pytest_environment(directory)
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def reserved_port() -> Generator[int]:
    """A port that nobody else is given meanwhile, and where nobody listens: bound as a gateway's is, so it may be."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]
