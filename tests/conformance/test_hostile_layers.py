"""Layers that break every rule they can: each message still ends once, conversations stay whole, money stays true."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conformance.onion import Heard, in_turn, note, texts
from tests.support.api_rules import violations
from tests.walks.house import AnyRegistration, Gateway, House, in_virtual_time, until
from tests.walks.tools import Desk, hang

from finclaw.errors import ExtensionError
from finclaw.kernel.envelope import Capabilities, Sender
from finclaw.kernel.event import ExecutionCompleted, StepStarted, ToolStartedEvent
from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, Text, ToolResult, Truncate
from finclaw.kernel.port import Tool, ToolScope
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import (
    DeliveryContext,
    MessageContext,
    Outcome,
    StepContext,
    StepResult,
    ToolCallContext,
    TurnContext,
    TurnResult,
)
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import call, delay, reply, say

LOOK = reply(call("look", {"text": "x"}))
ORDER = reply(call("order", {"text": "1 AAPL"}))


async def yes(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    return True


async def begun(gateway: Gateway, text: str = "go") -> Accepted:
    accepted = await gateway.channel.write(text)
    await until(lambda: any(isinstance(event, StepStarted) for event in gateway.events))
    return accepted


async def conversation(gateway: Gateway) -> Sequence[Message]:
    """The only one there is, from disk; a last message shows that memory has the same."""
    (session,) = (await gateway.app.sessions(2)).items
    kept = await gateway.app.messages(session.key)
    await gateway.ask("and now?")
    assert gateway.seen[:-1] == tuple(kept), "what is in memory is not what is on disk"
    for rules in ("anthropic", "openai"):
        assert violations(gateway.seen, rules) == ()
    return kept


# ── cancellation ────────────────────────────────────────────────────────────────────────────────────────────


async def swallow(ctx: TurnContext) -> TurnResult:
    try:
        return await ctx.next()
    except asyncio.CancelledError:
        return TurnResult(status="completed", text="never mind")


@pytest.mark.spec("R-06")
@in_virtual_time
async def test_a_layer_that_swallows_a_stop_does_not_undo_it(house: House) -> None:
    async with house.open(reply(delay(99), say("late")), "next", layers=[("turn", swallow)]) as gateway:
        accepted = await begun(gateway)
        assert gateway.app.stop_message(accepted.id)
        outcome = await gateway.outcome(accepted)
        assert (outcome.kind, outcome.reply) == ("stopped", "Stopped.")
        assert (await gateway.ask("again")).reply == "next"
        assert gateway.said == ["Stopped.", "next"]


@in_virtual_time
async def test_a_layer_that_swallows_the_deadline_ends_the_message_all_the_same(house: House) -> None:
    in_time = PipelineSettings(timeout_ms=1000)
    async with house.open(
        reply(delay(99), say("late")), "next", layers=[("turn", swallow)], pipeline=in_time
    ) as gateway:
        assert (await gateway.ask("go")).kind in ("answered", "failed")
        assert house.clock.monotonic() < 2
        assert (await gateway.ask("again")).reply == "next"


@in_virtual_time
async def test_a_layer_that_swallows_the_end_of_the_gateway_loses_no_message(house: House) -> None:
    said: list[str] = []
    async with house.open(reply(delay(99), say("late")), layers=[("turn", swallow)]) as gateway:
        await begun(gateway)
    said += gateway.said
    async with house.open("next") as gateway:
        await gateway.app.idle()
        said += gateway.said
    assert said in (["never mind"], ["next"])


@pytest.mark.spec("DX-55")
@pytest.mark.parametrize("ring", ["turn", "step", "tool_call"])
@in_virtual_time
async def test_a_layer_that_does_not_wait_for_its_inside_stops_it(house: House, ring: Any) -> None:
    """The turn fails, the tool is cancelled, and nothing of it goes on behind the turn's back."""
    desk = Desk()

    async def hasty(ctx: Any) -> Any:
        inside.append(asyncio.ensure_future(ctx.next()))
        await until(lambda: bool(desk.runs))
        return await asyncio.sleep(0, TurnResult(status="completed", text="early"))

    inside: list[asyncio.Future[Any]] = []
    async with house.open(LOOK, layers=[(ring, hasty)], tools=[desk.tool("look", hang)]) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.kind == "failed"
        assert "returned before its inside was done" in outcome.reason
        assert (inside[0].cancelled(), desk.cancelled) == (True, ["look"])
        last = [event.name for event in gateway.events].index("execution:complete")
        await asyncio.sleep(600)
        assert not [event for event in gateway.events[last:] if event.name.startswith(("tool:", "stream:"))]


