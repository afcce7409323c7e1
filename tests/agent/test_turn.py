"""The loop: what counts as a step, and what the result tells."""

from typing import Any

import pytest
from msgspec import Struct
from tests.agent.bench import Bench

from finclaw.agent.settings import AgentSettings
from finclaw.kernel.chunk import Usage
from finclaw.kernel.event import ExecutionCompleted
from finclaw.kernel.message import Append, Message, Source, Text
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.kernel.scope import StepContext, StepResult, ToolCallContext, TurnContext, TurnResult
from finclaw.testing import call, reply, say
from finclaw.testing.clock import EPOCH
from finclaw.tools.define import tool


@tool("look", "Looks.")
async def look(args: Struct, scope: ToolScope) -> ToolOutput:
    return ToolOutput("seen")


@pytest.mark.spec("DX-21", "P-37")
def test_the_result_counts_every_step() -> None:
    bench = Bench(tools=[look])
    result = bench.run(reply(call("look"), usage=Usage(5, 1)), reply("done", usage=Usage(7, 2)))
    assert (result.status, result.text, result.steps, result.usage) == ("completed", "done", 2, Usage(12, 3))
    assert [use.name for use in result.tools] == ["look"]


def test_what_a_layer_adds_is_no_step() -> None:
    async def remind(ctx: TurnContext) -> TurnResult:
        note = Message("n", "assistant", (Text("as I said"),), Source("extension", name="memory"), EPOCH)
        ctx.emit_message_event(Append(note))
        return await ctx.next()

    bench = Bench(tools=[look], turn=[remind], settings=AgentSettings(max_steps=1))
    result = bench.run(reply(call("look")), "closing")
    assert (result.status, result.steps) == ("max_steps", 2)
    assert bench.provider is not None
    assert [bool(request.tools) for request in bench.provider.requests] == [True, False]
    assert [each.text for each in bench.provider.requests[0].messages] == ["go", "as I said"]


@pytest.mark.spec("S-05", "E-18", "E-19", "E-20", "E-21")
def test_observers_hear_the_turn_from_beginning_to_end() -> None:
    bench = Bench(tools=[look])
    bench.run(reply(call("look")), reply(say("done", chunks=2)))
    heard = [each.name for each in bench.events if not each.name.startswith("tool:")]
    assert heard == [
        "execution:start",
        "execution:turn",
        "stream:state_change",
        "stream:message_complete",
        "stream:usage_update",
        "stream:state_change",
        "stream:tool_use_start",
        "stream:state_change",
        "stream:tool_use_end",
        "execution:tool_use",
        "execution:turn",
        "stream:state_change",
        "stream:text_delta",
        "stream:text_delta",
        "stream:message_complete",
        "stream:usage_update",
        "stream:state_change",
        "stream:done",
        "execution:complete",
    ]
    last = bench.events[-1]
    assert isinstance(last, ExecutionCompleted)
    assert (last.status, last.steps) == ("completed", 2)


@pytest.mark.spec("MW-25")
def test_a_step_layer_may_filter_tools_for_its_step_only() -> None:
    async def first_without(ctx: StepContext) -> StepResult:
        if ctx.index == 0:
            ctx.tool_catalog = ()
        return await ctx.next()

    bench = Bench(tools=[look], step=[first_without])
    bench.run(reply(call("look")), "done")
    assert bench.provider is not None
    assert [len(request.tools) for request in bench.provider.requests] == [0, 1]


def test_layers_see_the_contexts_and_nothing_of_the_core() -> None:
    """Log, budget and core results are held beside the contexts, where no layer reaches them."""
    seen: list[type] = []

    async def note(ctx: TurnContext | StepContext | ToolCallContext) -> Any:
        seen.append(type(ctx))
        return await ctx.next()

    bench = Bench(tools=[look], turn=[note], step=[note], tool_call=[note])
    bench.run(reply(call("look")), "done")
    assert seen == [TurnContext, StepContext, ToolCallContext, StepContext]
