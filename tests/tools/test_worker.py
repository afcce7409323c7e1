"""Tools in processes of their own: what they get, what they give, and that none of them outlives its time."""

import asyncio
import importlib.util
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tools import dangerous
from tests.tools.liveness import SCOPE, dead

from finclaw.errors import InvalidArguments, ToolError, ToolTimeout, ToolUnavailable
from finclaw.kernel.port import ToolOutput
from finclaw.tools.define import DefinedTool
from finclaw.tools.threads import ToolThreads
from finclaw.tools.time_limit import Broken, run_with_limit
from finclaw.tools.worker import WorkerDied


async def run(tool: DefinedTool, **args: Any) -> ToolOutput:
    return await run_with_limit(tool, args, SCOPE)


async def test_arguments_and_results_go_there_and_back() -> None:
    told = msgspec.json.decode((await run(dangerous.add, one=1, other="0.5")).content)
    assert (told["sum"], told["for"]) == ("1.5", "u")
    assert told["pid"] != os.getpid()
    assert await run(dangerous.fact) == ToolOutput("1.50", (dangerous.FACT,))
    assert (await run(dangerous.raw, x=1)).content == '{"args":{"x":1},"call":"c"}'


@pytest.mark.spec("T-16", "DX-25")
@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ("line", ToolUnavailable, "no line"),
        ("invalid", InvalidArguments, "not so"),
        ("exit", Broken, "SystemExit"),
        ("memory", Broken, "MemoryError"),
        ("recursion", Broken, "RecursionError"),
        ("else", Broken, "ValueError"),
        ("hard exit", WorkerDied, "without a result"),
        ("kill", WorkerDied, "without a result"),
    ],
)
async def test_whatever_becomes_of_it_there_is_an_exception_here(how: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        await run(dangerous.fail, how=how)


async def test_its_own_words_arrive_whole() -> None:
    with pytest.raises(ToolError, match="the market is closed") as caught:
        await run(dangerous.fail, how="word")
    assert (caught.value.suggestion, caught.value.code) == ("tomorrow", "closed")


async def test_it_inherits_no_secret_and_no_open_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINCLAW_TEST_API_KEY", "sk-secret")
    monkeypatch.setenv("HOME", "/nowhere")
    told = msgspec.json.decode((await run(dangerous.environment)).content)
    assert set(told["names"]) <= {"PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
    assert told["open"] <= 6


@pytest.mark.spec("DX-25")
async def test_at_its_time_it_is_killed_with_its_children(tmp_path: Path) -> None:
    started = time.monotonic()
    await run(dangerous.add, one=1, other="1")
    hang = replace(dangerous.hang, timeout=1 + 5 * (time.monotonic() - started))  # by then it has certainly begun
    started = time.monotonic()
    with pytest.raises(ToolTimeout):
        await run(hang, file=str(tmp_path / "pids"))
    assert time.monotonic() - started < hang.timeout + 20
    await dead(*map(int, (tmp_path / "pids").read_text().split()))
    async with asyncio.timeout(60):
        while ToolThreads.here().lost:  # noqa: ASYNC110  its thread may end a moment later than it
            await asyncio.sleep(0.01)


@pytest.mark.spec("DX-25")
async def test_a_stopped_turn_kills_it_too(tmp_path: Path) -> None:
    task = asyncio.create_task(run(dangerous.hang, file=str(tmp_path / "pids")))
    async with asyncio.timeout(60):
        while not (tmp_path / "pids").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await dead(*map(int, (tmp_path / "pids").read_text().split()))


async def test_one_that_never_gives_way_is_killed_and_others_go_on() -> None:
    spinning = asyncio.create_task(run(dangerous.spin))
    assert "sum" in (await run(dangerous.add, one=1, other="1")).content
    with pytest.raises(ToolTimeout):
        await spinning


async def test_a_large_result_comes_whole_and_a_huge_one_is_refused() -> None:
    assert len((await run(dangerous.large, megabytes=20)).content) == 20 << 20
    with pytest.raises(ToolError, match="too large"):
        await run(dangerous.large, megabytes=100)


async def test_a_child_that_it_forked_says_nothing_in_its_place(tmp_path: Path) -> None:
    assert (await run(dangerous.fork, file=str(tmp_path / "pid"))).content == "parent"
    await dead(int((tmp_path / "pid").read_text()))


async def test_one_that_dies_is_noticed_though_its_child_holds_the_line() -> None:
    started = time.monotonic()
    with pytest.raises(WorkerDied):
        await run(dangerous.daemon)
    assert time.monotonic() - started < 18, "its limit is twenty, and its child sleeps for sixty"


_GATEWAY = """
import asyncio, sys
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import ToolScope
from tests.tools.dangerous import hang
scope = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))
asyncio.run(hang.run({"file": sys.argv[1]}, scope))
"""


async def test_it_does_not_outlive_a_gateway_that_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    gateway = await asyncio.create_subprocess_exec(sys.executable, "-c", _GATEWAY, str(file), env=environment)
    async with asyncio.timeout(60):
        while not file.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    gateway.kill()
    await gateway.wait()
    await dead(*map(int, file.read_text().split()))


async def test_a_module_that_was_loaded_from_a_file_is_found_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from finclaw.tools.define import tool\n"
        "@tool(isolation='process')\n"
        "def double(n: int) -> int:\n"
        "    'Doubles.'\n"
        "    return n * 2\n"
    )
    spec = importlib.util.spec_from_file_location("_finclaw_extension_x", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["_finclaw_extension_x"] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        assert module.double.spec.name == "mine__double"
        assert (await run(module.double, n=4)).content == "8"
    finally:
        del sys.modules["_finclaw_extension_x"]
