"""Whatever an MCP program has started is gone when it is closed or has crashed, also what has fled from it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.builtins.mcp.bench import Bench, until
from tests.tools.liveness import alive, dead

from finclaw.errors import ToolError
from finclaw.tools.process.process_tree import living_descendants
from finclaw.tools.process.supervisor import build_supervisor_command

pytestmark = [
    pytest.mark.spec("DX-25"),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a group is all there is"),
]
SERVER = {"command": [sys.executable, str(Path(__file__).parent / "fleeing_server.py")]}
ENDS = ("vanishes", "crashes", "kills the supervisor", "has a child kill the supervisor")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def fled(bench: Bench, then: str) -> tuple[int, int]:
    """The numbers of who has fled and of the program."""
    await bench.has("far__act")
    child, program = (await bench.run("far__act", then=then)).splitlines()[1].split()
    return int(child), int(program)


@pytest.mark.parametrize("then", ["goes on", "stops the supervisor", "ignores every word", *ENDS])
async def test_an_orphan_is_gone_when_the_server_is_closed(bench: Bench, then: str) -> None:
    before = living_descendants(os.getpid())
    async with bench.open(servers={"far": SERVER}):
        child, program = await fled(bench, then)
    await dead(child, program)
    await until(lambda: living_descendants(os.getpid()) <= before)


@pytest.mark.parametrize("then", ENDS)
async def test_an_orphan_is_gone_when_the_server_has_ended_by_itself(bench: Bench, then: str) -> None:
    async with bench.open(servers={"far": SERVER}):
        child, program = await fled(bench, then)
        await dead(child, program)
        async with asyncio.timeout(20):
            while (again := await _fled_again(bench)) is None:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)
        assert alive(again)


async def _fled_again(bench: Bench) -> int | None:
    try:
        return (await fled(bench, "goes on"))[0]
    except ToolError:  # nobody has seen yet that it is gone
        return None


async def test_an_orphan_of_a_server_that_runs_is_let_alone(bench: Bench) -> None:
    """Some have a daemon, and use it: it ends with them, and not before."""
    async with bench.open(servers={"far": SERVER, "other": SERVER}):
        child, _ = await fled(bench, "goes on")
        await bench.has("other__act")
        gone = (await bench.run("other__act", then="kills the supervisor")).splitlines()[1].split()
        await dead(*map(int, gone))
        assert alive(child)
    await dead(child)


_GATEWAY = """
import asyncio, sys
from pathlib import Path
from tests.attack.test_mcp_escape import SERVER, fled
from tests.builtins.mcp.bench import Bench

async def main():
    bench = Bench(Path(sys.argv[1]))
    async with bench.open(servers={"far": SERVER}):
        print(*await fled(bench, "ignores every word"), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_an_orphan_is_gone_with_a_gateway_that_was_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    gateway = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _GATEWAY, str(tmp_path), env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert gateway.stdout is not None
    child, program = map(int, (await gateway.stdout.readline()).split())
    gateway.kill()
    await gateway.wait()
    await dead(child, program)


async def test_a_program_that_is_none_says_so(bench: Bench, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    servers = {
        "nowhere": {"command": ["no-such-program-anywhere"]},
        "text": {"command": [str(text)]},
    }
    before = living_descendants(os.getpid())
    async with bench.open(servers=servers):
        await bench.says("there is no program no-such-program-anywhere; install it, or give its whole path")
        await bench.says("PermissionError")
        await until(lambda: living_descendants(os.getpid()) <= before)


@pytest.mark.parametrize("environment", [{}, {"LANG": "C", "A": "b=c"}, {"LC_ALL": "POSIX", "PYTHONHOME": "/nowhere"}])
async def test_the_program_gets_the_environment_it_was_given_and_nothing_on_a_command_line(
    environment: dict[str, str],
) -> None:
    word, told = os.pipe()
    env = await asyncio.create_subprocess_exec(
        *build_supervisor_command(["/usr/bin/env", "-0"], told),
        env=environment,
        pass_fds=(told,),
        start_new_session=True,
        stdout=asyncio.subprocess.PIPE,
    )
    os.close(told)
    said, _ = await env.communicate()
    assert dict(each.split("=", 1) for each in said.decode().split("\0") if each) == environment
    assert env.returncode == 0
    assert os.read(word, 16) == b"0\n"
    assert os.read(word, 16) == b"", "and closed it"
    os.close(word)
