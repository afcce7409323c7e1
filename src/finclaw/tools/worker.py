"""A worker process for one tool call that may not be trusted to end: it is killed with everything it has started.

It is a fresh interpreter and no copy of us: it has none of our memory, files and settings, and of our environment
only what names the language, the time zone and the way to programs. `worker_main.py` is the other side; the process
known here is its supervisor, which kills the tool and all that it has started.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from finclaw import errors
from finclaw.errors import ExtensionError, ToolError
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.tools.process.process_tree import (
    HAS_PROCESS_TREE,
    kill_descendants,
    kill_orphans,
    kill_orphans_of_dead_gateways,
)
from finclaw.tools.threads import ToolThreads
from finclaw.tools.time_limit import Broken

MEMORY: Final = 1024 * 1024 * 1024  # bytes of address space
LONGEST_ANSWER: Final = 32 * 1024 * 1024
_KEPT: Final = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_BEGIN: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from finclaw.tools.worker_main import main; main()"
)
_SIZE: Final = 8  # bytes before each message that say how long it is
_LOOK: Final = 0.2  # seconds between two looks whether it is alive
_SUPERVISOR_GRACE: Final = 0.1  # seconds for the supervisor to kill everything


class WorkerDied(RuntimeError):
    """A worker exited without an answer: nobody knows how far its tool came."""


class Home(Struct, frozen=True):
    """The place of a function. `raw`: it takes a dict and the scope, and not its arguments by name."""

    module: str
    file: str
    qualname: str
    raw: bool


class Request(Struct, frozen=True, kw_only=True):
    home: Home
    tool: str
    args: dict[str, Any]
    scope: ToolScope
    memory: int
    cpu_seconds: int


class WorkerDone(Struct, frozen=True, tag="done"):
    output: ToolOutput


class WorkerFailed(Struct, frozen=True, tag="failed"):
    """The answer of a worker whose tool raised. `deliberate`: a ToolError, whose words are for the model."""

    kind: str
    message: str = ""
    deliberate: bool = False
    suggestion: str | None = None
    code: str | None = None


WorkerAnswer = WorkerDone | WorkerFailed


def home_of(name: str, function: Callable[..., object], *, raw: bool) -> Home:
    """Raises ExtensionError for a function that only this process knows."""
    module = str(getattr(function, "__module__", ""))
    qualname = str(getattr(function, "__qualname__", ""))
    file = getattr(sys.modules.get(module), "__file__", None)
    if not qualname or "." in qualname or not qualname.isidentifier() or file is None:
        raise ExtensionError(
            f"tool {name!r}: a process of its own can only find a function at the top of a module; "
            "move it there, or choose another isolation"
        )
    return Home(module, os.path.abspath(file), qualname, raw)


async def run_in_process(
    home: Home, tool: str, args: Mapping[str, Any], scope: ToolScope, seconds: float
) -> ToolOutput:
    """Raises ToolError as the tool did, Broken for what else it raised, and WorkerDied."""
    request = Request(
        home=home,
        tool=tool,
        args=dict(args),
        scope=msgspec.structs.replace(scope, ask=None, sources=None, facts=None, stop=None),
        memory=MEMORY,
        cpu_seconds=math.ceil(seconds) + 1,
    )
    worker = _Worker(msgspec.json.encode(request))
    encoded = await ToolThreads.here().run(tool, worker.run, worker.kill)
    answer = msgspec.json.decode(encoded, type=WorkerAnswer)
    if isinstance(answer, WorkerFailed):
        raise _build_error(answer)
    return answer.output


def _build_error(failed: WorkerFailed) -> Exception:
    if not failed.deliberate:
        return Broken(failed.kind)
    kind = getattr(errors, failed.kind, None)
    known = kind if isinstance(kind, type) and issubclass(kind, ToolError) else ToolError
    return known(failed.message, suggestion=failed.suggestion, code=failed.code)


class _Worker:
    """One process for one call. `run` in a thread, `kill` from anywhere."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._over = False

    def run(self) -> bytes:
        kill_orphans_of_dead_gateways()
        process = self._start()
        try:
            with suppress(BrokenPipeError):  # it is dead already; what it says, or does not, tells
                assert process.stdin is not None
                process.stdin.write(len(self._request).to_bytes(_SIZE, "big") + self._request)
                process.stdin.flush()  # and stays open: its end tells the worker that we are gone
            size = int.from_bytes(self._read(process, _SIZE), "big")
            if size > LONGEST_ANSWER:
                raise ToolError(f"its result of {size} bytes is too large; ask for less")
            return self._read(process, size)
        finally:
            self.kill()
            _wait_for_exit(process)
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe and pipe.close()  # pyright: ignore[reportUnusedExpression]

    def kill(self) -> None:
        """Have its supervisor kill it. Before it has been reaped, so that no other process can have its id."""
        with self._lock:
            if self._process is not None and not self._over:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(self._process.pid, signal.SIGTERM)
                    os.kill(self._process.pid, signal.SIGCONT)  # a tool may have stopped its supervisor
            self._over = True

    def _read(self, process: "subprocess.Popen[bytes]", size: int) -> bytes:
        """Not until the end of the stream: a child of the worker may hold it open for ever."""
        assert process.stdout is not None
        source = process.stdout.fileno()
        read = bytearray()
        while len(read) < size:
            ready, _, _ = select.select([source], [], [], _LOOK)
            piece = os.read(source, min(size - len(read), 1 << 20)) if ready else b""
            if not piece and (ready or self._over or _is_dead(process)):
                raise WorkerDied("it ended without a result")
            read += piece
        return bytes(read)

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._over:
                raise WorkerDied("it was stopped before it began")
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BEGIN, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                start_new_session=True,
            )
            return self._process


def _wait_for_exit(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_SUPERVISOR_GRACE)
    except subprocess.TimeoutExpired:  # somebody has stopped the supervisor
        if HAS_PROCESS_TREE:
            kill_descendants(process.pid)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:  # a supervisor exits with 0 when it has killed all: somebody has killed it
        kill_orphans()


def _is_dead(process: "subprocess.Popen[bytes]") -> bool:
    """A look that does not reap it."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
