"""Turns with tools, and what a crash in the middle of one changes: nothing that was done is done again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.walks.house import House, crash, in_virtual_time, until
from tests.walks.tools import Desk, hang

from finclaw.agent.settings import AgentSettings
from finclaw.errors import SessionError
from finclaw.kernel.message import ToolResult
from finclaw.kernel.port import Isolation, Tool, ToolScope
from finclaw.kernel.scope import ToolCallContext, ToolUse
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import call, reply, say


async def yes(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    return True


@in_virtual_time
async def test_the_definitions_of_the_default_tools_stay_short(house: House) -> None:
    """Every model call pays for them; a window of 8,192 tokens must hold them and a conversation."""
    async with house.open("Hi.", agent=AgentSettings(model="scripted/model")) as gateway:
        assert (await gateway.ask("hello")).kind == "answered"
        told = [(each.name, each.description, each.input_schema) for each in gateway.provider.requests[0].tools]
    assert len(told) >= 28
    assert len(msgspec.json.encode(told)) <= 14_000


@pytest.mark.spec("P-37", "P-40", "DX-21", "T-07")
@in_virtual_time
async def test_row_07_one_tool(house: House) -> None:
    desk = Desk()
    async with house.open(
        reply("Let me see. ", call("look", {"text": "x"})), "It is x.", tools=[desk.tool("look")]
    ) as gateway:
        accepted = await gateway.channel.write("what is it?", sender="ada")
        outcome = await gateway.outcome(accepted)
        assert (outcome.kind, outcome.reply, outcome.tools) == ("answered", "It is x.", (ToolUse("look", "ok"),))
        assert desk.runs == [("look", "x")]
        scope = desk.scopes[0]
        assert (scope.session, scope.turn_id) == (accepted.session, outcome.turn_id)
        assert (scope.sender.id, scope.channel, scope.call_id) == ("ada", "memory", "call_1_1")
        assert [each.role for each in gateway.seen] == ["user", "assistant", "tool"]
        assert gateway.results == [ToolResult("call_1_1", "look", "look: x")]


@pytest.mark.spec("DX-21", "P-37")
@in_virtual_time
async def test_row_07_every_round_stays_in_sight(house: House) -> None:
    desk = Desk()
    script = [reply(call("look", {"text": str(number)})) for number in range(3)]
    async with house.open(*script, "done", "more", tools=[desk.tool("look")]) as gateway:
        await gateway.ask("go")
        assert [result.content for result in gateway.results] == ["look: 0", "look: 1", "look: 2"]
        await gateway.ask("and?")
        assert [each.role for each in gateway.seen] == ["user", *["assistant", "tool"] * 3, "assistant", "user"]


@pytest.mark.spec("P-38")
@in_virtual_time
async def test_row_07_several_tools_run_side_by_side_and_answer_in_call_order(house: House) -> None:
    finished: list[str] = []

    async def wait_for(text: str, scope: ToolScope) -> str:
        await house.clock.sleep(float(text))
        finished.append(text)
        return text

    desk = Desk()
    calls = [call("wait", {"text": text}) for text in ("3", "1", "2")]
    async with house.open(reply(*calls), "done", tools=[desk.tool("wait", wait_for)]) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.duration_ms == 3000
        assert finished == ["1", "2", "3"]
        assert [result.content for result in gateway.results] == ["3", "1", "2"]


@pytest.mark.spec("P-38", "X-03")
@in_virtual_time
async def test_one_call_that_is_not_safe_makes_all_wait_their_turn(house: House) -> None:
    async def second(text: str, scope: ToolScope) -> str:
        await house.clock.sleep(1)
        return text

    desk = Desk()
    tools = [desk.tool("wait", second), desk.tool("alone", second, parallel_safe=False)]
    async with house.open(reply(call("wait"), call("alone"), call("wait")), "done", tools=tools) as gateway:
        assert (await gateway.ask("go")).duration_ms == 3000
        assert [name for name, _ in desk.runs] == ["wait", "alone", "wait"]


@pytest.mark.spec("P-38", "X-03")
@in_virtual_time
async def test_at_most_so_many_tools_run_at_once(house: House) -> None:
    running, most = 0, 0

    async def count(text: str, scope: ToolScope) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await house.clock.sleep(1)
        running -= 1
        return text

    desk = Desk()
    calls = [call("count", {"text": str(number)}) for number in range(7)]
    settings = AgentSettings(parallel_tools=3)
    async with house.open(reply(*calls), "done", tools=[desk.tool("count", count)], agent=settings) as gateway:
        assert (await gateway.ask("go")).duration_ms == 3000
        assert most == 3
        assert [result.content for result in gateway.results] == [str(number) for number in range(7)]


@pytest.mark.spec("P-37", "DX-21")
@in_virtual_time
async def test_row_07_at_the_limit_the_model_closes_without_tools(house: House) -> None:
    desk = Desk()
    script = [reply(call("look", {"text": str(number)})) for number in range(3)]
    settings = AgentSettings(max_steps=3)
    async with house.open(*script, "That is all I found.", tools=[desk.tool("look")], agent=settings) as gateway:
        outcome = await gateway.ask("search for ever")
        assert (outcome.kind, outcome.reply) == ("answered", "That is all I found.")
        assert len(desk.runs) == 3
        assert [bool(request.tools) for request in gateway.provider.requests] == [True, True, True, False]
        (turn,) = await gateway.app.turns(1)
        assert (turn.status, turn.steps) == ("max_steps", 4)


@in_virtual_time
async def test_a_closing_answer_that_calls_a_tool_all_the_same_leaves_nothing_open(house: House) -> None:
    desk = Desk()
    script = (reply(call("look")), reply(say("Enough."), call("look")), "next")
    async with house.open(*script, tools=[desk.tool("look")], agent=AgentSettings(max_steps=1)) as gateway:
        assert (await gateway.ask("go")).reply == "Enough."
        assert len(desk.runs) == 1
        await gateway.ask("and?")
        assert_whole(gateway.seen)


def assert_whole(messages: Any) -> None:
    """Every call has exactly one result, in the message right behind it."""
    for place, message in enumerate(messages):
        if message.tool_calls:
            answered = [result.call_id for result in messages[place + 1].tool_results]
            assert answered == [each.id for each in message.tool_calls]


@in_virtual_time
async def test_models_that_number_every_answer_anew_confuse_nobody(house: House) -> None:
    desk = Desk()
    again = call("look", {"text": "a"}, id="call_0")
    twins = (call("look", {"text": "b"}, id="call_0"), call("look", {"text": "c"}, id="call_0"))
    async with house.open(reply(again), reply(*twins), "done", tools=[desk.tool("look")]) as gateway:
        await gateway.ask("go")
        assert_whole(gateway.seen)
        assert [result.content for result in gateway.results] == ["look: a", "look: b", "look: c"]
        assert len({result.call_id for result in gateway.results}) == 3


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("point", ["tools:started", "tools:ended"])
@in_virtual_time
async def test_after_a_crash_the_model_is_not_asked_again(house: House, point: str) -> None:
    desk = Desk()
    tools = [desk.tool("look")]
    await crash(house, point, reply(call("look", {"text": "x"})), tools=tools)
    async with house.open("It is x.", tools=tools) as gateway:
        await gateway.app.idle()
        assert gateway.said == ["It is x."]
        assert len(gateway.provider.requests) == 1
        assert gateway.results == [ToolResult("call_1_0", "look", "look: x")]
        (turn,) = await gateway.app.turns(9)
        assert (turn.status, turn.steps, turn.usage.input) == ("completed", 2, 200)


@in_virtual_time
async def test_after_a_crash_finished_tools_are_not_run_again(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look")]
    await crash(house, "results:after_commit", reply(call("look", {"text": "x"})), tools=tools)
    async with house.open("It is x.", tools=tools) as gateway:
        await gateway.app.idle()
        assert desk.runs == [("look", "x")]
        assert gateway.said == ["It is x."]
        assert_whole(gateway.seen)


@in_virtual_time
async def test_a_crash_in_the_second_step_keeps_the_first(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look")]
    script = (reply(call("look", {"text": "1"})), reply(call("look", {"text": "2"})))
    await crash(house, "tools:started", *script, n=2, tools=tools)
    async with house.open("both", tools=tools, agent=AgentSettings(max_steps=2)) as gateway:
        await gateway.app.idle()
        assert desk.runs == [("look", "1"), ("look", "2")]
        assert gateway.said == ["both"]
        assert not gateway.provider.requests[0].tools  # both steps had been made, only the closing answer was missing
        assert [result.content for result in gateway.results] == ["look: 1", "look: 2"]


@in_virtual_time
async def test_a_crash_before_the_models_answer_is_on_disk_asks_it_again(house: House) -> None:
    await crash(house, "model:ended", "never seen")
    async with house.open("seen") as gateway:
        await gateway.app.idle()
        assert gateway.said == ["seen"]


@pytest.mark.parametrize("point", ["tools:between", "tools:ended"])
@in_virtual_time
async def test_the_word_of_an_order_survives_a_crash_and_the_order_is_not_repeated(house: House, point: str) -> None:
    desk = Desk()
    tools = [desk.tool("order", transactional=True), desk.tool("look")]
    script = reply(call("order", {"text": "10 AAPL"}), call("look"))
    await crash(house, point, script, tools=tools, consent=yes)
    assert desk.runs[0] == ("order", "10 AAPL")
    async with house.open("It went through.", tools=tools, consent=yes) as gateway:
        await gateway.app.idle()
        assert [name for name, _ in desk.runs].count("order") == 1
        order, look = gateway.results
        assert (order.status, order.content, look.status) == ("ok", "order: 10 AAPL", "ok")
        assert_whole(gateway.seen)


@in_virtual_time
async def test_an_order_that_had_begun_is_never_begun_again(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("order", transactional=True), desk.tool("look")]
    script = reply(call("order", {"text": "10 AAPL"}), call("look"))
    await crash(house, "tools:money_moved", script, tools=tools, consent=yes)
    assert desk.runs == [("order", "10 AAPL")]
    async with house.open("I do not know whether it went through.", tools=tools, consent=yes) as gateway:
        await gateway.app.idle()
        assert desk.runs == [("order", "10 AAPL"), ("look", "")]
        order, look = gateway.results
        assert (order.status, look.status) == ("unknown", "ok")
        assert "Do not repeat it" in order.content
        assert gateway.said == ["I do not know whether it went through."]


@in_virtual_time
async def test_an_order_that_had_not_begun_may_begin_after_the_crash(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("order", transactional=True)]
    await crash(house, "tools:started", reply(call("order", {"text": "1"})), tools=tools, consent=yes)
    assert desk.runs == []
    async with house.open("done", tools=tools, consent=yes) as gateway:
        await gateway.app.idle()
        assert desk.runs == [("order", "1")]
        assert gateway.results[0].status == "ok"


@in_virtual_time
async def test_without_consent_an_order_is_denied(house: House) -> None:
    desk = Desk()
    async with house.open(
        reply(call("order")), "I may not.", tools=[desk.tool("order", transactional=True)]
    ) as gateway:
        outcome = await gateway.ask("buy")
        assert desk.runs == []
        assert outcome.tools == (ToolUse("order", "denied"),)
        assert "nobody has given it" in gateway.results[0].content


@pytest.mark.spec("X-03", "DX-51")
@in_virtual_time
async def test_two_orders_never_run_side_by_side_whatever_they_claim(house: House) -> None:
    class Careless:
        """A tool that was not made by `@tool` and says that it may run beside others."""

        transactional = parallel_safe = True

        def __init__(self, inner: Tool) -> None:
            self.inner = inner

        @property
        def spec(self) -> Any:
            return self.inner.spec

        group = "custom"
        timeout = 30.0
        approval = sensitive = changes = own_results = False
        upstream = ""
        isolation: Isolation = "loop"
        quote = None

        async def run(self, args: Mapping[str, Any], scope: ToolScope) -> Any:
            return await self.inner.run(args, scope)

    async def second(text: str, scope: ToolScope) -> str:
        await house.clock.sleep(1)
        return text

    desk = Desk()
    tools: list[Tool] = [Careless(desk.tool("order", second))]
    async with house.open(reply(call("order"), call("order")), "done", tools=tools, consent=yes) as gateway:
        outcome = await gateway.ask("buy twice")
        assert (outcome.kind, outcome.duration_ms) == ("answered", 2000)


# ── cut off, but not dead ───────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_what_had_happened_before_a_timeout_is_told_truly(house: House) -> None:
    """An order that went through, one that was running, and one that never began are three different things."""
    desk = Desk()
    tools = [desk.tool("order", transactional=True), desk.tool("slow_order", hang, transactional=True, timeout=999)]
    script = reply(call("order", id="a"), call("slow_order", id="b"), call("order", id="c"))
    settings = PipelineSettings(timeout_ms=60_000)
    async with house.open(script, "what now?", tools=tools, consent=yes, pipeline=settings) as gateway:
        outcome = await gateway.ask("buy")
        assert (outcome.kind, outcome.aborted_at) == ("failed", "execute")
        await gateway.ask("did it work?")
        assert [(result.call_id, result.status) for result in gateway.results] == [
            ("a", "ok"),
            ("b", "unknown"),
            ("c", "skipped"),
        ]


@in_virtual_time
async def test_a_layer_that_breaks_in_a_parallel_call_is_named(house: House) -> None:
    async def broken(ctx: ToolCallContext) -> ToolResult:
        raise LookupError("no such table")

    desk = Desk()
    script = (reply(call("look"), call("look")), "never")
    async with house.open(*script, tools=[desk.tool("look")], layers=[("tool_call", broken)]) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.abort_reason == "LookupError: no such table"


@in_virtual_time
async def test_a_tools_own_cancellation_is_a_result_and_not_the_end(house: House) -> None:
    async def leak(text: str, scope: ToolScope) -> str:
        raise asyncio.CancelledError

    desk = Desk()
    async with house.open(reply(call("leak")), "It gave nothing.", tools=[desk.tool("leak", leak)]) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.kind, outcome.reply) == ("answered", "It gave nothing.")
        assert gateway.results[0].status == "error"


@pytest.mark.spec("P-40", "DX-02", "T-07", "T-18")
@in_virtual_time
async def test_a_running_tool_is_cancelled_with_its_turn(house: House) -> None:
    desk = Desk()
    async with house.open(reply(call("hang")), tools=[desk.tool("hang", hang)]) as gateway:
        accepted = await gateway.channel.write("go")
        await until(lambda: bool(desk.runs))
    assert desk.cancelled == ["hang"]
    async with house.open("resumed", tools=[desk.tool("hang")]) as gateway:
        assert (await gateway.outcome(accepted)).reply == "resumed"


@in_virtual_time
async def test_whoever_waits_is_told_when_the_gateway_stops(house: House) -> None:
    import finclaw

    desk = Desk()
    async with house.open(reply(call("hang")), tools=[desk.tool("hang", hang)]) as gateway:
        waiting = asyncio.create_task(gateway.app.handle(finclaw.Inbound(text="go")))
        await until(lambda: bool(desk.runs))
    with pytest.raises(SessionError, match="next start"):
        await waiting
