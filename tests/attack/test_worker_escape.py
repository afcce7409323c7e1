"""Whatever a tool has started is gone with it, also what has fled into a session of its own."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.attack import fleeing
from tests.builtins.mcp.bench import until
from tests.tools.liveness import SCOPE, alive, dead

from finclaw.tools import worker
from finclaw.tools.process.process_tree import living_descendants
from finclaw.tools.threads import ToolThreads
from finclaw.tools.time_limit import run_with_limit
from finclaw.tools.worker import WorkerDied

pytestmark = [
    pytest.mark.spec("DX-25"),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a group is all there is"),
]
HOW = ("session", "orphan", "bare orphan", "fork without a program")
THEN = ("gives a result", "fails", "vanishes", "is killed with its group", "hangs", "stops the supervisor")
KILLS = ("kills the supervisor", "stops and kills the supervisor", "has a child kill the supervisor")


async def _pid(file: Path) -> int:
    async with asyncio.timeout(20):
        while not (written := _written(file)):  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
    return int(written)


def _written(file: Path) -> str:
    return file.read_text() if file.exists() else ""


async def _thread_is_back() -> None:
    """Whoever stops a tool does not wait for ever: on a busy machine its thread ends the family a moment later."""
    await until(lambda: ToolThreads.here().lost == 0)


@pytest.mark.parametrize("then", [*THEN, *KILLS])
@pytest.mark.parametrize("how", HOW)
async def test_who_flees_is_gone_with_the_tool(tmp_path: Path, how: str, then: str) -> None:
    file, before = tmp_path / "pid", living_descendants(os.getpid())
    running = asyncio.create_task(run_with_limit(fleeing.flee, {"how": how, "then": then, "file": str(file)}, SCOPE))
    fled = await _pid(file)
    if then in ("hangs", "stops the supervisor"):
        await asyncio.sleep(0.05)
        running.cancel()
    await asyncio.wait([running])
    await dead(fled)
    await _thread_is_back()
    assert living_descendants(os.getpid()) <= before


@pytest.mark.parametrize("then", ["hangs", *KILLS])
async def test_nor_does_a_relay_outrun_us(tmp_path: Path, then: str) -> None:
    """Each of its runners has a child and is gone when we look."""
    file = tmp_path / "pid"
    running = asyncio.create_task(
        run_with_limit(fleeing.flee, {"how": "relay", "then": then, "file": str(file)}, SCOPE)
    )
    await _pid(file)
    if then == "hangs":
        running.cancel()
    await asyncio.wait([running])
    await _thread_is_back()
    last = _written(file)
    await asyncio.sleep(0.3)
    assert _written(file) == last
    await dead(int(last))


async def test_others_are_let_alone(tmp_path: Path) -> None:
    """Calls that run meanwhile, and programs of ours that have fled on purpose."""
    ours = await asyncio.create_subprocess_exec(sys.executable, "-c", _DAEMON, str(tmp_path / "daemon"))
    daemon = await _pid(tmp_path / "daemon")
    await ours.wait()
    there = {"how": "orphan", "then": "hangs", "file": str(tmp_path / "there")}
    running = asyncio.create_task(run_with_limit(fleeing.flee, there, SCOPE))
    neighbour = await _pid(tmp_path / "there")
    with pytest.raises(WorkerDied):
        await run_with_limit(
            fleeing.flee, {"how": "orphan", "then": "kills the supervisor", "file": str(tmp_path / "x")}, SCOPE
        )
    await dead(await _pid(tmp_path / "x"))
    assert alive(neighbour)
    assert alive(daemon)
    os.kill(daemon, signal.SIGKILL)
    running.cancel()
    await asyncio.wait([running])
    await dead(neighbour)


def _may_raise_limits() -> bool:
    """The system's administrator may, unless that was taken from them."""
    told = Path("/proc/self/status")
    return told.exists() and bool(int(told.read_text().partition("CapEff:")[2].split()[0], 16) >> 24 & 1)


