"""The core of one tool use: whatever happens becomes a result, and no layer gets around it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct
from tests.agent.bench import Bench

from finclaw.agent.settings import AgentSettings
from finclaw.errors import ExtensionError, ToolError
from finclaw.kernel.event import ToolEndedEvent, ToolStartedEvent
from finclaw.kernel.message import ToolResult, ToolStarted
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.kernel.scope import StepContext, StepResult, ToolCallContext
from finclaw.testing import call, reply
from finclaw.tools.define import tool


class Order(Struct):
    symbol: str
    amount: int = 1


ran: list[Order] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool("order", "Orders.")
async def order(args: Order, scope: ToolScope) -> ToolOutput:
    ran.append(args)
    return ToolOutput(f"ordered {args.amount} {args.symbol}")


def after(result: Any) -> Any:
    return reply(result), "done"


@pytest.mark.spec("T-17", "DX-24")
def test_arguments_are_checked_and_the_model_reads_why() -> None:
    bench = Bench(tools=[order])
    bench.run(*after(call("order", {"amount": "many"})))
    (result,) = bench.results
    assert (result.status, ran) == ("invalid", [])
    assert result.error is not None
    assert (result.error.name, result.error.code) == ("InvalidArguments", "invalid_arguments")
    assert "amount" in result.content
    assert "symbol" in result.content
    assert "call the tool again" in result.content


@pytest.mark.spec("DX-24")
def test_defaults_are_filled_in() -> None:
    bench = Bench(tools=[order])
    bench.run(*after(call("order", {"symbol": "AAPL"})))
    assert bench.results[0].content == "ordered 1 AAPL"


@pytest.mark.parametrize("raw", ['{"symbol": "AA', "[]", "AAPL"])
def test_arguments_that_cannot_be_read_are_never_run(raw: str) -> None:
    bench = Bench(tools=[order])
    bench.run(*after(call("order", raw=raw)))
    assert ran == []
    assert bench.results[0].status == "invalid"
    assert "not one complete JSON object" in bench.results[0].content


@pytest.mark.spec("T-12")
def test_a_tool_that_does_not_exist() -> None:
    bench = Bench(tools=[order])
    bench.run(*after(call("sell_everything")))
    assert bench.results[0].content == "there is no tool 'sell_everything' here; the tools are: order"


def test_a_tool_that_was_filtered_out_is_refused_too() -> None:
    async def hide(ctx: StepContext) -> StepResult:
        ctx.tool_catalog = ()
        return await ctx.next()

    bench = Bench(tools=[order], step=[hide])
    bench.run(*after(call("order", {"symbol": "AAPL"})))
    assert ran == []
    assert bench.results[0].content == "there is no tool 'order' here; the tools are: none"
    assert bench.provider is not None
    assert bench.provider.requests[0].tools == ()


@pytest.mark.spec("MW-26", "H-02", "DX-28")
def test_arguments_that_a_layer_changed_are_checked_again() -> None:
    async def spoil(ctx: ToolCallContext) -> ToolResult:
        ctx.args["amount"] = "a lot"
        return await ctx.next()

    bench = Bench(tools=[order], tool_call=[spoil])
    bench.run(*after(call("order", {"symbol": "AAPL"})))
    assert (ran, bench.results[0].status) == ([], "invalid")


@pytest.mark.spec("MW-26", "DX-56", "DX-28")
def test_arguments_that_a_layer_changed_are_the_ones_that_run() -> None:
    async def halve(ctx: ToolCallContext) -> ToolResult:
        ctx.args = {**ctx.args, "amount": ctx.args["amount"] // 2}
        return await ctx.next()

    bench = Bench(tools=[order], tool_call=[halve])
    bench.run(*after(call("order", {"symbol": "AAPL", "amount": 8})))
    assert ran == [Order("AAPL", 4)]
    assert bench.log is not None
    assert bench.log.messages[1].tool_calls[0].args["amount"] == 8  # what the model asked stays what it asked


async def _consented(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    asked.append(dict(args))
    return True


asked: list[dict[str, Any]] = []


@pytest.mark.spec("DX-28")
def test_consent_is_asked_for_exactly_what_will_run() -> None:
    asked.clear()

    @tool("buy", "Buys.", transactional=True)
    async def buy(args: Order, scope: ToolScope) -> ToolOutput:
        ran.append(args)
        return ToolOutput("bought")

    async def change(ctx: ToolCallContext) -> ToolResult:
        ctx.args["amount"] = 3
        return await ctx.next()

    bench = Bench(tools=[buy], tool_call=[change], consent=_consented)
    bench.run(*after(call("buy", {"symbol": "AAPL"}, id="c")))
    assert asked == [{"symbol": "AAPL", "amount": 3}]
    assert ran == [Order("AAPL", 3)]
    started = [each for group in bench.memory.groups for each in group if isinstance(each, ToolStarted)]
    assert started == [ToolStarted("c", "buy", transactional=True)]


@pytest.mark.spec("T-15")
def test_without_consent_it_is_denied_and_never_said_to_have_begun() -> None:
    @tool("buy", "Buys.", transactional=True)
    async def buy(args: Order, scope: ToolScope) -> ToolOutput:
        raise AssertionError("nobody allowed this")

    bench = Bench(tools=[buy])
    bench.run(*after(call("buy", {"symbol": "AAPL"})))
    assert bench.results[0].status == "denied"
    assert not any(isinstance(each, ToolStarted) for group in bench.memory.groups for each in group)


def waiting(seconds: float, timeout: float = 30.0, *, stubborn: bool = False) -> tuple[Tool, list[str]]:
    told: list[str] = []

    @tool("wait", "Waits.", timeout=timeout)
    async def wait(args: Struct, scope: ToolScope) -> ToolOutput:
        ends = asyncio.get_running_loop().time() + seconds
        while (left := ends - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                told.append("cancelled")
                if not stubborn:
                    raise
        told.append("finished")
        return ToolOutput("waited")

    return wait, told


@pytest.mark.spec("T-18")
def test_a_tool_that_takes_too_long_is_cancelled_and_the_model_told() -> None:
    wait, told = waiting(99, timeout=5)
    bench = Bench(tools=[wait])
    bench.run(*after(call("wait")))
    assert (bench.results[0].status, told) == ("timeout", ["cancelled"])
    assert "took longer than 5 s" in bench.results[0].content
    assert bench.clock.monotonic() == 5


@pytest.mark.spec("P-39", "DX-25")
def test_a_tool_that_ignores_its_cancellation_is_left_behind_after_the_grace() -> None:
    wait, told = waiting(60, timeout=5, stubborn=True)
    bench = Bench(tools=[wait])

    async def main() -> float:
        await bench.go(*after(call("wait")))
        ended = bench.clock.monotonic()
        await asyncio.sleep(100)
        return ended

    assert bench.clock.run(main()) == 7
    assert (bench.results[0].status, told) == ("timeout", ["cancelled", "finished"])


@pytest.mark.spec("T-18", "DX-25")
def test_a_cancelled_turn_is_not_a_timeout() -> None:
    wait, told = waiting(60, timeout=30)
    bench = Bench(tools=[wait])

    async def main() -> None:
        turn = asyncio.create_task(bench.go(*after(call("wait"))))
        await asyncio.sleep(1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    bench.clock.run(main())
    assert (bench.results, told) == ((), ["cancelled"])
    ended = [each for each in bench.events if isinstance(each, ToolEndedEvent)]
    assert [each.status for each in ended] == ["aborted"]


@pytest.mark.spec("T-16", "X-06")
@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ToolError("the market is closed"), "the market is closed"),
        (ValueError("internal detail"), "broken failed: ValueError"),
        (asyncio.CancelledError(), "broken was cancelled by something it uses and gave no result"),
        (TimeoutError(), "broken failed: TimeoutError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_a_tool_raises_is_a_result(error: BaseException, content: str) -> None:
    @tool("broken", "Breaks.")
    async def broken(args: Struct, scope: ToolScope) -> ToolOutput:
        raise error

    bench = Bench(tools=[broken])
    assert bench.run(*after(call("broken"))).text == "done"
    assert (bench.results[0].status, bench.results[0].content) == ("error", content)


@pytest.mark.spec("H-04", "DX-29")
def test_the_guard_sees_whatever_leaves_the_ring() -> None:
    async def raw(ctx: ToolCallContext) -> ToolResult:
        return ToolResult(ctx.call_id, ctx.tool_name, "a\x00b" + "x" * 200_000)

    bench = Bench(tools=[order], tool_call=[raw])
    bench.run(*after(call("order", {"symbol": "AAPL"})))
    (result,) = bench.results
    assert len(result.content) <= 10_000
    assert result.content.startswith("abx")
    assert "read_result" in result.content


def test_a_layer_that_returns_nonsense_ends_the_turn() -> None:
    async def nonsense(ctx: ToolCallContext) -> ToolResult:
        return "text"  # pyright: ignore[reportReturnType]

    with pytest.raises(ExtensionError, match="not ToolResult"):
        Bench(tools=[order], tool_call=[nonsense]).run(*after(call("order", {"symbol": "AAPL"})))


@pytest.mark.spec("DX-27b", "E-05")
def test_every_start_has_its_end() -> None:
    bench = Bench(tools=[order])
    bench.run(reply(call("order", {"symbol": "A"}), call("nothing"), call("order", raw="{")), "done")
    started = [each.call_id for each in bench.events if isinstance(each, ToolStartedEvent)]
    ended = {each.call_id: each.status for each in bench.events if isinstance(each, ToolEndedEvent)}
    assert [ended[call_id] for call_id in started] == ["ok", "error", "invalid"]


def test_starts_and_results_are_one_commit_each() -> None:
    bench = Bench(tools=[order], settings=AgentSettings(max_steps=2))
    bench.run(reply(call("order", {"symbol": "A"}), call("order", {"symbol": "B"})), "done")
    assert [[type(each).__name__ for each in group] for group in bench.memory.groups] == [
        ["Append", "ToolStarted", "ToolStarted"],
        ["Append"],
    ]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ToolError("the exchange refused it"), "error"),
        (ConnectionError("the line broke"), "unknown"),
        (asyncio.CancelledError(), "unknown"),
        (None, "unknown"),
    ],
    ids=["its own word", "surprise", "cancelled inside", "timeout"],
)
def test_only_its_own_word_tells_how_an_order_ended(error: BaseException | None, status: str) -> None:
    @tool("buy", "Buys.", transactional=True, timeout=5)
    async def buy(args: Order, scope: ToolScope) -> ToolOutput:
        if error is not None:
            raise error
        await asyncio.sleep(99)
        raise AssertionError

    bench = Bench(tools=[buy], consent=_consented)
    bench.run(*after(call("buy", {"symbol": "AAPL"})))
    assert bench.results[0].status == status
    assert ("Do not repeat it" in bench.results[0].content) is (status == "unknown")


@pytest.mark.spec("X-07")
def test_a_result_belongs_to_the_call_that_was_made() -> None:
    async def mixed_up(ctx: ToolCallContext) -> ToolResult:
        return ToolResult("another", "thing", "cached")

    bench = Bench(tools=[order], tool_call=[mixed_up])
    bench.run(*after(call("order", {"symbol": "AAPL"}, id="mine")))
    # Nobody knows where a layer has it from: it counts as what the tool itself would have brought.
    assert bench.results == (ToolResult("mine", "order", "cached", origin="order"),)
