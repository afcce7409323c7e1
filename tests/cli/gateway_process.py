"""A gateway in a process of its own, started by `finclaw serve`."""

import json
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from tests.cli.terminal import clean_environment
from tests.fork_server import GATEWAY, NO_INPUT, ForkedProcess, fork_server

LAST_START_LINE: Final = "  stop    Ctrl-C"


@dataclass
class Running:
    process: ForkedProcess
    state: Path
    output: IO[bytes]

    @property
    def url(self) -> str:
        return json.loads((self.state / "gateway.json").read_text())["url"]

    @property
    def printed(self) -> str:
        """Everything it has printed."""
        written = self.output.fileno()
        return os.pread(written, os.fstat(written).st_size, 0).decode()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """The exit code and everything it printed."""
        self.process.send_signal(how)
        return self.process.wait(60), self.printed


@contextmanager
def serving(state: Path, *args: str) -> Generator[Running]:
    command = ["-m", "finclaw", "serve", "--port", "0", "--state", str(state), *args]
    with TemporaryFile(buffering=0) as output:
        streams = (NO_INPUT, output.fileno(), output.fileno())
        gateway = Running(fork_server(*GATEWAY).start(command, clean_environment(), streams), state, output)
        try:
            deadline = time.monotonic() + 60
            while LAST_START_LINE not in gateway.printed:  # `gateway.json` is there before
                assert gateway.process.poll() is None, gateway.printed
                assert time.monotonic() < deadline, "the gateway did not start"
                time.sleep(0.02)
            yield gateway
        finally:
            gateway.process.kill()
            gateway.process.wait()