@pytest.mark.spec("R-06")
@in_virtual_time
async def test_a_stop_reaches_an_inside_that_runs_in_another_task(house: House) -> None:
    desk = Desk()

    async def watch(ctx: TurnContext) -> TurnResult:
        inside = asyncio.ensure_future(ctx.next())
        await asyncio.wait([inside])  # which passes no cancellation on
        return await inside

    async with house.open(LOOK, layers=[("turn", watch)], tools=[desk.tool("look", hang, timeout=9999)]) as gateway:
        accepted = await gateway.channel.write("go")
        await until(lambda: bool(desk.runs))
        gateway.app.stop_message(accepted.id)
        assert (await gateway.outcome(accepted)).kind == "stopped"
        assert desk.cancelled == ["look"]
        assert [event.name for event in gateway.events if event.name.startswith("tool:execute")] == [
            "tool:execute:start",
            "tool:execute:end",
        ]


@in_virtual_time
async def test_next_may_be_waited_for_in_another_task(house: House) -> None:
    async def detour(ctx: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            inside = group.create_task(_awaited(ctx.next()))
        return inside.result()

    layers: list[AnyRegistration] = [("turn", detour), ("step", detour), ("tool_call", detour), ("message", detour)]
    async with house.open(LOOK, "done", layers=layers, tools=[Desk().tool("look")]) as gateway:
        assert (await gateway.ask("go")).reply == "done"


async def _awaited(work: Any) -> Any:
    return await work


# ── a context that is kept ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CS-08", "CS-10")
@in_virtual_time
async def test_a_context_that_is_kept_reaches_nothing_when_its_turn_is_over(house: House) -> None:
    """Neither while the reply is being delivered, before the fold, nor later; next() is closed as well."""
    kept: list[TurnContext] = []
    refused: list[str] = []

    def use() -> None:
        for attempt in (lambda: kept[0].emit_message_event(Append(note("late"))), kept[0].next):
            with pytest.raises(ExtensionError) as raised:
                attempt()
            refused.append(str(raised.value))

    async def keep(ctx: TurnContext) -> TurnResult:
        kept.append(ctx)
        return await ctx.next()

    async def deliver(ctx: DeliveryContext) -> Any:
        use()
        return await ctx.next()

    async with house.open("one", "two", layers=[("turn", keep), ("delivery", deliver)]) as gateway:
        await gateway.ask("go")
        use()
        assert texts(await conversation(gateway)) == ["go", "one"]
    assert {text.split(";")[0] for text in refused} == {
        "a layer emitted a message event after its turn had ended",
        "ctx.next() was called outside its ring",
    }


@in_virtual_time
async def test_a_task_that_a_layer_leaves_running_cannot_write_into_the_next_turn(house: House) -> None:
    """It emits all the time; what it got in while its turn ran is in the conversation, and nothing else is."""
    heard: list[str] = []

    async def leave_behind(ctx: TurnContext) -> TurnResult:
        async def write_on() -> None:
            for number in range(1000):
                try:
                    ctx.emit_message_event(Append(note(f"n{number}")))
                except ExtensionError:
                    return
                heard.append(f"n{number}")
                await asyncio.sleep(1)

        if ctx.input.text == "go":
            tasks.append(asyncio.create_task(write_on()))
        return await ctx.next()

    tasks: list[asyncio.Task[None]] = []
    async with house.open(
        reply(delay(2.5), say("one")), reply(delay(9), say("two")), layers=[("turn", leave_behind)]
    ) as g:
        await g.ask("go")
        kept = await conversation(g)
        await tasks[0]
    assert heard == ["n0", "n1", "n2"]
    assert [text for text in texts(kept) if text.startswith("n")] == heard


# ── what a layer may put into the conversation ──────────────────────────────────────────────────────────────

BAD: dict[str, Any] = {
    "a role that is none": {"role": "developer"},
    "text for blocks": {"blocks": "abc"},
    "text for a block": {"blocks": ("abc",)},
    "a number for an id": {"id": 7},
    "a number for a time": {"created_at": 5},
    "a list for metadata": {"metadata": [1]},
    "metadata that is no JSON": {"metadata": {"x": object()}},
    "a number for a key": {"passing": 3},
}


@pytest.mark.spec("MT-01", "CS-13")
@pytest.mark.parametrize("wrong", BAD.values(), ids=BAD.keys())
@in_virtual_time
async def test_a_message_that_could_not_be_read_again_is_refused(house: House, wrong: dict[str, Any]) -> None:
    """Else the session could never be opened again, or the message never end."""

    async def sloppy(ctx: TurnContext) -> TurnResult:
        if ctx.input.text == "go":
            ctx.emit_message_event(Append(replace(note("x"), **wrong)))
        return await ctx.next()

    async with house.open("x", layers=[("turn", sloppy)]) as gateway:
        outcome = await asyncio.wait_for(gateway.ask("go"), 3600)
        assert outcome.kind == "failed"
        assert "ExtensionError: a layer emitted a message event that cannot be kept" in outcome.reason
    async with house.open("fine", "fine") as gateway:
        assert (await gateway.ask("again")).reply == "fine"


@pytest.mark.spec("MT-05", "MT-03", "MT-04")
@pytest.mark.parametrize(
    ("ring", "wrong"),
    [
        ("tool_call", {"status": "weird"}),
        ("tool_call", {"content": None}),
        ("tool_call", {"error": "text"}),
        ("step", {"status": "weird"}),
        ("step", {"again": 7}),
        ("turn", {"status": "weird"}),
        ("turn", {"text": None}),
        ("delivery", {"kind": "weird"}),
        ("delivery", {"text": 7}),
    ],
)
@in_virtual_time
async def test_a_result_that_could_not_be_read_again_is_refused(house: House, ring: Any, wrong: dict[str, Any]) -> None:
    async def sloppy(ctx: Any) -> Any:
        return replace(await ctx.next(), **wrong)

    async with house.open(LOOK, "done", layers=[(ring, sloppy)], tools=[Desk().tool("look")]) as gateway:
        outcome = await asyncio.wait_for(gateway.ask("go"), 3600)
        assert outcome.kind == "failed"
        assert f"ExtensionError: layer 'parts.sloppy' of ring '{ring}' returned a" in outcome.reason
    async with house.open("fine") as gateway:
        assert (await gateway.ask("again")).reply == "fine"


@in_virtual_time
async def test_an_outcome_that_is_none_is_refused_and_the_message_ends(house: House) -> None:
    async def sloppy(ctx: MessageContext) -> Outcome:
        return Outcome(kind="whatever")  # pyright: ignore[reportArgumentType]

    async with house.open(layers=[("message", sloppy)]) as gateway:
        assert (await gateway.ask("go")).kind == "failed"


@in_virtual_time
async def test_a_layer_in_a_loop_does_not_flood_the_log(house: House) -> None:
    """A log that ran over its room would be found in somebody else's turn."""

    async def flood(ctx: TurnContext) -> TurnResult:
        if ctx.input.text == "flood":
            for number in range(70_000):
                ctx.emit_message_event(Patch(ctx.input.id, {"n": number}))
        return await ctx.next()

    async with house.open("fine", layers=[("turn", flood)]) as gateway:
        outcome = await gateway.ask("flood", conversation="a")
        assert outcome.kind == "failed"
        assert "over 10000 message events" in outcome.reason
        assert (await gateway.ask("hi", conversation="b")).reply == "fine"
        assert texts(gateway.seen) == ["hi"]


@pytest.mark.spec("DX-61", "DX-64")
@in_virtual_time
async def test_passing_messages_live_through_truncate_replace_and_remove_and_no_longer(house: House) -> None:
    lines: list[list[str]] = []

    async def juggle(ctx: TurnContext) -> TurnResult:
        if ctx.input.text != "go":
            return await ctx.next()
        for event in (
            Append(note("p1", id="p1", passing="p")),
            Append(note("q1", id="q1", passing="q")),
            Append(note("lasting", id="l1")),
            Truncate(keep_last=1),  # passing ones are not counted, and stay
            Append(note("p2", id="p2", passing="p")),  # takes p1's place
            Replace("p2", note("p3", id="p3")),  # stays passing, though the new one does not say so
            Patch("p3", {"k": 1}),
            Remove("q1"),
            Truncate(keep_last=0),
            Append(note("last", id="l2")),
        ):
            ctx.emit_message_event(event)
            lines.append(in_turn(ctx))
        return await ctx.next()

    async with house.open("zero", "one", "two", layers=[("turn", juggle)]) as gateway:
        await gateway.ask("before")
        await gateway.ask("go")
        assert lines == [
            ["before", "zero", "go", "p1"],
            ["before", "zero", "go", "p1", "q1"],
            ["before", "zero", "go", "p1", "q1", "lasting"],
            ["p1", "q1", "lasting"],
            ["p2", "q1", "lasting"],
            ["p3", "q1", "lasting"],
            ["p3", "q1", "lasting"],
            ["p3", "lasting"],
            ["p3"],
            ["p3", "last"],
        ]
        assert texts(await conversation(gateway)) == ["last", "one"]


@pytest.mark.spec("MW-24")
@pytest.mark.parametrize("how", ["removed", "replaced", "followed"])
@in_virtual_time
async def test_the_conversation_keeps_what_the_person_saw_whatever_a_layer_does_to_the_answer(
    house: House, how: str
) -> None:
    async def meddle(ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        answer = ctx.conversation.next_messages[-1]
        if ctx.input.text == "go":
            ctx.emit_message_event(
                {
                    "removed": Remove(answer.id),
                    "replaced": Replace(answer.id, replace(answer, id="other", blocks=(Text("in other words"),))),
                    "followed": Append(note("by the way", "assistant")),
                }[how]
            )
        return replace(result, text="as seen")

    async with house.open("one", "two", layers=[("turn", meddle)]) as gateway:
        assert (await gateway.ask("go")).reply == "as seen"
        kept = texts(await conversation(gateway))
    assert kept == ["go", "as seen", *(["by the way"] if how == "followed" else [])]


@pytest.mark.spec("DX-59", "DX-57")
@pytest.mark.parametrize("ring", ["step", "turn"])
@in_virtual_time
async def test_a_caught_error_leaves_no_call_open(house: House, ring: Any) -> None:
    """The seed endorses try and except around next(): then the tools' results never came, and someone must say so."""

    async def broken(ctx: ToolCallContext) -> ToolResult:
        raise RuntimeError("a layer's bug")

    async def catch(ctx: Any) -> Any:
        try:
            return await ctx.next()
        except RuntimeError:
            if ring == "turn":
                return TurnResult(status="completed", text="sorry")
            return StepResult(message=note("sorry", "assistant"))

    layers: list[AnyRegistration] = [(ring, catch), ("tool_call", broken)]
    async with house.open(LOOK, "two", layers=layers, tools=[Desk().tool("look")]) as gateway:
        assert (await gateway.ask("go")).reply == "sorry"
        kept = await conversation(gateway)
    assert [message.role for message in kept] == ["user", "assistant", "tool", "assistant"]
    assert kept[2].tool_results[0].status == "skipped"


@in_virtual_time
async def test_a_delivery_layer_that_makes_everything_endless_keeps_no_message_from_ending(house: House) -> None:
    """Too long to be sent is an error of the layer, not of the disk: the notice of it goes out as it is."""

    async def endless(ctx: DeliveryContext) -> Any:
        return replace(await ctx.next(), text="word " * 30_000)

    short = Capabilities(max_length=100)
    async with house.open("done", layers=[("delivery", endless)], capabilities=short) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.kind == "failed"
        assert gateway.said == [outcome.reply]


# ── what is no layer's to change ────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MW-25", "DX-64")
@in_virtual_time
async def test_a_tool_layer_cannot_widen_the_catalog_again(house: House) -> None:
    """Neither for its own call nor for the one that runs beside it: what counts is what the model was offered."""
    desk = Desk()

    async def hide(ctx: StepContext) -> StepResult:
        ctx.turn.metadata["all"] = ctx.tool_catalog
        ctx.tool_catalog = tuple(spec for spec in ctx.tool_catalog if spec.name == "look")
        return await ctx.next()

    async def widen(ctx: ToolCallContext) -> ToolResult:
        ctx.step.tool_catalog = ctx.metadata["all"]
        return await ctx.next()

    both = reply(call("look"), call("peek"))
    layers: list[AnyRegistration] = [("step", hide), ("tool_call", widen)]
    async with house.open(both, "done", layers=layers, tools=[desk.tool("look"), desk.tool("peek")]) as gateway:
        await gateway.ask("go")
        assert [result.status for result in gateway.results] == ["ok", "error"]
        assert desk.scopes[0].offered == ("look",)
    assert desk.runs == [("look", "")]


@in_virtual_time
async def test_who_asked_and_where_is_no_layers_to_change(house: House) -> None:
    desk = Desk()

    async def pretend(ctx: TurnContext) -> TurnResult:
        ctx.ids["session"] = "main:memory:bot:direct:somebody"
        ctx.context = replace(ctx.context, sender=Sender("admin"))
        return await ctx.next()

    async with house.open(LOOK, "done", layers=[("turn", pretend)], tools=[desk.tool("look")]) as gateway:
        accepted = await gateway.channel.write("go", sender="ada")
        await gateway.outcome(accepted)
    assert [(scope.session, scope.sender.id) for scope in desk.scopes] == [(accepted.session, "ada")]


@pytest.mark.spec("H-04")
@in_virtual_time
async def test_a_layer_that_will_not_wait_for_an_order_does_not_decide_how_it_ended(house: House) -> None:
    """It began, so nobody knows; 'it did not happen' would have it placed again."""

    async def impatient(ctx: ToolCallContext) -> ToolResult:
        try:
            return await asyncio.wait_for(ctx.next(), 1)
        except TimeoutError:
            return ToolResult(ctx.call_id, ctx.tool_name, "it did not happen", status="error")

    tools = [Desk().tool("order", hang, transactional=True)]
    async with house.open(ORDER, "done", layers=[("tool_call", impatient)], tools=tools, consent=yes) as gateway:
        await gateway.ask("buy")
        (result,) = gateway.results
        assert result.status == "unknown"
        assert "Do not repeat it" in result.content


@pytest.mark.spec("H-03", "H-04")
@pytest.mark.parametrize(("status", "content"), [("error", "order: 1 AAPL"), ("skipped", "order: 1 AAPL"), ("ok", "…")])
@in_virtual_time
async def test_a_layer_may_tell_less_of_an_order_and_never_that_it_ended_otherwise(
    house: House, status: Any, content: str
) -> None:
    async def deny(ctx: ToolCallContext) -> ToolResult:
        return replace(await ctx.next(), status=status, content="…")

    desk = Desk()
    tools = [desk.tool("order", transactional=True)]
    async with house.open(ORDER, "done", layers=[("tool_call", deny)], tools=tools, consent=yes) as gateway:
        await gateway.ask("buy")
        (result,) = gateway.results
        assert (result.status, result.content) == ("ok", content)


# ── one layer for everybody ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MW-07", "DX-56")
@in_virtual_time
async def test_one_layer_serves_many_sessions_at_once_and_mixes_nothing(house: House) -> None:
    """Twenty turns and forty tools inside the same three functions: contexts, passages and metadata are each call's."""

    async def turn(ctx: TurnContext) -> TurnResult:
        ctx.metadata["who"] = ctx.input.text
        await asyncio.sleep(len(ctx.input.text))
        result = await ctx.next()
        return replace(result, text=f"{ctx.metadata['who']}: {result.text}")

    async def step(ctx: StepContext) -> StepResult:
        await asyncio.sleep(1)
        return await ctx.next()

    async def tool_call(ctx: ToolCallContext) -> ToolResult:
        ctx.args["text"] = f"{ctx.metadata['who']}/{ctx.args['text']}"
        await asyncio.sleep(1)
        return await ctx.next()

    def model(request: Any) -> Any:
        results = [result.content for message in request.messages for result in message.tool_results]
        return " ".join(results) if results else reply(call("look", {"text": "1"}), call("look", {"text": "2"}))

    layers: list[AnyRegistration] = [("turn", turn), ("step", step), ("tool_call", tool_call)]
    async with house.open(model, layers=layers, tools=[Desk().tool("look")]) as gateway:
        names = [f"{'x' * (number % 3)}{number}" for number in range(20)]
        asked = [await gateway.channel.write(name, conversation=name) for name in names]
        replies = [(await gateway.outcome(accepted)).reply for accepted in asked]
    assert replies == [f"{name}: look: {name}/1 look: {name}/2" for name in names]


@pytest.mark.spec("DX-65", "DX-62")
@in_virtual_time
async def test_calls_side_by_side_share_their_step_and_nothing_else(house: House) -> None:
    heard = Heard()

    async def mark(ctx: ToolCallContext) -> ToolResult:
        ctx.step.metadata.setdefault("seen", []).append(ctx.call_id)
        ctx.args["text"] += "!"
        await asyncio.sleep(1)
        result = await ctx.next()
        heard.append(result.content)
        return result

    calls = [call("look", {"text": str(number)}) for number in range(5)]
    async with house.open(reply(*calls), "done", layers=[("tool_call", mark)], tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
        started = [event.call_id for event in gateway.events if isinstance(event, ToolStartedEvent)]
        assert [result.content for result in gateway.results] == [f"look: {number}!" for number in range(5)]
    assert sorted(heard) == [f"look: {number}!" for number in range(5)]
    assert started == [f"call_1_{number}" for number in range(5)]


@in_virtual_time
async def test_an_event_a_layer_tells_observers_after_the_end_changes_nothing(house: House) -> None:
    """Events are for watching only: also a forged end leaves record, outcome and conversation as they are."""
    kept: list[TurnContext] = []

    async def forge(ctx: TurnContext) -> TurnResult:
        kept.append(ctx)
        ctx.emit(ExecutionCompleted(status="failed", steps=99, duration_ms=0, **ctx.ids))
        return await ctx.next()

    async with house.open("one", "two", layers=[("turn", forge)]) as gateway:
        assert (await gateway.ask("go")).reply == "one"
        kept[0].emit(StepStarted(step=7, **kept[0].ids))
        assert texts(await conversation(gateway)) == ["go", "one"]
        assert [turn.status for turn in await gateway.app.turns(9)] == ["completed", "completed"]
