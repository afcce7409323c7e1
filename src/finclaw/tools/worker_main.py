"""The inside of a worker process: reads one request, runs one tool, writes one answer, and ends."""

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
from finclaw.tools.output import as_output
from finclaw.tools.worker import Answer, Done, Failed, Home, Request


def main() -> None:
    voice = os.dup(1)
    os.dup2(2, 1)  # what the tool prints is not its result
    home = os.getpid()
    size = int.from_bytes(_exactly(8), "big")
    request = msgspec.json.decode(_exactly(size), type=Request)
    _limit(request)
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()
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


def _end_with_the_gateway() -> None:
    os.read(0, 1)  # nothing is ever written there again: it returns when the gateway is gone
    os.killpg(0, signal.SIGKILL)


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
