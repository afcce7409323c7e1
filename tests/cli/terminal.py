"""`finclaw` as a child process, as a person at a terminal meets it."""

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


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
    done = subprocess.run(
        [sys.executable, "-m", "finclaw", *map(str, args)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env=clean_environment() | environ,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("FINCLAW_")}


@contextmanager
def reserved_port() -> Generator[int]:
    """A port that nobody else is given meanwhile, and where nobody listens: bound as a gateway's is, so it may be."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]
