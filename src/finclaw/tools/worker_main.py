"""The inside of a worker: a process that runs one tool, and its parent, the supervisor, that kills all it has started.

The supervisor never runs a stranger's code. It is what the gateway knows of the worker, it adopts the orphans that the
tool leaves, and it exits last: when the tool has ended, when the gateway says so, or when the gateway is gone.
"""

import asyncio
import importlib
import importlib.util
import inspect
import os
import signal
import sys
import threading
from types import ModuleType
from typing import Any

import msgspec

from finclaw.errors import ToolError
from finclaw.tools.define import DefinedTool, tool
from finclaw.tools.process.process_tree import (
    HAS_PROCESS_TREE,
    become_subreaper,
    die_with_parent,
    kill_descendants,
    set_dumpable,
    set_marker_rlimits,
)
from finclaw.tools.time_limit import as_output
from finclaw.tools.worker import Home, Request, WorkerAnswer, WorkerDone, WorkerFailed


def main() -> None:
    result_pipe = os.dup(1)
    os.dup2(2, 1)  # what the tool prints is not its result
    size = int.from_bytes(_read_exactly(8), "big")
    request = _read_exactly(size)
    become_subreaper()
    set_dumpable(dumpable=False)
    signal.signal(signal.SIGTERM, _kill_tree_and_exit)
    supervisor = os.getpid()
    tool = os.fork()
    if tool == 0:
        _prepare_tool_process(supervisor)
        _run(request, result_pipe)
    os.close(result_pipe)
    threading.Thread(target=_exit_with_gateway, daemon=True).start()
    while os.wait()[0] != tool:  # the others are orphans that became our children
        pass
    _kill_tree_and_exit()


# ── the supervisor ──────────────────────────────────────────────────────────────────────────────────────────


def _exit_with_gateway() -> None:
    os.read(0, 1)  # nothing is ever written there again: it returns when the gateway is gone
    _kill_tree_and_exit()


def _kill_tree_and_exit(*_: object) -> None:
    if HAS_PROCESS_TREE:
        kill_descendants(os.getpid())
        os._exit(0)
    os.killpg(0, signal.SIGKILL)


# ── the tool ────────────────────────────────────────────────────────────────────────────────────────────────


def _prepare_tool_process(supervisor: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if HAS_PROCESS_TREE:
        die_with_parent(supervisor)
        os.setsid()  # one that kills its own group does not kill the supervisor
    set_dumpable(dumpable=True)
    set_marker_rlimits()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _run(encoded: bytes, result_pipe: int) -> None:
    home = os.getpid()
    request = msgspec.json.decode(encoded, type=Request)
    _set_rlimits(request)
    answer = msgspec.json.encode(_answer(request))
    if os.getpid() == home:
        left = memoryview(len(answer).to_bytes(8, "big") + answer)
        while left:
            left = left[os.write(result_pipe, left) :]
    os._exit(0)  # whatever else it has started here is over, too


def _read_exactly(size: int) -> bytes:
    read = sys.stdin.buffer.read(size)
    if len(read) < size:
        os._exit(1)
    return read


def _set_rlimits(request: Request) -> None:
    import resource  # noqa: PLC0415  optional: not on every system

    resource.setrlimit(resource.RLIMIT_AS, (request.memory, request.memory))
    resource.setrlimit(resource.RLIMIT_CPU, (request.cpu_seconds, request.cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(request: Request) -> WorkerAnswer:
    try:
        return WorkerDone(as_output(_run_tool(request)))
    except ToolError as error:
        return WorkerFailed(type(error).__name__, str(error), True, error.suggestion, error.code)
    except BaseException as error:  # noqa: BLE001  whatever it was, the gateway is told its name
        return WorkerFailed(type(error).__name__)


def _run_tool(request: Request) -> Any:
    found = getattr(_load_module(request.home), request.home.qualname)
    if not request.home.raw and not isinstance(found, DefinedTool):
        found = tool(request.tool, request.tool)(found)
    invoke = found.invoke if isinstance(found, DefinedTool) else found
    given = invoke(request.args, request.scope)
    if not inspect.isawaitable(given):
        return given
    return asyncio.run(_await_result(given))


async def _await_result(given: Any) -> Any:
    return await given


def _load_module(home: Home) -> ModuleType:
    """By its name where it has one; a file that was loaded by its path is loaded by its path again."""
    if home.module != "__main__" and importlib.util.find_spec(home.module) is not None:
        return importlib.import_module(home.module)
    name = "_finclaw_main" if home.module == "__main__" else home.module
    beside = [os.path.dirname(home.file)] if os.path.basename(home.file) == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, home.file, submodule_search_locations=beside)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