@pytest.mark.skipif(_may_raise_limits(), reason="who may raise any limit may raise this one")
async def test_the_mark_stays_on() -> None:
    assert (await run_with_limit(fleeing.unmark, {}, SCOPE)).content == "not allowed to raise maximum limit"


async def test_the_loop_does_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it could not allow its end, which waits for that."""
    file, began, allowed = tmp_path / "pid", asyncio.Event(), threading.Event()
    loop, wait_for_exit = asyncio.get_running_loop(), worker._wait_for_exit  # pyright: ignore[reportPrivateUsage]
    heard: list[bool] = []

    def held(process: "subprocess.Popen[bytes]") -> None:
        loop.call_soon_threadsafe(began.set)
        heard.append(allowed.wait(30))
        wait_for_exit(process)

    monkeypatch.setattr(worker, "_wait_for_exit", held)
    given = {"how": "orphan", "then": "stops the supervisor", "file": str(file)}
    running = asyncio.create_task(run_with_limit(fleeing.flee, given, SCOPE))
    fled = await _pid(file)
    running.cancel()
    await began.wait()
    allowed.set()
    await asyncio.wait([running])
    await dead(fled)
    await _thread_is_back()
    assert heard == [True]


_DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    with open(sys.argv[1], "w") as out:
        out.write(str(os.getpid()))
    time.sleep(60)
"""
_GATEWAY = """
import asyncio, sys
from tests.attack.fleeing import flee
from tests.tools.liveness import SCOPE
asyncio.run(flee.run({"how": sys.argv[1], "then": sys.argv[3], "file": sys.argv[2]}, SCOPE))
"""


async def _gateway(how: str, file: Path, then: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return await asyncio.create_subprocess_exec(sys.executable, "-c", _GATEWAY, how, file, then, env=environment)


@pytest.mark.parametrize("how", HOW)
async def test_it_is_gone_with_a_gateway_that_was_killed(tmp_path: Path, how: str) -> None:
    file = tmp_path / "pid"
    gateway = await _gateway(how, file, "hangs")
    fled = await _pid(file)
    gateway.kill()
    await gateway.wait()
    await dead(fled)


async def test_of_a_gateway_that_was_killed_with_its_supervisor_the_next_one_ends_what_is_left(tmp_path: Path) -> None:
    gateway = await _gateway("bare orphan", tmp_path / "pid", "kills the gateway and the supervisor")
    fled = await _pid(tmp_path / "pid")
    assert await gateway.wait() == -signal.SIGKILL
    again = await _gateway("session", tmp_path / "again", "gives a result")
    assert await again.wait() == 0
    await dead(fled)


_FIRST = """
import asyncio, os, sys
from tests.attack.fleeing import flee
from tests.tools.liveness import SCOPE
from finclaw.tools.process.process_tree import become_subreaper
from finclaw.tools.time_limit import run_with_limit
from finclaw.tools.worker import WorkerDied
become_subreaper()
try:
    given = {"how": "orphan", "then": "kills the supervisor", "file": sys.argv[1]}
    asyncio.run(run_with_limit(flee, given, SCOPE))
except WorkerDied:
    try:
        print("left:", os.waitpid(-1, 0))
    except ChildProcessError:
        print("nobody")
"""


async def test_the_first_process_of_a_container_buries_them(tmp_path: Path) -> None:
    """All orphans are its children; those of a tool are asked for when they are dead."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _FIRST, tmp_path / "pid", env=environment, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await first.communicate()
    assert said == b"nobody\n"


async def test_a_family_is_found_by_whatever_name_it_goes(tmp_path: Path) -> None:
    """A program's name may hold brackets and spaces, which stand in the list of processes as they are."""
    program = tmp_path / "a) Z 1 (b"
    program.symlink_to(sys.executable)
    child = await asyncio.create_subprocess_exec(program, "-S", "-c", "import time; time.sleep(60)")
    try:
        assert child.pid in living_descendants(os.getpid())
    finally:
        child.kill()
        await child.wait()
    assert child.pid not in living_descendants(os.getpid())
