"""Tools that do their worst: the turn ends in time, the session goes on, and nobody else gets their results."""

import asyncio
import os
import threading
import time
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from tests.agent.bench import Bench

from finclaw.errors import (
    InvalidArguments,
    ToolAwaiting,
    ToolDenied,
    ToolError,
    ToolStopped,
    ToolTimeout,
    ToolUnavailable,
)
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.event import CircuitChanged, ToolTimedOut
from finclaw.kernel.message import ToolResult
from finclaw.kernel.port import Isolation, Tool, ToolOutput, ToolScope
from finclaw.testing import call, reply
from finclaw.tools.define import raw_tool, tool
from finclaw.tools.registry import OPEN_AT, SHORTEST_REST
from finclaw.tools.threads import ToolThreads


async def yes(tool: Tool, args: Any, scope: ToolScope) -> bool:
    return True


def twice(name: str) -> tuple[Any, Any, Any]:
    return reply(call(name, {"n": 1})), reply(call(name, {"n": 2})), "done"


# ── whatever it raises ──────────────────────────────────────────────────────────────────────────────────────

EVERYTHING = [
    SystemExit(1),
    KeyboardInterrupt(),
    GeneratorExit(),
    RecursionError("deep"),
    MemoryError(),
    BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError()]),
    ExceptionGroup("several", [ValueError(), OSError()]),
    BaseException("bare"),
]


@pytest.mark.spec("T-16", "X-06", "X-10", "DX-25")
@pytest.mark.parametrize("isolation", ["loop", "thread"])
@pytest.mark.parametrize("error", [*EVERYTHING, StopIteration(), StopAsyncIteration()], ids=lambda e: type(e).__name__)
def test_nothing_that_a_tool_raises_ends_more_than_the_tool(error: BaseException, isolation: str) -> None:
    def raises() -> str:
        raise error

    async def raises_later() -> str:
        raise error

    broken = tool("broken", "Breaks.")(raises if isolation == "thread" else raises_later)
    bench = Bench(tools=[broken])
    assert bench.run(reply(call("broken")), "done").text == "done"
    (result,) = bench.results
    assert result.status == "error"
    assert result.error is not None
    assert result.error.code == "crashed"
    name = "RuntimeError" if isinstance(error, StopIteration) and isolation == "loop" else type(error).__name__
    assert result.content == f"broken failed: {name}"


@pytest.mark.parametrize("error", EVERYTHING, ids=lambda e: type(e).__name__)
def test_of_an_order_that_breaks_nobody_knows(error: BaseException) -> None:
    @tool("buy", "Buys.", transactional=True)
    async def buy() -> str:
        raise error

    bench = Bench(tools=[buy], consent=yes)
    assert bench.run(reply(call("buy")), "done").text == "done"
    assert bench.results[0].status == "unknown"


class Rude:
    """Not made by `@tool`, and true to nothing it says."""

    spec = ToolSpec("rude", "Is rude.", {"type": "object"})
    group = "custom"
    transactional = False
    parallel_safe = True
    timeout = 5.0
    approval = sensitive = changes = own_results = False
    upstream = ""
    isolation: Isolation = "loop"
    quote = None

    def __init__(self, gives: object) -> None:
        self._gives = gives

    def run(self, args: Any, scope: ToolScope) -> Any:
        return self._gives


async def _gives(value: object) -> object:
    return value


def test_a_run_that_is_no_coroutine_or_gives_something_else() -> None:
    bench = Bench(tools=[Rude("no awaitable")])
    bench.run(reply(call("rude")), "done")
    assert bench.results[0].content == "rude failed: TypeError"


@pytest.mark.parametrize(
    ("value", "content"),
    [({"a": 1}, '{"a":1}'), (7, "7"), (ToolOutput({"b": 2}, ["no fact"]), '{"b":2}')],  # pyright: ignore[reportArgumentType]
)
def test_whatever_it_gives_is_text_and_no_facts(value: object, content: str) -> None:
    bench = Bench(tools=[Rude(_gives(value))])
    bench.run(reply(call("rude")), "done")
    (result,) = bench.results
    assert (result.status, result.content, result.facts) == ("ok", content, ())


