"""A fork server: a process that has imported the gateway, and forks once for each Python that a test starts.

The imports are most of what starting a gateway costs: 0.6 s of 0.7 s of CPU. A forked process has its own session,
arguments, environment, directory and standard streams, closes everything else, and ends as an interpreter does. What an
interpreter does before it runs the first line is not repeated, so tests about that start a real one.
"""

import atexit
import gc
import json
import locale
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
GATEWAY: Final = (
    *(
        "finclaw.app",
        "finclaw.composition.gateway",
        "finclaw.composition.extensions",
        "finclaw.testing",
        "finclaw.cli.main",
    ),
    *(f"finclaw.cli.commands.{name}" for name in ("ask", "chat", "config", "costs", "doctor", "serve", "sessions")),
    *("finclaw.builtins.memory", "finclaw.builtins.web.extension"),
    *("finclaw.storage.jsonl", "finclaw.storage.sqlite", "finclaw.providers.openai", "finclaw.providers.anthropic"),
    *("finclaw.storage.jsonl.store", "finclaw.delivery.read_markdown", "tests.support.loopback", "jsonschema_rs"),
    *("babel.core", "ctypes", "wcwidth", "yaml"),
    *("finclaw.demo.assistant.provider", "finclaw.cli.chat.local", "aiohttp.web"),
)
"""What the gateways of tests import, at their start or later. Neither editor of the chat: a test may be without one."""

NO_INPUT: Final = os.open(os.devnull, os.O_RDONLY)
"""Standard input without anything in it."""

_NUMBER: Final = struct.Struct("i")
_LARGEST: Final = 1 << 18
"""Bytes of a request, most of which are the environment."""


class ForkedProcess:
    """A process that was forked, with the methods of `subprocess.Popen` that our tests use."""

    def __init__(self, status: socket.socket, args: Sequence[str]) -> None:
        self.args = args
        self.returncode: int | None = None
        self._status = status
        self.pid = self._receive()

    def _receive(self) -> int:
        number = self._status.recv(_NUMBER.size)
        if not number:
            self._status.close()
            raise RuntimeError(f"the fork server has lost the process of {self.args}")
        return _NUMBER.unpack(number)[0]

    def fileno(self) -> int:
        """A descriptor that can be read as soon as the process has ended."""
        return self._status.fileno()

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = self._receive()
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The server as its client sees it: one process, which ends when this one does."""

    def __init__(self, *modules: str) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno()), *modules]
            self._server = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=[theirs.fileno()]
            )
        self._sending = threading.Lock()
        atexit.register(self._close)

    def _close(self) -> None:
        self._requests.close()
        self._server.wait()

    def start(
        self, args: Sequence[str], environ: Mapping[str, str], streams: tuple[int, int, int], cwd: Path | None = None
    ) -> ForkedProcess:
        """Run `python *args`, where `args` begin with `-m`, `-c` or the path of a script, and no other option."""
        request = {"args": [*args], "environ": {**environ}, "cwd": str(cwd or Path.cwd())}
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._sending:
            socket.send_fds(self._requests, [json.dumps(request).encode()], [theirs.fileno(), *streams])
        return ForkedProcess(status, args)


@cache
def fork_server(*modules: str) -> ForkServer:
    """The server of this process that has imported these modules."""
    return ForkServer(*modules)


# ── in the server ───────────────────────────────────────────────────────────────────────────────────────────


def _wait_for_requests(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each request; returns in the processes that are to run one."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _LARGEST, 4)
        _reap()
        if not request:
            os._exit(0)
        if os.fork() == 0:
            _fork_and_report(descriptors)
            requests.detach()
            return json.loads(request), descriptors
        for each in descriptors:
            os.close(each)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _fork_and_report(descriptors: list[int]) -> None:
    """Wait for the process in one more process, which holds none of its streams; returns in the former."""
    status, *streams = descriptors
    if (pid := os.fork()) == 0:
        return
    for each in streams:
        os.close(each)
    _, ended = os.waitpid(pid, 0)
    os.write(status, _NUMBER.pack(os.waitstatus_to_exitcode(ended)))
    os._exit(0)


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Give this process what it would have had from its start, and say that it has it."""
    status, *streams = descriptors
    os.setsid()
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    with suppress(locale.Error):  # where this machine lacks it an interpreter stays with UTF-8 as well
        locale.setlocale(locale.LC_CTYPE, "")
    os.chdir(request["cwd"])
    for number, each in enumerate(streams):
        os.dup2(each, number)
    os.write(status, _NUMBER.pack(os.getpid()))
    os.closerange(3, 1024)
    sys.stdin = sys.__stdin__ = os.fdopen(0, errors="surrogateescape", closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", errors="surrogateescape", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)


def _run(args: list[str]) -> None:
    import runpy

    if args[0] == "-m":
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    elif args[0] == "-c":
        sys.argv = ["-c", *args[2:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(args[1], "<string>", "exec"), vars(main))
    else:
        sys.argv = args
        runpy.run_path(args[0], run_name="__main__")


def _main() -> None:
    import importlib

    _, number, *modules = sys.argv
    for each in modules:
        importlib.import_module(each)
    assert threading.active_count() == 1, "a thread that an import started would be missing in the forked processes"
    gc.freeze()  # else each process that collects garbage copies all pages of these modules
    request, descriptors = _wait_for_requests(socket.socket(fileno=int(number)))
    _become(request, descriptors)
    _run(request["args"])


if __name__ == "__main__":
    _main()
