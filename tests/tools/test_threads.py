"""Tools that block: bounded, contained, and left behind when they never come back."""

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable

import pytest

from finclaw.errors import ToolTimeout, ToolUnavailable
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import ToolScope
from finclaw.testing import FakeClock
from finclaw.tools.define import tool
from finclaw.tools.threads import ToolThreads
from finclaw.tools.time_limit import Broken, run_with_limit

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))
who = contextvars.ContextVar("who", default="nobody")


class Gate:
    """Work that ends when it is let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun = 0

    def __call__(self) -> str:
        self.begun += 1
        self.open.wait(100)
        return "late"


async def until(ready: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not ready():  # noqa: ASYNC110  a thread has no event that the loop could wait for
            await asyncio.sleep(0.005)


async def cancelled(task: "asyncio.Task[str]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.spec("DX-25")
async def test_those_that_hang_are_replaced_and_found_again_when_they_end() -> None:
    threads, gate = ToolThreads(at_once=2), Gate()
    for number in (1, 2, 3):
        task = asyncio.create_task(threads.run("hangs", gate))
        await until(lambda number=number: gate.begun == number)
        await cancelled(task)
    assert threads.lost == 3
    assert await threads.run("quick", lambda: "done") == "done"
    gate.open.set()
    await until(lambda: threads.lost == 0)
    assert await threads.run("quick", lambda: "done") == "done"


@pytest.mark.spec("DX-25")
async def test_beyond_the_limit_no_more_are_begun_until_one_ends() -> None:
    threads, gate = ToolThreads(at_once=1, most_lost=1), Gate()
    task = asyncio.create_task(threads.run("hangs", gate))
    await until(lambda: gate.begun == 1)
    await cancelled(task)
    with pytest.raises(ToolUnavailable, match="1 tools hang"):
        await threads.run("quick", lambda: "done")
    gate.open.set()
    await until(lambda: threads.lost == 0)
    assert await threads.run("quick", lambda: "done") == "done"


async def test_so_many_at_once_and_one_that_waits_can_be_cancelled() -> None:
    threads, gate = ToolThreads(at_once=1), Gate()
    first = asyncio.create_task(threads.run("first", gate))
    await until(lambda: gate.begun == 1)
    second = asyncio.create_task(threads.run("second", gate))
    await asyncio.sleep(0)
    await cancelled(second)
    third = asyncio.create_task(threads.run("third", gate))
    gate.open.set()
    assert (await first, await third) == ("late", "late")
    assert (gate.begun, threads.lost) == (2, 0)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """For threads that end as soon as the machine has time for them, however busy it is."""
    monkeypatch.setattr("finclaw.tools.threads.STOP_PATIENCE", 60)
    monkeypatch.setattr("finclaw.tools.time_limit.GRACE", 60)


@pytest.mark.usefixtures("patience")
async def test_work_that_can_be_stopped_is_not_lost() -> None:
    threads, gate = ToolThreads(), Gate()
    task = asyncio.create_task(threads.run("stoppable", gate, gate.open.set))
    await until(lambda: gate.begun == 1)
    await cancelled(task)
    assert threads.lost == 0


@pytest.mark.spec("T-07", "T-18")
@pytest.mark.usefixtures("patience")
async def test_a_tool_that_looks_whether_it_is_still_wanted_ends_by_itself() -> None:
    seen: list[str] = []

    @tool("patient__one", "Waits until it is told.", timeout=0.1)
    def patient(scope: ToolScope) -> str:
        while not scope.stopped():
            time.sleep(0.01)
        seen.append("stopped")
        return "too late"

    with pytest.raises(ToolTimeout):
        await run_with_limit(patient, {}, SCOPE)
    assert (seen, ToolThreads.here().lost, SCOPE.stopped()) == (["stopped"], 0, False)


@pytest.mark.spec("T-16")
@pytest.mark.parametrize(
    "error",
    [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), StopIteration(), asyncio.CancelledError(), BaseException()],
    ids=lambda error: type(error).__name__,
)
async def test_what_would_end_more_than_the_tool_is_contained(error: BaseException) -> None:
    def work() -> None:
        raise error

    with pytest.raises(Broken) as caught:
        await ToolThreads().run("breaks", work)
    assert caught.value.kind == type(error).__name__


async def test_plain_errors_come_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError):
        await ToolThreads().run("breaks", lambda: 1 // 0)


async def test_a_child_that_a_tool_forked_ends_where_the_tool_does() -> None:
    def forks() -> int:
        return os.fork()

    child = await ToolThreads().run("forks", forks)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 70


async def test_context_variables_go_along() -> None:
    who.set("somebody")
    assert await ToolThreads().run("looks", who.get) == "somebody"


def test_virtual_time_waits_for_a_thread() -> None:
    @tool("slow__one", "Takes a while.", timeout=5)
    def slow() -> str:
        time.sleep(0.05)
        return "done"

    clock = FakeClock()
    assert clock.run(run_with_limit(slow, {}, SCOPE)).content == "done"
    assert clock.monotonic() == 0