# ── however long it takes ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-25", "T-18", "E-07")
async def test_one_that_blocks_its_thread_for_ever_is_left_behind_and_its_result_is_nobodys() -> None:
    release, calls = threading.Event(), list[int]()

    @tool("block", "Blocks.", timeout=3.0)
    def block(n: int) -> str:
        calls.append(n)
        if n == 1:
            release.wait(100)
        return f"result {n}"

    bench = Bench(tools=[block])
    run = asyncio.create_task(bench.go(*twice("block")))
    await asyncio.wait([run], timeout=60)
    assert run.done()
    assert [(each.status, each.content) for each in bench.results][1:] == [("ok", "result 2")]
    assert bench.results[0].status == "timeout"
    assert [each.timeout for each in bench.events if isinstance(each, ToolTimedOut)] == [3.0]
    assert ToolThreads.here().lost == 1
    release.set()
    async with asyncio.timeout(60):
        while ToolThreads.here().lost:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (calls, len(bench.results), (await run).text) == ([1, 2], 2, "done")


@pytest.mark.spec("DX-25")
def test_one_that_swallows_every_cancellation_is_left_behind_and_kept_alive_by_somebody() -> None:
    finished: list[int] = []

    @tool("stubborn", "Never stops.", timeout=1)
    async def stubborn(n: int) -> str:
        for _ in range(100):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                continue
        finished.append(n)
        return f"late {n}"

    bench = Bench(tools=[stubborn])

    async def main() -> float:
        await bench.go(*twice("stubborn"))
        ended = bench.clock.monotonic()
        await asyncio.sleep(200)
        return ended

    assert bench.clock.run(main()) == 6  # a second, two of grace, and all that twice
    assert [each.status for each in bench.results] == ["timeout", "timeout"]
    assert sorted(finished) == [1, 2]


def test_one_that_starts_tasks_and_dies_harms_nobody() -> None:
    @tool("litter", "Leaves a task.")
    async def litter() -> str:
        async def later() -> None:
            await asyncio.sleep(1)
            raise RuntimeError("nobody hears this")

        litter_kept.append(asyncio.ensure_future(later()))
        raise ToolError("gone")

    bench = Bench(tools=[litter])
    assert bench.run(reply(call("litter")), "done").text == "done"


litter_kept: list["asyncio.Future[None]"] = []


@pytest.mark.spec("T-20")
@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_hundred_megabytes_are_cut_and_the_turn_goes_on(kind: str) -> None:
    @tool("much", "Gives much.")
    async def much() -> object:
        return "x" * (100 << 20) if kind == "text" else ["x" * (1 << 20)] * 100

    bench = Bench(tools=[much])
    started = time.process_time()
    assert bench.run(reply(call("much")), "done").text == "done"
    assert len(bench.results[0].content) <= 100_000
    assert time.process_time() - started < 5


