"""The inside of a worker: one process that runs one tool, and one above it, the warden, that ends all it has started.

The warden never runs a stranger's code. It is what the gateway knows of the worker, it adopts whatever the tool leaves
behind, and it goes last: when the tool has ended, when the gateway says so, or when the gateway is gone.
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
from finclaw.tools.family import (
    KNOWS_FAMILIES,
    adopt_orphans,
    bear_the_mark,
    die_with_parent,
    end_descendants,
    let_nobody_in,
)
from finclaw.tools.output import as_output
from finclaw.tools.worker import Answer, Done, Failed, Home, Request


def main() -> None:
    voice = os.dup(1)
    os.dup2(2, 1)  # what the tool prints is not its result
    size = int.from_bytes(_exactly(8), "big")
    request = _exactly(size)
    adopt_orphans()
    let_nobody_in()
    signal.signal(signal.SIGTERM, _end_family)
    warden = os.getpid()
    tool = os.fork()
    if tool == 0:
        _become_the_tool(warden)
        _run(request, voice)
    os.close(voice)
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()
    while os.wait()[0] != tool:  # the others are orphans that have come to us
        pass
    _end_family()


# ── the warden ──────────────────────────────────────────────────────────────────────────────────────────────


def _end_with_the_gateway() -> None:
    os.read(0, 1)  # nothing is ever written there again: it returns when the gateway is gone
    _end_family()


def _end_family(*_: object) -> None:
    if KNOWS_FAMILIES:
        end_descendants(os.getpid())
        os._exit(0)
    os.killpg(0, signal.SIGKILL)


# ── the tool ────────────────────────────────────────────────────────────────────────────────────────────────


def _become_the_tool(warden: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if KNOWS_FAMILIES:
        die_with_parent(warden)
        os.setsid()  # one that kills its own group does not kill the warden
    let_nobody_in(closed=False)
    bear_the_mark()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _run(told: bytes, voice: int) -> None:
    home = os.getpid()
    request = msgspec.json.decode(told, type=Request)
    _limit(request)
    said = msgspec.json.encode(_answer(request))
    if os.getpid() == home:
        _say(voice, len(said).to_bytes(8, "big") + said)
    os._exit(0)  # whatever else it has started here is over, too


def _exactly(size: int) -> bytes:
    read = sys.stdin.buffer.read(size)
    if len(read) < size:
        os._exit(1)
    return read


def _say(voice: int, said: bytes) -> None:
    left = memoryview(said)
    while left:
        left = left[os.write(voice, left) :]


def _limit(request: Request) -> None:
    import resource  # noqa: PLC0415  not on every system, and only needed here

    resource.setrlimit(resource.RLIMIT_AS, (request.memory, request.memory))
    resource.setrlimit(resource.RLIMIT_CPU, (request.cpu_seconds, request.cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(request: Request) -> Answer:
    try:
        return Done(as_output(_result(request)))
    except ToolError as error:
        return Failed(type(error).__name__, str(error), True, error.suggestion, error.code)
    except BaseException as error:  # noqa: BLE001  whatever it was, the gateway is told its name
        return Failed(type(error).__name__)


def _result(request: Request) -> Any:
    found = _function(request.home)
    if not request.home.raw and not isinstance(found, DefinedTool):
        found = tool(request.tool, request.tool)(found)
    invoke = found.invoke if isinstance(found, DefinedTool) else found
    given = invoke(request.args, request.scope)
    return asyncio.run(_awaited(given)) if inspect.isawaitable(given) else given


async def _awaited(given: Any) -> Any:
    return await given


def _function(home: Home) -> Any:
    return getattr(_module(home), home.qualname)


def _module(home: Home) -> ModuleType:
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
