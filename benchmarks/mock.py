"""The mock model: built when its source is newer, started on a free port, ended with the block."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = HERE / "mock" / "mock_llm.rs"
BINARY = HERE / "out" / "mock_llm"


def build() -> Path:
    if not BINARY.exists() or BINARY.stat().st_mtime < SOURCE.stat().st_mtime:
        BINARY.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([_rustc(), "-O", "-o", str(BINARY), str(SOURCE)], check=True)
    return BINARY


def _rustc() -> str:
    found = shutil.which("rustc") or _installed()
    if found is None:
        sys.exit("bench: the mock model is written in Rust; install rustc (any version since 1.65) and run this again")
    return found


def _installed() -> str | None:
    """rustc from the system's packages, where we may install them."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    print("bench: installing rustc …", file=sys.stderr)
    for step in (["update"], ["install", "-y", "--no-install-recommends", "rustc"]):
        subprocess.run(["apt-get", "-qq", *step], check=False, stdout=subprocess.DEVNULL)
    return shutil.which("rustc")


@contextmanager
def running() -> Generator[str]:
    """The mock's address."""
    process = subprocess.Popen([str(build()), "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()


class Mock:
    """What a measure may ask of the running mock."""

    def __init__(self, url: str) -> None:
        self.url = url

    def pace(self, *, chunk_us: int = 0, first_ms: int = 0, gap_ms: int = 0) -> None:
        """Time before every chunk, before the first byte, and once after the first text. Ends a hold."""
        self._get(f"/pace/c{chunk_us}-f{first_ms}-g{gap_ms}")

    def hold(self) -> None:
        """No answer begins until the next `pace`."""
        self._get("/pace/h1")

    def reset(self) -> None:
        self._get("/reset")

    def stats(self) -> dict[str, Any]:
        return self._get("/stats")

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)
