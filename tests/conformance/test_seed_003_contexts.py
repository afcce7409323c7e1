"""Seed 003, rule by rule: what the three standard kinds enclose and see, and the conversation (§3, §4.4, §7.2).

As in test_seed_003.py the name of each test has the section and the number of its rule.
"""

import asyncio
import inspect
from typing import Any

import pytest
from msgspec.structs import replace
from tests.conformance.onion import STANDARD, Extending, Heard, extended, in_turn, note, texts
from tests.walks.house import AnyRegistration, House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.config.schema import StorageSettings
from finclaw.errors import ProviderError
from finclaw.kernel.event import ExecutionCompleted
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Append, LlmMessage, Patch, Remove, Replace, Text, ToolResult, Truncate
from finclaw.kernel.scope import ConversationView, StepContext, StepResult, ToolCallContext, TurnContext, TurnResult
from finclaw.storage.jsonl.directory import SESSIONS
from finclaw.testing import call, fails, reply

LOOK = reply(call("look", {"text": "x"}))

# ── §3: the three kinds ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MW-11")
@in_virtual_time
async def test_3_must_there_are_turn_step_and_tool_call(house: House) -> None:
    heard = Heard()
    layers: list[AnyRegistration] = [(ring, heard.layer(ring)) for ring in STANDARD]
    async with house.open(LOOK, "done", layers=layers, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
    assert heard.line == "turn( step( tool_call( )tool_call )step step( )step )turn"


@pytest.mark.spec("MW-21")
@in_virtual_time
async def test_3_1_a_turn_layer_sees_its_fields(house: House) -> None:
    """Agent, session (the seed's instance key), input, conversation, a way to emit, and metadata."""
    seen: list[TurnContext] = []

    async def look(ctx: TurnContext) -> TurnResult:
        seen.append(ctx)
        ctx.metadata["mine"] = 1
        return await ctx.next()

    async with house.open("done", layers=[("turn", look)]) as gateway:
        accepted = await gateway.channel.write("go")
        outcome = await gateway.outcome(accepted)
    (ctx,) = seen
    assert (ctx.agent, ctx.input.text, ctx.context.session_key) == ("main", "go", accepted.session)
    expected = {"agent": "main", "session": accepted.session, "inbound_id": accepted.id, "turn_id": outcome.turn_id}
    assert dict(ctx.ids) == expected
    assert callable(ctx.emit_message_event)
    assert ctx.metadata["mine"] == 1


@pytest.mark.spec("MW-24", "E-18", "E-21")
@in_virtual_time
async def test_3_1_1_must_a_turn_layer_encloses_the_whole_turn(house: House) -> None:
    """Everything the turn does lies between its two halves: each request, each tool, each event of a step."""
    heard: list[str] = []

    async def around(ctx: TurnContext) -> TurnResult:
        heard.append("(")
        result = await ctx.next()
        heard.append(")")
        return result

    def register(api: ExtensionApi) -> None:
        api.pipeline.register("turn", around)
        names = ("execution:start", "execution:turn", "tool:execute:start", "tool:execute:end", "execution:complete")
        api.events.observe(lambda event: heard.append(event.name), *names)

    script = [reply(call("market__quote", {"symbol": "AAPL"})), "done"]
    async with extended(house, Extending("mine", register), script=script) as gateway:
        await gateway.ask("AAPL?")
    steps = ["execution:turn", "tool:execute:start", "tool:execute:end", "execution:turn"]
    assert heard == ["execution:start", "(", *steps, ")", "execution:complete"]


@pytest.mark.spec("MW-24", "CS-02")
@in_virtual_time
async def test_3_1_2_must_the_base_can_be_read_before_next(house: House) -> None:
    bases: list[list[str]] = []

    async def look(ctx: TurnContext) -> TurnResult:
        bases.append(texts(ctx.conversation.base_messages))
        return await ctx.next()

    async with house.open("one", "two", layers=[("turn", look)]) as gateway:
        await gateway.ask("first")
        await gateway.ask("second")
    assert bases == [[], ["first", "one"]]


@pytest.mark.spec("MW-24", "CS-04")
@in_virtual_time
async def test_3_1_3_must_events_can_be_emitted_before_next(house: House) -> None:
    async def remind(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Append(note("remember the milk")))
        return await ctx.next()

    async with house.open("done", layers=[("turn", remind)]) as gateway:
        await gateway.ask("go")
        assert texts(gateway.seen) == ["go", "remember the milk"]


@pytest.mark.spec("MW-24")
@in_virtual_time
async def test_3_1_4_must_events_can_be_emitted_after_next(house: House) -> None:
    """What the person saw stays one message; what the layer says behind it comes behind it, and lasts."""

    async def sign(ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        ctx.emit_message_event(Append(note(f"signed: {result.text}", "system")))
        return result

    async with house.open("one", "two", layers=[("turn", sign)]) as gateway:
        await gateway.ask("first")
        await gateway.ask("second")
        assert texts(gateway.seen) == ["first", "one", "signed: one", "second"]


@pytest.mark.spec("MW-05", "MT-03")
@in_virtual_time
async def test_3_1_5_may_a_turn_layer_changes_the_result(house: House) -> None:
    """Also from completed to failed; what happened and what it cost is the core's to tell, and stays."""

    async def doubt(ctx: TurnContext) -> TurnResult:
        return replace(await ctx.next(), status="failed", text="I am not sure.", steps=99)

    async with house.open("sure", layers=[("turn", doubt)]) as gateway:
        assert (await gateway.ask("go")).reply == "I am not sure."
        (turn,) = await gateway.app.turns(1)
        assert (turn.status, turn.steps) == ("failed", 1)


@pytest.mark.spec("MW-04", "DX-55", "DX-76")
@in_virtual_time
async def test_3_1_6_deviation_a_turn_layer_may_answer_itself(house: House) -> None:
    """The seed calls next() a must; a layer that answers alone is a short circuit, and the turn is recorded as one."""

    async def cached(ctx: TurnContext) -> TurnResult:
        return TurnResult(status="completed", text="as ever")

    async with house.open(layers=[("turn", cached)]) as gateway:
        assert (await gateway.ask("go")).reply == "as ever"
        (turn,) = await gateway.app.turns(1)
        assert (turn.status, turn.steps, gateway.provider.requests) == ("short_circuited", 0, [])


@pytest.mark.spec("MW-22")
@in_virtual_time
async def test_3_2_a_step_layer_sees_its_fields(house: House) -> None:
    """Its turn, the index from zero, the conversation, a way to emit, the catalog and metadata."""
    seen: list[tuple[int, str, list[str], bool]] = []

    async def look(ctx: StepContext) -> StepResult:
        names = [spec.name for spec in ctx.tool_catalog]
        seen.append((ctx.index, ctx.turn.input.text, texts(ctx.conversation.next_messages), "look" in names))
        assert ctx.emit_message_event == ctx.turn.emit_message_event
        ctx.metadata["index"] = ctx.index
        return await ctx.next()

    async with house.open(LOOK, "done", layers=[("step", look)], tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
    assert seen == [(0, "go", ["go"], True), (1, "go", ["go", "", ""], True)]


@pytest.mark.spec("MW-20", "MT-04", "R-18")
@in_virtual_time
async def test_3_2_1_must_a_step_layer_encloses_model_and_tools(house: House) -> None:
    heard, desk = Heard(), Desk()
    results: list[StepResult] = []

    async def tool(text: str, scope: Any) -> str:
        heard.append("tool")
        return text

    async def around(ctx: StepContext) -> StepResult:
        heard.append("step(")
        results.append(await ctx.next())
        heard.append(")step")
        return results[-1]

    def model(request: Any) -> Any:
        heard.append("model")
        return LOOK if len(request.messages) == 1 else "done"

    async with house.open(model, layers=[("step", around)], tools=[desk.tool("look", tool)]) as gateway:
        await gateway.ask("go")
    assert heard.line == "step( model tool )step step( model )step"
    first, last = results
    assert (first.status, first.has_tool_calls, [each.name for each in first.tool_calls]) == (
        "completed",
        True,
        ["look"],
    )
    assert [(each.name, each.content) for each in first.tool_results] == [("look", "x")]
    assert (last.has_tool_calls, last.tool_calls, last.tool_results) == (False, (), ())


@pytest.mark.spec("MW-25", "DX-56")
@in_virtual_time
async def test_3_2_2_must_the_catalog_can_be_filtered_extended_and_changed(house: House) -> None:
    """Each layer sees what the one outside of it has made of the catalog: they share one state."""
    desk = Desk()
    seen: list[list[str]] = []

    async def only_look(ctx: StepContext) -> StepResult:
        ctx.turn.metadata["all"] = ctx.tool_catalog
        ctx.tool_catalog = tuple(spec for spec in ctx.tool_catalog if spec.name == "look")
        return await ctx.next()

    async def add_peek(ctx: StepContext) -> StepResult:
        seen.append([spec.name for spec in ctx.tool_catalog])
        peek = next(spec for spec in ctx.metadata["all"] if spec.name == "peek")
        ctx.tool_catalog = (*ctx.tool_catalog, peek)
        return await ctx.next()

    async def describe(ctx: StepContext) -> StepResult:
        seen.append([spec.name for spec in ctx.tool_catalog])
        ctx.tool_catalog = tuple(replace(spec, description="Changed.") for spec in ctx.tool_catalog)
        return await ctx.next()

    layers: list[AnyRegistration] = [("step", only_look), ("step", add_peek), ("step", describe)]
    async with house.open("done", layers=layers, tools=[desk.tool("look"), desk.tool("peek")]) as gateway:
        await gateway.ask("go")
        offered = gateway.provider.requests[0].tools
    assert seen == [["look"], ["look", "peek"]]
    assert [(spec.name, spec.description) for spec in offered] == [("look", "Changed."), ("peek", "Changed.")]


@pytest.mark.spec("MW-25", "DX-56", "DX-64")
@in_virtual_time
async def test_3_2_3_must_the_changed_catalog_is_what_the_model_gets_in_that_step(house: House) -> None:
    """In that step, and not in the next; what was filtered out is refused if the model asks for it all the same."""
    desk = Desk()

    async def hide_at_first(ctx: StepContext) -> StepResult:
        if ctx.index == 0:
            ctx.tool_catalog = ()
        return await ctx.next()

    layers: list[AnyRegistration] = [("step", hide_at_first)]
    async with house.open(LOOK, LOOK, "done", layers=layers, tools=[desk.tool("look")]) as gateway:
        await gateway.ask("go")
        assert [bool(request.tools) for request in gateway.provider.requests] == [False, True, True]
        assert [result.status for result in gateway.results] == ["error", "ok"]
    assert desk.runs == [("look", "x")]


@pytest.mark.spec("DX-57", "MW-31")
@in_virtual_time
async def test_3_2_4_may_and_should_a_retry_is_asked_for_by_the_result(house: House) -> None:
    """Not by a second next(), as the seed says, and not by raising, after which its example never retries: the layer
    says why in its result, the core goes on with another step, and the model is told the reason.
    """

    async def insist(ctx: StepContext) -> StepResult:
        result = await ctx.next()
        return replace(result, again="Say it politely.") if "please" not in result.message.text else result

    async with house.open("No.", "No, please.", layers=[("step", insist)]) as gateway:
        assert (await gateway.ask("go")).reply == "No, please."
        assert texts(gateway.seen) == ["go", "No.", "Say it politely."]
        assert gateway.seen[-1].role != "assistant"
        session = (await gateway.app.sessions(1)).items[0].key
        assert "Say it politely." not in texts(await gateway.app.messages(session)), "it was for this turn only"


@pytest.mark.spec("DX-57", "DX-73")
@in_virtual_time
async def test_3_2_4_a_layer_that_never_has_enough_meets_the_limit(house: House) -> None:
    async def never(ctx: StepContext) -> StepResult:
        return replace(await ctx.next(), again="More.")

    async with house.open(lambda _: "words", layers=[("step", never)]) as gateway:
        await gateway.ask("go")
        (turn,) = await gateway.app.turns(1)
        assert (turn.status, turn.steps) == ("max_steps", 11)


@pytest.mark.spec("DX-57")
@in_virtual_time
async def test_3_2_4_a_step_layer_may_catch_an_error_and_answer_in_its_own_words(house: House) -> None:
    async def fallback(ctx: StepContext) -> StepResult:
        try:
            return await ctx.next()
        except ProviderError:
            return StepResult(message=note("Later, please.", "assistant"))

    async with house.open(fails(ProviderError("down")), "two", layers=[("step", fallback)]) as gateway:
        assert (await gateway.ask("go")).reply == "Later, please."
        await gateway.ask("again")
        assert texts(gateway.seen) == ["go", "Later, please.", "again"]


@pytest.mark.spec("MW-04", "DX-55")
@in_virtual_time
async def test_3_2_5_deviation_a_step_layer_may_answer_itself(house: House) -> None:
    async def offline(ctx: StepContext) -> StepResult:
        return StepResult(message=note("from the cache", "assistant"))

    async with house.open(layers=[("step", offline)]) as gateway:
        assert (await gateway.ask("go")).reply == "from the cache"
        assert gateway.provider.requests == []


@pytest.mark.spec("MW-23", "DX-62")
@in_virtual_time
async def test_3_3_a_tool_layer_sees_its_fields(house: House) -> None:
    """Name, call id, arguments and metadata; and, unlike in the seed, also the turn and the step it belongs to."""
    seen: list[Any] = []

    async def look(ctx: ToolCallContext) -> ToolResult:
        seen.append((ctx.tool_name, ctx.call_id, ctx.args, ctx.step.index, ctx.turn.input.text, dict(ctx.ids)))
        ctx.metadata["x"] = 1
        return await ctx.next()

    async with house.open(LOOK, "done", layers=[("tool_call", look)], tools=[Desk().tool("look")]) as gateway:
        accepted = await gateway.channel.write("go")
        outcome = await gateway.outcome(accepted)
    ids = {"agent": "main", "session": accepted.session, "inbound_id": accepted.id, "turn_id": outcome.turn_id}
    assert seen == [("look", "call_1_0", {"text": "x"}, 0, "go", ids)]


@pytest.mark.spec("MW-20", "H-03", "MT-05")
@in_virtual_time
async def test_3_3_1_must_a_tool_layer_encloses_one_call(house: House) -> None:
    """Once for each call, with input, context and result at hand."""
    pairs: list[tuple[str, str]] = []

    async def around(ctx: ToolCallContext) -> ToolResult:
        result = await ctx.next()
        pairs.append((ctx.args["text"], result.content))
        assert (result.call_id, result.name, result.status) == (ctx.call_id, ctx.tool_name, "ok")
        return result

    two = reply(call("look", {"text": "1"}), call("look", {"text": "2"}))
    async with house.open(two, "done", layers=[("tool_call", around)], tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
    assert pairs == [("1", "look: 1"), ("2", "look: 2")]


@pytest.mark.spec("MW-26", "DX-56")
@in_virtual_time
async def test_3_3_2_must_arguments_can_be_changed(house: House) -> None:
    """In place or by another dictionary; what the model wrote stays in the conversation as it was."""
    desk = Desk()

    async def in_place(ctx: ToolCallContext) -> ToolResult:
        ctx.args["text"] += "y"
        return await ctx.next()

    async def another(ctx: ToolCallContext) -> ToolResult:
        ctx.args = {**ctx.args, "text": ctx.args["text"] + "z"}
        return await ctx.next()

    layers: list[AnyRegistration] = [("tool_call", in_place), ("tool_call", another)]
    async with house.open(LOOK, "done", layers=layers, tools=[desk.tool("look")]) as gateway:
        await gateway.ask("go")
        assert gateway.seen[1].tool_calls[0].args == {"text": "x"}
    assert desk.runs == [("look", "xyz")]


@pytest.mark.spec("MW-26", "H-02")
@in_virtual_time
async def test_3_3_3_must_the_changed_arguments_reach_the_tool_once_they_are_judged(house: House) -> None:
    desk = Desk()

    async def spoil(ctx: ToolCallContext) -> ToolResult:
        ctx.args = {"text": 7}
        return await ctx.next()

    async with house.open(LOOK, "done", layers=[("tool_call", spoil)], tools=[desk.tool("look")]) as gateway:
        await gateway.ask("go")
        (result,) = gateway.results
        assert result.status == "invalid"
        assert result.content.startswith("Invalid input for look")
    assert desk.runs == []


@pytest.mark.spec("MW-04", "DX-55", "DX-64", "MT-05")
@in_virtual_time
async def test_3_3_4_deviation_a_tool_layer_may_refuse_a_call(house: House) -> None:
    """Arguments that are too long are refused, not cut as in the seed's example, which would run half a command."""
    desk = Desk()

    async def short_only(ctx: ToolCallContext) -> ToolResult:
        if len(ctx.args["text"]) > 10:
            return ToolResult(ctx.call_id, ctx.tool_name, "too long; say it in 10 characters", status="denied")
        return await ctx.next()

    asks = reply(call("look", {"text": "x" * 11}), call("look", {"text": "y"}))
    async with house.open(asks, "done", layers=[("tool_call", short_only)], tools=[desk.tool("look")]) as gateway:
        await gateway.ask("go")
        assert [result.status for result in gateway.results] == ["denied", "ok"]
    assert desk.runs == [("look", "y")]


# ── §4.4: the conversation ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CS-02", "CS-13")
@in_virtual_time
async def test_4_4_1_must_the_base_is_a_snapshot_of_the_start(house: House) -> None:
    """Nothing that happens in the turn alters it, and nobody can: it is a tuple of frozen messages."""
    bases: list[Any] = []

    async def look(ctx: TurnContext) -> TurnResult:
        before = ctx.conversation.base_messages
        ctx.emit_message_event(Truncate(keep_last=1))
        result = await ctx.next()
        bases.append((before, ctx.conversation.base_messages))
        with pytest.raises(AttributeError):
            ctx.conversation.next_messages[0].role = "system"  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(AttributeError):
            ctx.conversation.next_messages.append(note("x"))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        return result

    async with house.open("one", "two", layers=[("turn", look)]) as gateway:
        await gateway.ask("first")
        await gateway.ask("second")
    assert [texts(before) for before, _ in bases] == [[], ["first", "one"]]
    assert all(before == after for before, after in bases)


@pytest.mark.spec("CS-03")
@in_virtual_time
async def test_4_4_2_must_events_are_this_turns_in_order(house: House) -> None:
    kinds: list[list[str]] = []

    async def look(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Append(note("n", id="n")))
        ctx.emit_message_event(Patch("n", {"pinned": True}))
        result = await ctx.next()
        kinds.append([type(event).__name__ for event in ctx.conversation.events])
        return result

    async with house.open(LOOK, "done", "done", layers=[("turn", look)], tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
        own = ["Append", "Append", "Patch"]
        assert kinds.pop() == [*own, "Append", "ToolStarted", "Append", "Append"]
    async with house.open("done", layers=[("turn", look)]) as gateway:
        await gateway.ask("other", conversation="u-2")
        assert kinds == [[*own, "Append"]]


@pytest.mark.spec("CS-04", "CS-01", "CS-05")
@in_virtual_time
async def test_4_4_3_must_what_was_emitted_counts_at_once(house: House) -> None:
    """For the layer itself, for the ones inside, for the next step and for a tool's layer."""
    seen: list[list[str]] = []

    async def outer(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Append(note("a", id="a")))
        seen.append(in_turn(ctx))
        return await ctx.next()

    async def inner(ctx: TurnContext) -> TurnResult:
        seen.append(in_turn(ctx))
        ctx.emit_message_event(Replace("a", note("b", id="a")))
        return await ctx.next()

    async def step(ctx: StepContext) -> StepResult:
        seen.append(texts(ctx.conversation.next_messages))
        if ctx.index == 0:
            ctx.emit_message_event(Remove("a"))
        return await ctx.next()

    layers: list[AnyRegistration] = [("turn", outer), ("turn", inner), ("step", step)]
    async with house.open("done", layers=layers) as gateway:
        await gateway.ask("go")
        assert texts(gateway.seen) == ["go"]
    assert seen == [["go", "a"], ["go", "a"], ["go", "b"]]


@pytest.mark.spec("CS-01", "CS-05", "CS-07", "DX-61")
@in_virtual_time
async def test_4_4_4_must_next_is_base_plus_events(house: House) -> None:
    """All five events, truncate with our `keep_last`: the seed's has no argument and would take the question away."""
    lines: list[list[str]] = []

    async def change(ctx: TurnContext) -> TurnResult:
        if ctx.input.text != "second":
            return await ctx.next()
        for event in (
            Append(note("x", id="x")),
            Replace("x", note("y", id="y")),
            Patch("y", {"k": 1}),
            Truncate(keep_last=2),
            Append(note("z", id="z")),
            Remove("y"),
        ):
            ctx.emit_message_event(event)
            lines.append(in_turn(ctx))
        return await ctx.next()

    async with house.open("one", "two", layers=[("turn", change)]) as gateway:
        await gateway.ask("first")
        await gateway.ask("second")
        base = ["first", "one", "second"]
        assert lines == [
            [*base, "x"],
            [*base, "y"],
            [*base, "y"],
            ["second", "y"],
            ["second", "y", "z"],
            ["second", "z"],
        ]
        assert texts(gateway.seen) == ["second", "z"]


@pytest.mark.spec("MW-03", "CS-04")
@in_virtual_time
async def test_4_4_5_must_before_next_is_pre_and_behind_it_is_post(house: House) -> None:
    """Seen by the conversation: before next() the answer is not there, behind it it is."""
    seen: list[list[str]] = []

    async def around(ctx: TurnContext) -> TurnResult:
        seen.append(in_turn(ctx))
        result = await ctx.next()
        seen.append(in_turn(ctx))
        return result

    async with house.open("done", layers=[("turn", around)]) as gateway:
        await gateway.ask("go")
    assert seen == [["go"], ["go", "done"]]


@pytest.mark.spec("CS-14", "CS-13")
@in_virtual_time
async def test_4_4_6_must_the_older_access_to_messages_is_gone(house: House) -> None:
    seen: list[TurnContext] = []

    async def look(ctx: TurnContext) -> TurnResult:
        seen.append(ctx)
        return await ctx.next()

    async with house.open("done", layers=[("turn", look)]) as gateway:
        await gateway.ask("go")
    (ctx,) = seen
    assert not hasattr(ctx, "messages")
    assert not hasattr(ctx, "turn")
    shown = {name for name, _ in inspect.getmembers(ConversationView) if not name.startswith("_")}
    assert shown == {"base_messages", "events", "next_messages", "to_llm_messages"}


@pytest.mark.spec("CS-06", "MT-01", "DX-70")
@in_virtual_time
async def test_4_4_what_goes_to_a_model_is_without_bookkeeping(house: House) -> None:
    sent: list[LlmMessage] = []

    async def look(ctx: TurnContext) -> TurnResult:
        sent.extend(ctx.conversation.to_llm_messages())
        (message,) = ctx.conversation.next_messages
        assert message.id
        assert (message.role, message.source.kind, message.created_at) == ("user", "user", house.clock.now())
        return await ctx.next()

    async with house.open("done", layers=[("turn", look)]) as gateway:
        await gateway.ask("go")
    assert sent == [LlmMessage("user", (Text("go"),))]
    assert LlmMessage.__struct_fields__ == ("role", "blocks")


@pytest.mark.spec("MT-02", "MT-01")
@in_virtual_time
async def test_4_6_every_message_tells_who_put_it_there(house: House) -> None:
    async def remind(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Append(note("n")))
        return await ctx.next()

    async with house.open(LOOK, "done", layers=[("turn", remind)], tools=[Desk().tool("look")]) as gateway:
        accepted = await gateway.channel.write("go")
        await gateway.outcome(accepted)
        messages = await gateway.app.messages(accepted.session)
    told = [(message.role, message.source.kind, message.source.id or message.source.name) for message in messages]
    assert told == [
        ("user", "user", "ada"),
        ("user", "extension", "test"),
        ("assistant", "assistant", "0"),
        ("tool", "tool", "0"),
        ("assistant", "assistant", "1"),
    ]
    assert len({message.id for message in messages}) == len(messages)
    (result,) = messages[3].tool_results
    assert (result.call_id, result.name) == ("call_1_0", "look"), "call and tool are told with each result"


# ── §7.2: a turn's messages ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CS-02", "CS-12")
@in_virtual_time
async def test_7_2_1_must_a_turn_begins_with_the_base_of_the_one_before(house: House) -> None:
    """Also when the second message came while the first was being answered: one input, one turn, then the next."""
    bases: list[list[str]] = []

    async def look(ctx: TurnContext) -> TurnResult:
        bases.append(texts(ctx.conversation.base_messages))
        await asyncio.sleep(5)
        return await ctx.next()

    async with house.open("one", "two", layers=[("turn", look)]) as gateway:
        first = await gateway.channel.write("first")
        second = await gateway.channel.write("second")
        await gateway.outcome(first)
        await gateway.outcome(second)
    assert bases == [[], ["first", "one"]]


@pytest.mark.spec("CS-03", "CS-04")
@in_virtual_time
async def test_7_2_2_must_what_a_layer_emits_is_among_the_events(house: House) -> None:
    found: list[Any] = []

    async def emit(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Append(note("n", id="n")))
        found.append(ctx.conversation.events[-1])
        return await ctx.next()

    async with house.open("done", layers=[("turn", emit)]) as gateway:
        await gateway.ask("go")
    assert found == [Append(note("n", id="n"))]


@pytest.mark.spec("MW-24", "CS-08")
@in_virtual_time
async def test_7_2_3_must_what_is_emitted_after_next_lasts(house: House) -> None:
    async def mark(ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        answer = ctx.conversation.next_messages[-1]
        ctx.emit_message_event(Patch(answer.id, {"pinned": True}))
        return result

    async with house.open("one", layers=[("turn", mark)]) as gateway:
        await gateway.ask("go")
    async with house.open("two") as gateway:
        await gateway.ask("again")
        assert [message.metadata.get("pinned") for message in gateway.seen] == [None, True, None]


@pytest.mark.spec("CS-08")
@in_virtual_time
async def test_7_2_4_must_the_fold_comes_after_the_outermost_layer(house: House) -> None:
    """While a layer is still at work behind next(), the base on disk is the old one."""
    on_disk: list[list[str]] = []

    async def slow(ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        on_disk.append(texts(await gateway.app.messages(ctx.ids["session"])))
        return result

    async with house.open("one", layers=[("turn", slow)]) as gateway:
        accepted = await gateway.channel.write("go")
        await gateway.outcome(accepted)
        on_disk.append(texts(await gateway.app.messages(accepted.session)))
    assert on_disk == [[], ["go", "one"]]


@pytest.mark.spec("CS-09", "DX-60")
@in_virtual_time
async def test_7_2_5_should_the_events_outlive_a_crash_and_are_not_doubled(house: House) -> None:
    """What was logged before the crash is there for the next start, which goes on from it instead of beginning anew."""
    desk = Desk()
    await crash(house, "tools:ended", LOOK, tools=[desk.tool("look")])
    async with house.open("done", tools=[desk.tool("look")]) as gateway:
        await gateway.app.idle()
        (turn,) = await gateway.app.turns(1)
        messages = await gateway.app.messages(turn.session)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert len(gateway.provider.requests) == 1, "the first answer of the model was not paid for again"


@pytest.mark.spec("CS-09")
@in_virtual_time
async def test_7_2_5_should_a_failing_layer_loses_nothing_that_happened(house: House) -> None:
    """The turn fails and is folded with everything it had done; the sender's notice is its last word."""

    async def broken(ctx: TurnContext) -> TurnResult:
        await ctx.next()
        raise RuntimeError("after all that")

    async with house.open(LOOK, "done", layers=[("turn", broken)], tools=[Desk().tool("look")]) as gateway:
        accepted = await gateway.channel.write("go")
        outcome = await gateway.outcome(accepted)
        messages = await gateway.app.messages(accepted.session)
        completed = [event.status for event in gateway.events if isinstance(event, ExecutionCompleted)]
    assert (outcome.kind, completed) == ("failed", ["failed"])
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[-1].text == outcome.reply


@pytest.mark.spec("CS-10", "CS-11", "DX-60")
@in_virtual_time
async def test_7_2_6_must_the_events_file_is_folded_into_the_base_file_and_cleared(house: House) -> None:
    """The seed's two line files, with the file store: what happens in a turn is in the one, then in the other."""
    sizes: list[tuple[int, bool]] = []

    def files() -> tuple[int, bool]:
        (events,) = (house.state / SESSIONS).rglob("events.jsonl")
        lines, base = events.read_text("utf-8").splitlines(), events.with_name("base.jsonl")
        folded = base.read_text("utf-8") if base.exists() else ""
        return sum("tool_started" in line or "append" in line for line in lines), "done" in folded

    async def look(ctx: StepContext) -> StepResult:
        if ctx.index == 1:
            sizes.append(files())
        return await ctx.next()

    script = [reply(call("market__quote", {"symbol": "AAPL"})), "done"]
    mine = Extending("mine", lambda api: api.pipeline.register("step", look))
    async with extended(house, mine, script=script, storage=StorageSettings(kind="jsonl")) as gateway:
        await gateway.ask("AAPL?")
    sizes.append(files())
    assert sizes[0][0] > 0
    assert not sizes[0][1]
    assert sizes[1] == (0, True)
