"""A gateway in a process of its own, started by `finclaw serve`."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.terminal import clean_environment


@dataclass
class Running:
    process: subprocess.Popen[str]
    state: Path

    @property
    def url(self) -> str:
        return json.loads((self.state / "gateway.json").read_text())["url"]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """The exit code and everything it printed."""
        self.process.send_signal(how)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out


@contextmanager
def serving(state: Path, *args: str) -> Generator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-m", "finclaw", "serve", "--port", "0", "--state", str(state), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=clean_environment(),
    )
    try:
        deadline = time.monotonic() + 60
        while not (state / "gateway.json").exists():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "the gateway did not start"
            time.sleep(0.02)
        yield Running(process, state)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
