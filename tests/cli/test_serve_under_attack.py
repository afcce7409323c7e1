"""Security trial H12: `finclaw serve` with 256 open files, 300 half-open connections and 50 wrong tokens a second."""

import http.client
import json
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cli.terminal import clean_environment

FILES, HALF_OPEN, WRONG_A_SECOND, SECONDS = 256, 300, 50, 3
HANG = 60.0
LARGEST_LOG = 200_000


@contextmanager
def serving_with_few_files(state: Path, log: Path) -> Generator[tuple[int, str, subprocess.Popen[bytes]]]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "finclaw", "serve", "--port", "0", "--state", str(state)],
            stdout=file,
            stderr=file,
            env=clean_environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),  # noqa: PLW1509
        )
    try:
        deadline = time.monotonic() + HANG
        while not (state / "gateway.json").exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the gateway did not start"
            time.sleep(0.02)
        port = int(json.loads((state / "gateway.json").read_text())["url"].rpartition(":")[2])
        yield port, (state / "token").read_text().strip(), process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def ask(port: int, token: str) -> tuple[int, float]:
    """The status, and the seconds it took."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    try:
        connection.request("GET", "/api/v1/status", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status, time.monotonic() - began
    finally:
        connection.close()


def test_the_right_token_is_served_throughout_and_the_log_stays_small(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving_with_few_files(tmp_path / "state", log) as (port, token, process), ExitStack() as attack:
        for number in range(HALF_OPEN):
            line = attack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=HANG))
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127"[: number % 20])
        wrong: list[int] = []
        right: list[int] = []
        slowest = 0.0
        for number in range(WRONG_A_SECOND * SECONDS):
            wrong.append(ask(port, f"guess{number}")[0])
            if number % 5 == 0:
                status, seconds = ask(port, token)
                right.append(status)
                slowest = max(slowest, seconds)
        assert right == [200] * len(right)
        assert set(wrong) == {401, 429}
        assert slowest < HANG / 2, slowest
        process.send_signal(signal.SIGTERM)
        process.wait(HANG)
    assert log.stat().st_size < LARGEST_LOG
    assert token not in log.read_text().replace("  token   ", "").split("shown this once")[1]
