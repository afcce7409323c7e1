"""What a call has used that broke off, or of which nobody told: estimated by one rule, with a budget and without."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from tests.agent.bench import Bench, under
from tests.agent.talk import message

from finclaw.agent.budget.call_ledger import Payer, lines_of
from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.window.context_window import measured_size
from finclaw.errors import AuthFailed, StreamCut
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    Model,
    ModelRequest,
    Price,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.event import UsageUpdated
from finclaw.kernel.message import Text
from finclaw.kernel.record import Spend
from finclaw.testing import delay, fails, reply, say

PRICED = Model("scripted", "one", max_output=1_000, price=Price(Decimal(1), Decimal(10)))
BEGUN = UsageReport(Usage(input=1_000, output=1))
"""As Anthropic's API has it: before a word is said."""
WORDS = TextDelta("word " * 300)
THOUGHT = ThinkingDelta("so far so good " * 75)
CALL = (ToolUseStart("c1", "market__quote", 2), ToolInputDelta('{"symbols": [' + '"AAPL", ' * 100, 2))


class Broken:
    """A row of chunks for each call; one without an end breaks off."""

    name = "scripted"

    def __init__(self, *rows: tuple[Chunk, ...]) -> None:
        self._rows = iter(rows)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        for chunk in next(self._rows):
            yield chunk

    async def close(self) -> None:
        pass


def a_bench(*rows: tuple[Chunk, ...]) -> Bench:
    bench = Bench(model=PRICED, base=[message("u", "user", Text("word " * 1_000))])
    bench.fallbacks = [ModelRoute(Broken(*rows), PRICED, "second")]
    return bench


def booked(bench: Bench) -> Spend:
    assert bench.log is not None
    (line,) = lines_of(bench.log.ledger.settled, Payer("main", "ada"))
    return line


@pytest.mark.spec("CO-01")
@pytest.mark.parametrize("budget", [False, True])
@pytest.mark.parametrize("report", [(BEGUN,), ()], ids=["reported at its beginning", "reported at its end only"])
@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ((WORDS,), 290, 400),
        ((THOUGHT,), 270, 400),
        (CALL, 200, 600),
        ((THOUGHT, WORDS, *CALL), 800, 1_300),
    ],
    ids=["words", "thoughts", "a call", "all of them"],
)
def test_a_call_that_broke_off_is_booked_with_what_was_heard(
    said: tuple[Chunk, ...], least: int, most: int, report: tuple[Chunk, ...], budget: bool
) -> None:
    bench = a_bench(*[(*report, *said)] * 3)
    if budget:
        under(bench, month_usd="1")
    with pytest.raises(StreamCut):
        bench.run(fails(AuthFailed("x")))
    line = booked(bench)
    assert line.calls == 3
    assert 3 * least <= line.usage.output <= 3 * most
    assert line.usage.input == 3_000 if report else 3 * 900 <= line.usage.input <= 6 * 900
    assert line.cost == PRICED.cost(line.usage)


def test_with_a_budget_and_without_the_books_say_the_same() -> None:
    lines: list[Spend] = []
    for limits in ({}, {"month_usd": "1"}):
        bench = a_bench((WORDS,), (*CALL,), (THOUGHT, WORDS, Done()))
        if limits:
            under(bench, **limits)
        bench.run(fails(AuthFailed("x")))
        lines.append(booked(bench))
    assert lines[0] == lines[1]


def test_a_report_that_is_larger_than_what_was_heard_holds() -> None:
    bench = a_bench((UsageReport(Usage(input=1_000, output=900)), WORDS), (WORDS, UsageReport(Usage(7, 3)), Done()))
    bench.run(fails(AuthFailed("x")))
    assert booked(bench).usage == Usage(1_007, 903), "and of a whole answer it is the last word"


def test_a_call_that_never_began_costs_nothing() -> None:
    bench = a_bench((), (), ())
    with pytest.raises(StreamCut):
        bench.run(fails(AuthFailed("x")))
    assert bench.log is not None
    assert lines_of(bench.log.ledger.settled, Payer("main", "ada")) == ()


def test_a_stop_is_booked_without_a_budget_too() -> None:
    bench = Bench(model=PRICED)

    async def stopped() -> None:
        turn = asyncio.create_task(bench.go(reply(say("word " * 300), delay(60), say("never said"), usage=None)))
        await bench.clock.sleep(1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    bench.clock.run(stopped())
    assert 290 <= booked(bench).usage.output <= 400


# ── what was paid for is not how large the conversation is ──────────────────────────────────────────────────


def test_tries_that_broke_off_do_not_make_the_conversation_look_larger() -> None:
    """Three times the same thousand tokens were paid for; a window would seem full that is not."""
    whole = (UsageReport(Usage(input=1_000, output=20)), TextDelta(" end"), Done())
    bench = a_bench((BEGUN, WORDS), (BEGUN, WORDS), whole)
    answer = bench.run(fails(AuthFailed("x"))).messages[-1]
    assert booked(bench).usage.input == 3_000
    assert measured_size(answer) == 1_020
    (told,) = [event for event in bench.events if isinstance(event, UsageUpdated)]
    assert (told.context, told.usage.input) == (1_000, 3_000)


def test_what_was_only_estimated_is_not_taken_for_measured() -> None:
    bench = a_bench((WORDS, Done()))
    answer = bench.run(fails(AuthFailed("x"))).messages[-1]
    assert booked(bench).usage.input > 900
    assert measured_size(answer) == 0


def test_an_answer_at_the_first_try_carries_nothing_more_than_before() -> None:
    bench = a_bench((BEGUN, WORDS, UsageReport(Usage(1_000, 300)), Done()))
    answer = bench.run(fails(AuthFailed("x"))).messages[-1]
    assert set(answer.metadata) == {"usage", "model", "cost", "stop"}
    assert measured_size(answer) == 1_300
