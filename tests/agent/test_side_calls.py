"""What a turn asks for itself is paid for like any question: whatever becomes of it is booked, and holds no money."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct
from tests.agent.bench import Bench, under
from tests.agent.long_talk import talked

from finclaw.agent.budget.budget import Budget
from finclaw.agent.budget.call_ledger import Payer, lines_of
from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.agent.window.context_window import SUMMARY_SECONDS
from finclaw.errors import AuthFailed, Overloaded, ProviderError, TurnStopped
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    Model,
    ModelRequest,
    Price,
    TextDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.port import Clock, Tool, ToolOutput, ToolScope
from finclaw.kernel.record import Spend
from finclaw.testing import FakeClock, delay, fails
from finclaw.testing.provider import Delay
from finclaw.tools.define import tool

PRICE = Price(Decimal(1), Decimal(10))
PRICED = Model("scripted", "one", max_output=1_000, price=PRICE)
SMALL = Model("scripted", "one", window=8_000, max_output=1_000, price=PRICE)
TREND: dict[str, Any] = {"type": "object", "properties": {"up": {"type": "boolean"}}, "required": ["up"]}

BEGUN = UsageReport(Usage(input=1_000, output=1))
WORDS = TextDelta("word " * 300)
FOREVER = delay(100_000.0)

Moment = Chunk | Delay | Exception
"""What comes, how long it takes, how it breaks; a row that just ends was cut off."""

OWN = (UsageReport(Usage(1, 1)), TextDelta("done"), Done())
CALLS = (UsageReport(Usage(1, 1)), ToolUseStart("c1", "trend", 0), ToolUseEnd(0), Done("tool_use"))


class Server:
    """Plays a row for each question that the turn asks for itself; its own it answers at once."""

    name = "scripted"

    def __init__(self, clock: Clock, *rows: tuple[Moment, ...]) -> None:
        self._clock = clock
        self._rows = iter(rows)
        self.quiet = 0
        self.streaming = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.streaming += 1
        try:
            for moment in self._row(request):
                if isinstance(moment, Exception):
                    raise moment
                if isinstance(moment, Delay):
                    await self._clock.sleep(moment.seconds)
                else:
                    yield moment
        finally:
            self.streaming -= 1

    def _row(self, request: ModelRequest) -> tuple[Moment, ...]:
        if request.answer_schema is not None or BEGIN in request.messages[0].text:
            self.quiet += 1
            return next(self._rows)
        return OWN if request.messages[-1].tool_results or not request.tools else CALLS

    async def close(self) -> None:
        pass


@tool("trend", "Tells the trend.")
async def trend(args: Struct, scope: ToolScope) -> ToolOutput:
    assert scope.ask is not None
    return ToolOutput(str(await scope.ask("Is it up?", TREND)))


def a_bench(*rows: tuple[Moment, ...], budget: bool = True, **parts: Any) -> tuple[Bench, Server, Budget | None]:
    usual: dict[str, Any] = {"model": PRICED, "tools": [trend]}
    bench = Bench(**usual | parts)
    server = Server(bench.clock, *rows)
    bench.fallbacks = [ModelRoute(server, bench.model, "second")]
    return bench, server, under(bench, month_usd="1") if budget else None


def booked(bench: Bench) -> Spend:
    assert bench.log is not None
    (line,) = lines_of(bench.log.ledger.settled, Payer("main", "ada"))
    return line


def holds_nothing(budget: Budget | None, spent: Decimal) -> None:
    if budget is not None:
        (month,) = budget.accounts("main", "ada")
        assert (month.reserved, month.spent) == (0, spent)


BREAKS: list[tuple[Moment, ...]] = [
    (),
    (ProviderError("broke"),),
    (Overloaded("busy"),),
    (ValueError("a bug of the provider"),),
    (FOREVER,),
]
NAMES = ["cut", "fails", "is busy", "has a bug", "falls silent"]


@pytest.mark.spec("CO-01", "DX-47")
@pytest.mark.parametrize("budget", [False, True])
@pytest.mark.parametrize("report", [(BEGUN,), ()], ids=["reported at its beginning", "never reported"])
@pytest.mark.parametrize("end", BREAKS, ids=NAMES)
def test_a_quiet_call_that_broke_off_is_booked_with_what_was_heard(
    end: tuple[Moment, ...], report: tuple[Chunk, ...], budget: bool
) -> None:
    bench, server, house = a_bench(*[(*report, WORDS, *end)] * 3, budget=budget)
    result = bench.run(*[fails(AuthFailed("x"))] * 9)
    assert result.text == "done", "and the turn goes on without it"
    line = booked(bench)
    assert line.calls == 2 + server.quiet
    assert 290 * server.quiet <= line.usage.output - 2 <= 400 * server.quiet
    assert line.usage.input - 2 >= (1_000 if report else 20) * server.quiet
    assert line.cost == PRICED.cost(line.usage) == result.cost
    holds_nothing(house, line.cost)


@pytest.mark.spec("CO-01")
@pytest.mark.parametrize("end", [*BREAKS[:3], BREAKS[4]], ids=[*NAMES[:3], NAMES[4]])
def test_a_summary_that_broke_off_is_booked(end: tuple[Moment, ...]) -> None:
    bench, server, house = a_bench(*[(BEGUN, WORDS, *end)] * 30, base=talked(120), tools=[], model=SMALL)
    assert bench.run(*[fails(AuthFailed("x"))] * 9).text == "done"
    assert server.quiet >= 1
    line = booked(bench)
    assert line.calls == 1 + server.quiet
    assert line.usage.input == 1 + 1_000 * server.quiet
    assert 290 * server.quiet <= line.usage.output - 1 <= 400 * server.quiet
    holds_nothing(house, line.cost)
    assert bench.clock.monotonic() < 5 * SUMMARY_SECONDS


@pytest.mark.spec("CO-01", "DX-47")
@pytest.mark.parametrize("after", [0.5, 3.0], ids=["in the middle of a try", "in the pause between two"])
def test_a_turn_that_is_stopped_in_a_quiet_call_pays_for_it(after: float) -> None:
    slow = (BEGUN, WORDS, FOREVER) if after < 1 else (BEGUN, WORDS, delay(2.5))
    bench, server, house = a_bench(slow, (FOREVER,))

    async def stopped() -> None:
        turn = asyncio.create_task(bench.go(*[fails(AuthFailed("x"))] * 9))
        await bench.clock.sleep(after)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    bench.clock.run(stopped())
    assert (server.quiet, server.streaming) == (1, 0)
    line = booked(bench)
    assert (line.calls, line.usage.input) == (2, 1_001)
    assert 290 <= line.usage.output <= 400
    holds_nothing(house, line.cost)


# ── whoever is left behind ──────────────────────────────────────────────────────────────────────────────────


def stubborn(clock: FakeClock, heard: list[BaseException], after: float = 0.0) -> Tool:
    """Asks in a task of its own, where nobody can reach it, and goes."""
    tasks: set[asyncio.Task[None]] = set()

    async def asked(scope: ToolScope) -> None:
        assert scope.ask is not None
        await clock.sleep(after)
        try:
            await scope.ask("Is it up?", TREND)
        except TurnStopped as error:
            heard.append(error)

    @tool("trend", "Tells the trend.")
    async def leaves(args: Struct, scope: ToolScope) -> ToolOutput:
        tasks.add(asyncio.create_task(asked(scope)))
        await clock.sleep(1.0)
        return ToolOutput("gone")

    return leaves


@pytest.mark.spec("CO-01", "DX-47")
@pytest.mark.parametrize("budget", [False, True])
def test_a_question_that_outlives_its_turn_is_broken_off_and_paid_for(budget: bool) -> None:
    heard: list[BaseException] = []
    bench, server, house = a_bench((BEGUN, WORDS, FOREVER), budget=budget)
    bench.tools = [stubborn(bench.clock, heard)]

    async def run() -> None:
        result = await bench.go(*[fails(AuthFailed("x"))] * 9)
        line = booked(bench)
        assert (line.calls, line.usage.input) == (3, 1_002)
        assert 290 <= line.usage.output - 2 <= 400
        assert result.cost == line.cost, "the turn itself tells of it"
        holds_nothing(house, line.cost)
        await bench.clock.sleep(1.0)
        assert server.streaming == 0, "nobody reads on where nobody pays"
        assert [type(error) for error in heard] == [TurnStopped]
        assert bench.log is not None
        assert len(bench.log.paid_calls()) == 3, "nor is it paid for twice"
        holds_nothing(house, line.cost)

    bench.clock.run(run())


def test_what_its_earlier_tries_cost_is_in_the_books_at_once() -> None:
    """It waits for its next try when the turn ends."""
    heard: list[BaseException] = []
    bench, server, house = a_bench((BEGUN, WORDS, Overloaded("busy")), (BEGUN, WORDS, FOREVER))
    bench.tools = [stubborn(bench.clock, heard)]

    async def run() -> None:
        await bench.go(*[fails(AuthFailed("x"))] * 9)
        line = booked(bench)
        assert (server.quiet, line.calls, line.usage.input) == (1, 3, 1_002)
        await bench.clock.sleep(60.0)
        assert (server.quiet, [type(error) for error in heard]) == (1, [TurnStopped])
        holds_nothing(house, line.cost)

    bench.clock.run(run())


def test_nothing_is_asked_once_the_turn_is_over() -> None:
    heard: list[BaseException] = []
    bench, server, _ = a_bench()
    bench.tools = [stubborn(bench.clock, heard, after=5.0)]

    async def run() -> None:
        await bench.go(*[fails(AuthFailed("x"))] * 9)
        await bench.clock.sleep(60.0)
        assert (server.quiet, [type(error) for error in heard]) == (0, [TurnStopped])

    bench.clock.run(run())


def test_a_turn_that_is_stopped_takes_along_what_its_tools_left_behind() -> None:
    heard: list[BaseException] = []
    bench, server, house = a_bench((BEGUN, WORDS, FOREVER))
    bench.tools = [stubborn(bench.clock, heard)]

    async def run() -> None:
        turn = asyncio.create_task(bench.go(*[fails(AuthFailed("x"))] * 9))
        await bench.clock.sleep(0.5)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        line = booked(bench)
        assert (line.calls, line.usage.input) == (2, 1_001)
        await bench.clock.sleep(1.0)
        assert (server.streaming, [type(error) for error in heard]) == (0, [TurnStopped])
        holds_nothing(house, line.cost)

    bench.clock.run(run())
