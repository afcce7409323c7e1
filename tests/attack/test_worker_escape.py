"""Whatever a tool has started is gone with it, also what has fled into a session of its own."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest
from tests.attack import fleeing
from tests.tools.test_worker import SCOPE, dead

from finclaw.tools.family import living_descendants
from finclaw.tools.limit import run_with_limit
from finclaw.tools.threads import ToolThreads

pytestmark = [
    pytest.mark.spec("DX-25"),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a group is all there is"),
]
HOW = ("session", "orphan", "bare orphan", "fork without a program")
THEN = ("gives a result", "fails", "vanishes", "is killed with its group", "hangs", "stops the warden")


async def _pid(file: Path) -> int:
    async with asyncio.timeout(20):
        while not (written := _written(file)):  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
    return int(written)


def _written(file: Path) -> str:
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("how", HOW)
async def test_who_flees_is_gone_with_the_tool(tmp_path: Path, how: str, then: str) -> None:
    file, before = tmp_path / "pid", living_descendants(os.getpid())
    running = asyncio.create_task(run_with_limit(fleeing.flee, {"how": how, "then": then, "file": str(file)}, SCOPE))
    fled = await _pid(file)
    if then in ("hangs", "stops the warden"):
        await asyncio.sleep(0.05)
        running.cancel()
    await asyncio.wait([running])
    await dead(fled)
    assert ToolThreads.here().lost == 0
    assert living_descendants(os.getpid()) <= before


async def test_the_loop_does_not_wait_for_it(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    given = {"how": "orphan", "then": "stops the warden", "file": str(file)}
    running = asyncio.create_task(run_with_limit(fleeing.flee, given, SCOPE))
    await _pid(file)
    running.cancel()
    longest, last = 0.0, time.monotonic()
    while not running.done():
        await asyncio.sleep(0)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert longest < 0.1


_GATEWAY = """
import asyncio, sys
from tests.attack.fleeing import flee
from tests.tools.test_worker import SCOPE
asyncio.run(flee.run({"how": sys.argv[1], "then": "hangs", "file": sys.argv[2]}, SCOPE))
"""


@pytest.mark.parametrize("how", HOW)
async def test_it_is_gone_with_a_gateway_that_was_killed(tmp_path: Path, how: str) -> None:
    file = tmp_path / "pid"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    gateway = await asyncio.create_subprocess_exec(sys.executable, "-c", _GATEWAY, how, str(file), env=environment)
    fled = await _pid(file)
    gateway.kill()
    await gateway.wait()
    await dead(fled)


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
