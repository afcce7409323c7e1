"""Seed 003, the patterns of its §9 at work, and what its examples got wrong: metadata, injected text, the catalog."""

import asyncio
from typing import Any

import pytest
from tests.conformance.onion import Extending, extended, note, texts
from tests.walks.house import AnyRegistration, House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.errors import SessionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Append, Patch, Remove, Replace, ToolResult
from finclaw.kernel.scope import StepContext, StepResult, ToolCallContext, TurnContext, TurnResult
from finclaw.testing import call, reply

LOOK = reply(call("look", {"text": "x"}))


@pytest.mark.spec("MW-31", "DX-63")
@in_virtual_time
async def test_9_1_a_compaction_policy_keeps_calls_with_results_and_its_summary_in_place(house: House) -> None:
    """Pairs go together, and the summary stands where they stood: in front of the question, not behind it."""

    async def compact(ctx: TurnContext) -> TurnResult:
        old = [each for each in ctx.conversation.base_messages if not each.metadata.get("pinned")]
        if len(old) >= 4:
            first, *rest = old
            ctx.emit_message_event(Replace(first.id, note("summary", id="summary")))
            for message in rest:
                ctx.emit_message_event(Remove(message.id))
        return await ctx.next()

    script = [LOOK, "one", "two"]
    async with house.open(*script, layers=[("turn", compact)], tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("first")
        assert len(gateway.seen) == 3
        await gateway.ask("second")
        assert texts(gateway.seen) == ["summary", "second"]
        assert gateway.results == []


@pytest.mark.spec("MW-31")
@in_virtual_time
async def test_9_2_steps_and_calls_can_be_timed(house: House) -> None:
    took: list[tuple[str, float]] = []

    def timed(what: str) -> Any:
        async def layer(ctx: Any) -> Any:
            started = house.clock.monotonic()
            result = await ctx.next()
            took.append((what, house.clock.monotonic() - started))
            return result

        return layer

    async def slow(text: str, scope: Any) -> str:
        await asyncio.sleep(2)
        return text

    layers: list[AnyRegistration] = [("step", timed("step")), ("tool_call", timed("call"))]
    async with house.open(LOOK, "done", layers=layers, tools=[Desk().tool("look", slow)]) as gateway:
        await gateway.ask("go")
    assert took == [("call", 2.0), ("step", 2.0), ("step", 0.0)]


@pytest.mark.spec("MW-31", "EX-06", "EX-03")
@in_virtual_time
async def test_9_3_a_tool_search_keeps_its_selection_and_filters_the_catalog(house: House) -> None:
    """The selection is the extension's state: it holds for later steps, later turns and after a restart."""

    def register(api: ExtensionApi) -> None:
        async def search(ctx: StepContext) -> StepResult:
            selected = await api.state.get(ctx.ids["session"])
            if selected is not None:
                ctx.tool_catalog = tuple(spec for spec in ctx.tool_catalog if spec.name in selected)
            result = await ctx.next()
            await api.state.set(["market__quote"], ctx.ids["session"])
            return result

        api.pipeline.register("step", search)

    ask = reply(call("market__quote", {"symbol": "AAPL"}))
    async with extended(house, Extending("search", register), script=[ask, "one", "two"]) as gateway:
        await gateway.ask("AAPL?")
        await gateway.ask("again")
        offered = [[spec.name for spec in request.tools] for request in gateway.provider.requests]
    assert len(offered[0]) > 1
    assert offered[1:] == [["market__quote"]] * 2
    async with extended(house, Extending("search", register), script=["three"]) as gateway:
        await gateway.ask("and now?")
        assert [spec.name for spec in gateway.provider.requests[0].tools] == ["market__quote"]


@pytest.mark.spec("MW-31", "DX-64")
@in_virtual_time
async def test_9_6_injected_skill_text_is_there_once_and_passes(house: House) -> None:
    """The seed's example piles a system message up with every step and saves them all."""

    async def skill(ctx: StepContext) -> StepResult:
        ctx.emit_message_event(Append(note(f"skill, step {ctx.index}", "system", passing="skill")))
        return await ctx.next()

    layers: list[AnyRegistration] = [("step", skill)]
    async with house.open(LOOK, "one", "two", layers=layers, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
        assert texts(gateway.seen) == ["go", "skill, step 1", "", ""]
        await gateway.ask("again")
        assert texts(gateway.seen) == ["go", "", "", "one", "again", "skill, step 0"]


@pytest.mark.spec("DX-62")
@in_virtual_time
async def test_metadata_is_looked_up_from_call_to_step_to_turn(house: House) -> None:
    """And written where it was set: side by side two calls do not see each other's."""
    seen: list[tuple[Any, ...]] = []

    async def turn(ctx: TurnContext) -> TurnResult:
        ctx.metadata["turn"] = "t"
        result = await ctx.next()
        seen.append(tuple(sorted(ctx.metadata)))
        return result

    async def step(ctx: StepContext) -> StepResult:
        seen.append(("fresh", ctx.metadata.get("step")))
        ctx.metadata["step"] = ctx.index
        return await ctx.next()

    async def tool_call(ctx: ToolCallContext) -> ToolResult:
        seen.append((ctx.metadata["turn"], ctx.metadata["step"], ctx.metadata.get("call")))
        ctx.metadata["call"] = ctx.call_id
        await asyncio.sleep(1)
        assert ctx.metadata["call"] == ctx.call_id
        return await ctx.next()

    layers: list[AnyRegistration] = [("turn", turn), ("step", step), ("tool_call", tool_call)]
    two = reply(call("look", {"text": "1"}), call("look", {"text": "2"}))
    async with house.open(two, "done", layers=layers, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
    assert seen == [("fresh", None), ("t", 0, None), ("t", 0, None), ("fresh", None), ("turn",)]


@pytest.mark.spec("DX-61", "DX-61b")
@in_virtual_time
async def test_metadata_of_a_message_changes_by_an_event_and_so_it_lasts(house: House) -> None:
    kept: dict[str, Any] = {"pinned": True}

    async def pin(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Patch(ctx.input.id, kept))
        kept["pinned"] = "changed later, behind everybody's back"
        return await ctx.next()

    async with house.open("one", layers=[("turn", pin)]) as gateway:
        accepted = await gateway.channel.write("go")
        await gateway.outcome(accepted)
        assert (await gateway.app.messages(accepted.session))[0].metadata == {"pinned": True}
        in_memory = list(gateway.seen)
        assert in_memory[0].metadata == {"pinned": True}


@pytest.mark.spec("DX-61")
@in_virtual_time
async def test_ids_are_unique_and_a_replacement_keeps_the_role(house: House) -> None:
    refused: list[str] = []

    async def clumsy(ctx: TurnContext) -> TurnResult:
        for event in (Append(note("x", id=ctx.input.id)), Replace(ctx.input.id, note("x", "assistant"))):
            with pytest.raises(SessionError) as raised:
                ctx.emit_message_event(event)
            refused.append(str(raised.value))
        return await ctx.next()

    async with house.open("done", layers=[("turn", clumsy)]) as gateway:
        await gateway.ask("go")
        assert texts(gateway.seen) == ["go"]
    assert ["ids are unique" in refused[0], "keeps the role" in refused[1]] == [True, True]


@pytest.mark.spec("MW-25")
@in_virtual_time
async def test_a_step_layer_that_changes_the_turns_catalog_changes_the_steps_to_come(house: House) -> None:
    async def from_now_on(ctx: StepContext) -> StepResult:
        ctx.turn.tool_catalog = (ToolSpec("look", "Does look.", {"type": "object"}),)
        return await ctx.next()

    layers: list[AnyRegistration] = [("step", from_now_on)]
    async with house.open(LOOK, "done", layers=layers, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
        first, second = ([spec.name for spec in request.tools] for request in gateway.provider.requests)
    assert len(first) > 1
    assert second == ["look"]
