"""The message ring: may replace the message, sees the outcome exactly once, and cannot lose one."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.walks.house import House, in_virtual_time

from finclaw.kernel.event import MessageEnded, ShortCircuited
from finclaw.kernel.message import ToolResult
from finclaw.kernel.scope import (
    MessageContext,
    Outcome,
    StepContext,
    StepResult,
    ToolCallContext,
    TurnContext,
    TurnResult,
)
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import call, delay, reply


@pytest.mark.spec("DX-04", "P-13")
@pytest.mark.parametrize(
    ("text", "kind"),
    [("hi", "answered"), ("  ", "skipped"), ("/help", "command"), ("break", "failed"), ("hang", "failed")],
)
@in_virtual_time
async def test_the_after_part_runs_exactly_once_with_the_outcome(house: House, text: str, kind: str) -> None:
    seen: list[Outcome] = []

    async def watch(ctx: MessageContext) -> Outcome:
        outcome = await ctx.next()
        seen.append(outcome)
        return outcome

    async def trouble(ctx: TurnContext) -> TurnResult:
        if ctx.input.text == "break":
            raise RuntimeError("broken")
        return await ctx.next()

    layers: list[Any] = [("message", watch), ("turn", trouble)]
    script = reply(delay(99), "x") if text == "hang" else "hello"
    async with house.open(script, layers=layers, pipeline=PipelineSettings(timeout_ms=1000)) as gateway:
        outcome = await gateway.ask(text)
        assert [each.kind for each in seen] == [kind]
        assert outcome.kind == kind
        assert seen[0].stages == outcome.stages


@pytest.mark.spec("P-13", "M-65", "M-66")
@in_virtual_time
async def test_a_layer_may_replace_the_message_before_the_road(house: House) -> None:
    contexts: list[Any] = []

    async def translate(ctx: MessageContext) -> Outcome:
        ctx.inbound = replace(ctx.inbound, text=ctx.inbound.text.replace("Apfel", "apple"))
        return await ctx.next()

    async def look(ctx: TurnContext) -> TurnResult:
        contexts.append(ctx.context)
        return await ctx.next()

    async with house.open("yes", layers=[("message", translate), ("turn", look)]) as gateway:
        await gateway.ask("an Apfel?")
        assert gateway.seen[-1].text == "an apple?"
        assert contexts[0].body == "an apple?"


@pytest.mark.spec("DX-03", "DX-04")
@pytest.mark.parametrize(
    "error", [RuntimeError("broken"), asyncio.CancelledError("leaked")], ids=["error", "cancelled"]
)
@in_virtual_time
async def test_a_layer_that_fails_before_the_road_is_a_recorded_abort(house: House, error: BaseException) -> None:
    async def broken(ctx: MessageContext) -> Outcome:
        raise error

    async with house.open(layers=[("message", broken)]) as gateway:
        outcome = await gateway.ask("hi")
        assert (outcome.kind, outcome.success, outcome.stages_executed) == ("failed", False, ())
        assert outcome.abort_reason == (
            "RuntimeError: broken"
            if isinstance(error, RuntimeError)
            else "CancelledError: not asked for by the gateway"
        )
        assert gateway.said == [outcome.reply]


@pytest.mark.spec("DX-03", "DX-04")
@pytest.mark.parametrize(
    "error", [RuntimeError("broken"), asyncio.CancelledError("leaked")], ids=["error", "cancelled"]
)
@in_virtual_time
async def test_a_layer_that_fails_after_the_answer_changes_nothing(house: House, error: BaseException) -> None:
    async def broken(ctx: MessageContext) -> Outcome:
        await ctx.next()
        raise error

    async with house.open("the answer", layers=[("message", broken)]) as gateway:
        outcome = await gateway.ask("hi")
        assert (outcome.kind, outcome.reply, gateway.said) == ("answered", "the answer", ["the answer"])
        ended = [each for each in gateway.events if isinstance(each, MessageEnded)]
        assert [each.outcome for each in ended] == ["answered"]


@pytest.mark.spec("DX-04")
@in_virtual_time
async def test_a_layer_cannot_rewrite_an_outcome_that_is_on_disk(house: House) -> None:
    async def liar(ctx: MessageContext) -> Outcome:
        return replace(await ctx.next(), kind="refused", reply="nothing was said")

    async with house.open("the answer", layers=[("message", liar)]) as gateway:
        assert (await gateway.ask("hi")).kind == "answered"
        assert [each.outcome for each in gateway.events if isinstance(each, MessageEnded)] == ["answered"]


@pytest.mark.spec("P-03")
@in_virtual_time
async def test_a_layer_may_answer_itself_and_is_heard(house: House) -> None:
    async def limit(ctx: MessageContext) -> Outcome:
        return Outcome(kind="refused", reason="too many", reply="Slow down, please.")

    async with house.open(layers=[("message", limit)]) as gateway:
        outcome = await gateway.ask("hi", message_id="m-1")
        assert (outcome.kind, outcome.reason, outcome.reply) == ("refused", "too many", "Slow down, please.")
        assert gateway.said == ["Slow down, please."]
        assert gateway.channel.sent[0].unit.outbound.reply_to == "m-1"
        short = [each for each in gateway.events if isinstance(each, ShortCircuited)]
        assert [(each.ring, each.layer) for each in short] == [("message", "parts.limit")]


@pytest.mark.spec("MW-20", "MW-29")
@in_virtual_time
async def test_all_five_rings_go_around_their_nouns(house: House) -> None:
    heard: list[str] = []

    def note(ring: str) -> Any:
        async def layer(ctx: Any) -> Any:
            heard.append(f"{ring}(")
            result = await ctx.next()
            heard.append(")")
            return result

        return (ring, layer)

    rings = [note(ring) for ring in ("message", "turn", "step", "tool_call", "delivery")]
    async with house.open(reply(call("market__quote", {"symbol": "AAPL"})), "done", layers=rings) as gateway:
        await gateway.ask("AAPL?")
    assert "".join(heard) == "message(turn(step(tool_call())step())delivery())"


@pytest.mark.spec("DX-62")
@in_virtual_time
async def test_metadata_reaches_inward_and_not_outward(house: House) -> None:
    found: list[Any] = []

    async def turn(ctx: TurnContext) -> TurnResult:
        ctx.metadata["who"] = "turn"
        result = await ctx.next()
        found.append(ctx.metadata.get("what"))
        return result

    async def step(ctx: StepContext) -> StepResult:
        found.append(ctx.metadata["who"])
        ctx.metadata["who"] = "step"
        return await ctx.next()

    async def tool_call(ctx: ToolCallContext) -> ToolResult:
        found.append(ctx.metadata["who"])
        ctx.metadata["what"] = "call"
        return await ctx.next()

    layers: list[Any] = [("turn", turn), ("step", step), ("tool_call", tool_call)]
    async with house.open(reply(call("market__quote", {"symbol": "AAPL"})), "done", layers=layers) as gateway:
        await gateway.ask("AAPL?")
    assert found == ["turn", "step", "turn", None]


@pytest.mark.spec("DX-55", "DX-76")
@in_virtual_time
async def test_a_turn_layer_may_answer_itself(house: House) -> None:
    async def cached(ctx: TurnContext) -> TurnResult:
        if ctx.input.text == "again":
            return TurnResult(status="short_circuited", text="as I said")
        return await ctx.next()

    async with house.open("first", "third", layers=[("turn", cached)]) as gateway:
        await gateway.ask("one")
        assert (await gateway.ask("again")).reply == "as I said"
        await gateway.ask("three")
        assert [each.text for each in gateway.seen] == ["one", "first", "again", "as I said", "three"]