async def test_a_tool_that_forks_leaves_no_second_gateway() -> None:
    children: list[int] = []

    @tool("fork", "Forks.")
    async def fork() -> str:
        children.append(os.fork())
        return "one of us"

    bench = Bench(tools=[fork])
    run = asyncio.create_task(bench.go(reply(call("fork")), "done"))
    assert (await run).text == "done"
    _, status = await asyncio.to_thread(os.waitpid, children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 70


# ── outcomes that can be told apart ─────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-25", "X-10")
@pytest.mark.parametrize(
    ("error", "status", "code", "failed"),
    [
        (ToolError("no"), "error", "failed", True),
        (ToolError("no", code="market_closed"), "error", "market_closed", True),
        (InvalidArguments("no"), "invalid", "invalid_arguments", True),
        (ToolDenied("no"), "denied", "denied", True),
        (ToolAwaiting("a tool cannot make a turn wait for a person"), "error", "failed", True),
        (ToolTimeout("no"), "timeout", "timeout", True),
        (ToolStopped("no"), "stopped", "stopped", True),
        (ToolUnavailable("no"), "unavailable", "unavailable", True),
        (type("Mine", (ToolUnavailable,), {})("no"), "unavailable", "unavailable", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_outcome_has_a_status_and_a_code(error: ToolError, status: str, code: str, failed: bool) -> None:
    @tool("one", "One.")
    async def one() -> str:
        raise error

    bench = Bench(tools=[one])
    bench.run(reply(call("one")), "done")
    (result,) = bench.results
    assert result.error is not None
    assert (result.status, result.error.code, result.is_error) == (status, code, failed)
    assert msgspec.json.decode(msgspec.json.encode(result), type=ToolResult) == result


def test_a_line_that_breaks_during_an_order_is_not_its_word() -> None:
    @tool("buy", "Buys.", transactional=True)
    async def buy() -> str:
        raise ToolUnavailable("the line broke")

    bench = Bench(tools=[buy], consent=yes)
    bench.run(reply(call("buy")), "done")
    assert bench.results[0].status == "unknown"


# ── what was plainly meant ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-24", "T-17", "DX-28")
def test_what_was_coerced_is_what_a_person_consents_to_and_what_the_model_is_told() -> None:
    asked: list[Any] = []

    async def consent(tool: Tool, args: Any, scope: ToolScope) -> bool:
        asked.append(args)
        return True

    class Order(Struct):
        symbol: str
        amount: int

    @tool("buy", "Buys.", transactional=True)
    async def buy(args: Order, scope: ToolScope) -> str:
        return f"bought {args.amount!r}"

    bench = Bench(tools=[buy], consent=consent)
    bench.run(reply(call("buy", {"symbol": "AAPL", "amount": "5"}, id="c")), "done")
    assert asked == [{"symbol": "AAPL", "amount": 5}]
    told = '[Arguments were read as another type than they were written: amount "5" as 5]'
    assert bench.results[0].content == f"bought 5\n\n{told}"
    assert bench.log is not None
    given = [message.metadata for message in bench.log.messages if message.role == "tool"]
    assert given == [{"given": {"c": {"symbol": "AAPL", "amount": 5}}}]


# ── what does not answer ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("T-19", "DX-26", "E-10")
def test_what_does_not_answer_is_left_alone_and_tried_again_later() -> None:
    ran: list[int] = []
    down = True

    async def feed(args: dict[str, Any], scope: ToolScope) -> str:
        ran.append(args["n"])
        if down:
            raise ToolUnavailable("the feed is down")
        return "up again"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [raw_tool(name, "Feeds.", schema, feed, upstream="feed.example.com") for name in ("one", "two")]

    async def later(ctx: Any) -> Any:
        nonlocal down
        if ctx.index == OPEN_AT + 1:
            down = False
            await asyncio.sleep(SHORTEST_REST)
        return await ctx.next()

    bench = Bench(tools=[*tools], step=[later])
    calls = [reply(call("one" if n % 2 else "two", {"n": n})) for n in range(OPEN_AT + 2)]
    bench.run(*calls, "done")
    assert ran == [*range(OPEN_AT), OPEN_AT + 1]
    assert [each.status for each in bench.results] == ["unavailable"] * (OPEN_AT + 1) + ["ok"]
    refused = bench.results[OPEN_AT].error
    assert refused is not None
    assert (refused.code, "try again in 30 s" in refused.message) == ("circuit_open", True)
    moves = [(each.before, each.after) for each in bench.events if isinstance(each, CircuitChanged)]
    assert moves == [("closed", "open"), ("open", "half_open"), ("half_open", "closed")]


def test_an_order_that_was_not_let_through_has_not_begun() -> None:
    @tool("buy", "Buys.", transactional=True, upstream="broker.example.com")
    async def buy(n: int) -> str:
        raise ToolTimeout("slow")

    bench = Bench(tools=[buy], consent=yes)
    bench.run(*(reply(call("buy", {"n": n})) for n in range(OPEN_AT + 1)), "done")
    assert [each.status for each in bench.results] == ["unknown"] * OPEN_AT + ["unavailable"]
