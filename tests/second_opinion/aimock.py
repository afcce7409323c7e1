"""The mock server as a process of its own, and its control interface."""

import json
import subprocess
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = ROOT / "build" / "aimock" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
FIRST_FIXTURE: Final = Path(__file__).parent / "first_fixture.json"
SEED: Final = 1
"""For its dice, so that a bad day comes back."""


class Aimock:
    """A running server. It answers what it was told to, and refuses what nobody told it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def expect(self, *fixtures: Json) -> None:
        """Answers in aimock's own words: how a question must look (`match`), and what is said then (`response`)."""
        self._call("POST", "fixtures", {"fixtures": fixtures})

    def say(self, response: Json, **how: Any) -> None:
        """This answer to everything."""
        self.expect({"match": {}, "response": response, **how})

    def fail(self, **rates: float) -> None:
        """So often, between 0 and 1, a request meets this trouble instead of its answer."""
        self._call("POST", "chaos", rates)

    def journal(self) -> list[Json]:
        """Every request as it was understood, and what became of it."""
        return self._call("GET", "journal")

    def reset(self) -> None:
        self._call("POST", "reset", {})

    def _call(self, method: str, path: str, body: Json | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/__aimock/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)


@contextmanager
def running(*options: str) -> Generator[Aimock]:
    if not PROGRAM.is_file():
        raise FileNotFoundError(f"{PROGRAM} is not there: run these tests with `make opinion`, which installs it")
    command = ["node", f"--random-seed={SEED}", PROGRAM, "--port", "0", "--fixtures", FIRST_FIXTURE, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Aimock(_address(process))
        finally:
            process.terminate()


def _address(process: "subprocess.Popen[str]") -> str:
    """It says where it listens, once it does, and nothing more while it serves."""
    assert process.stdout is not None
    for line in process.stdout:
        if " listening on " in line:
            return line.split()[-1]
    raise RuntimeError(f"aimock ended with {process.wait()} before it listened")
