"""How turns end and what they tell: the six statuses, usage, durations, and that only the final text is said."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

import pytest
from msgspec.structs import replace
from tests.conformance.onion import note, texts
from tests.walks.house import AnyRegistration, House, Parts, in_virtual_time, until
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.errors import Overloaded, ToolError
from finclaw.kernel.chunk import Model, ModelRequest, Usage
from finclaw.kernel.envelope import Attachment, Capabilities, ChatType, Embed, Inbound, Outbound
from finclaw.kernel.event import ExecutionCompleted, StepStarted, StreamDone, UsageUpdated
from finclaw.kernel.message import Message, Text, ToolCall, ToolFailure, ToolResult
from finclaw.kernel.port import Accept, ToolScope
from finclaw.kernel.record import OutboxItem
from finclaw.kernel.scope import DeliveryContext, StepContext, StepResult, TurnContext, TurnResult, TurnStatus
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.testing import ScriptedProvider, call, delay, fails, hold, reply, say, think
from finclaw.testing.provider import Line

LOOK = reply(call("look", {"text": "x"}))


class Results(list[TurnResult]):
    """What turns told, as the delivery ring sees it."""

    @property
    def layer(self) -> AnyRegistration:
        async def keep(ctx: DeliveryContext) -> Any:
            if ctx.turn is not None:
                self.append(ctx.turn)
            return await ctx.next()

        return ("delivery", keep)


# ── the six statuses ────────────────────────────────────────────────────────────────────────────────────────


async def _wait_for_human(ctx: TurnContext) -> TurnResult:
    return replace(await ctx.next(), status="waiting_for_human", text="May I?")


async def _short_circuit(ctx: TurnContext) -> TurnResult:
    return TurnResult(status="completed", text="as ever")


async def _fail_the_step(ctx: StepContext) -> StepResult:
    return replace(await ctx.next(), status="failed")


@dataclass(frozen=True)
class Ending:
    script: Sequence[Line]
    outcome: str = "answered"
    reply: str | None = "done"
    layers: Sequence[AnyRegistration] = ()
    agent: AgentSettings = field(default_factory=AgentSettings)
    stopped: bool = False


ENDINGS: dict[TurnStatus, Ending] = {
    "completed": Ending([LOOK, "done"]),
    "max_steps": Ending([LOOK, "done"], agent=AgentSettings(max_steps=1)),
    "aborted": Ending([reply(delay(99), say("late"))], "stopped", "Stopped.", stopped=True),
    "failed": Ending(["done"], layers=[("step", _fail_the_step)]),
    "waiting_for_human": Ending(["done"], reply="May I?", layers=[("turn", _wait_for_human)]),
    "short_circuited": Ending([], reply="as ever", layers=[("turn", _short_circuit)]),
}


@pytest.mark.spec("DX-76", "MT-03", "R-04", "R-06", "R-09", "R-11")
@pytest.mark.parametrize("status", ENDINGS)
@in_virtual_time
async def test_each_status_is_told_by_record_stream_and_end_alike(house: House, status: TurnStatus) -> None:
    ending = ENDINGS[status]
    async with house.open(
        *ending.script, layers=ending.layers, tools=[Desk().tool("look")], agent=ending.agent
    ) as gateway:
        accepted = await gateway.channel.write("go")
        if ending.stopped:
            await until(lambda: any(isinstance(event, StepStarted) for event in gateway.events))
            gateway.app.stop_message(accepted.id)
        outcome = await gateway.outcome(accepted)
        assert (outcome.kind, outcome.reply) == (ending.outcome, ending.reply)
        (record,) = await gateway.app.turns(1)
        told = [event.status for event in gateway.events if isinstance(event, StreamDone | ExecutionCompleted)]
        assert [record.status, *told] == [status] * 3


@pytest.mark.spec("DX-76")
def test_there_are_six_statuses_and_each_has_a_walk() -> None:
    assert set(get_args(TurnStatus)) == set(ENDINGS)


@pytest.mark.spec("DX-76", "MT-03")
@in_virtual_time
async def test_a_turn_that_raises_is_failed_too(house: House) -> None:
    async def broken(ctx: TurnContext) -> TurnResult:
        raise RuntimeError("broken")

    async with house.open(layers=[("turn", broken)]) as gateway:
        assert (await gateway.ask("go")).kind == "failed"
        assert (await gateway.app.turns(1))[0].status == "failed"


# ── what a result tells ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("R-04", "MT-03", "MT-07", "DX-51c", "E-21")
@in_virtual_time
async def test_the_result_has_status_messages_usage_steps_and_duration(house: House) -> None:
    results = Results()
    first, second = Usage(10, 2, cache_read=500, cache_write=70), Usage(20, 3, cache_read=600, cache_write=80)
    script = [reply(call("look", {"text": "x"}), delay(2), usage=first), reply("done", usage=second)]
    async with house.open(*script, layers=[results.layer], tools=[Desk().tool("look")]) as gateway:
        outcome = await gateway.ask("go")
        (record,) = await gateway.app.turns(1)
        (completed,) = (event for event in gateway.events if isinstance(event, ExecutionCompleted))
        contexts = [event.context for event in gateway.events if isinstance(event, UsageUpdated)]
    (result,) = results
    total = Usage(30, 5, cache_read=1100, cache_write=150)
    assert [each.usage for each in (result, outcome, record, completed)] == [total] * 4
    assert contexts == [580, 700], "how full the window is tells the last request alone"
    assert (result.status, result.text, result.steps, completed.steps) == ("completed", "done", 2, 2)
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert result.duration_ms == completed.duration_ms == 2000.0


@pytest.mark.spec("R-04", "DX-51c")
@in_virtual_time
async def test_the_duration_does_not_include_waiting(house: House) -> None:
    """Neither for the lane nor for a seat in the pool."""
    results = Results()
    one_seat = PipelineSettings(pools=PoolSettings(main=1))
    slow, short = reply(delay(60), say("slow")), reply(delay(1), say("short"))
    async with house.open(slow, short, short, layers=[results.layer], pipeline=one_seat) as gateway:
        asked = [await gateway.channel.write(text, conversation=where) for text, where in (("1", "a"), ("2", "a"))]
        asked.append(await gateway.channel.write("3", conversation="b"))
        for accepted in asked:
            await gateway.outcome(accepted)
    assert [result.duration_ms for result in results] == [60_000.0, 1000.0, 1000.0]


@pytest.mark.spec("MT-04", "R-10", "R-18")
@in_virtual_time
async def test_a_step_tells_its_calls_and_results_and_they_are_one_message(house: House) -> None:
    """In call order, however the tools finish, with a mark on those that failed."""
    steps: list[StepResult] = []

    async def wait_for(text: str, scope: ToolScope) -> str:
        await asyncio.sleep(float(text))
        if text == "2":
            raise ToolError("no", suggestion="try 1")
        return text

    async def keep(ctx: StepContext) -> StepResult:
        steps.append(await ctx.next())
        return steps[-1]

    calls = [call("look", {"text": seconds}) for seconds in ("3", "2", "1")]
    async with house.open(
        reply(*calls), "done", layers=[("step", keep)], tools=[Desk().tool("look", wait_for)]
    ) as gateway:
        await gateway.ask("go")
        assert house.clock.monotonic() == 3.0, "side by side"
        (tool_message,) = (message for message in gateway.seen if message.role == "tool")
    assert tool_message.tool_results == steps[0].tool_results
    assert [each.args["text"] for each in steps[0].tool_calls] == ["3", "2", "1"]
    assert [(each.content, each.is_error) for each in steps[0].tool_results] == [
        ("3", False),
        ("no", True),
        ("1", False),
    ]
    assert [each.status for each in steps] == ["completed", "completed"]


@pytest.mark.spec("DX-65", "X-03", "DX-51")
@in_virtual_time
async def test_calls_run_side_by_side_only_when_all_of_them_allow_it(house: House) -> None:
    async def wait(text: str, scope: ToolScope) -> str:
        await asyncio.sleep(2)
        return text

    took: list[float] = []
    for safe in (True, False):
        desk = Desk()
        tools = [desk.tool("one", wait), desk.tool("two", wait, parallel_safe=safe)]
        before = house.clock.monotonic()
        async with house.open(
            reply(call("one"), call("two"), call("one", {"text": "x"})), "done", tools=tools
        ) as gateway:
            await gateway.ask("go")
            took.append(house.clock.monotonic() - before)
            assert [result.name for result in gateway.results[-3:]] == ["one", "two", "one"]
    assert took == [2.0, 6.0]


@pytest.mark.spec("MT-05", "T-08", "X-07", "X-10")
@in_virtual_time
async def test_a_call_result_names_call_tool_output_and_a_structured_error(house: House) -> None:
    async def fail(text: str, scope: ToolScope) -> str:
        raise ToolError("the market is closed", suggestion="ask for the last close")

    desk = Desk()
    tools = [desk.tool("look"), desk.tool("fail", fail)]
    async with house.open(reply(call("look", {"text": "x"}), call("fail")), "done", tools=tools) as gateway:
        await gateway.ask("go")
        good, bad = gateway.results
    assert (good.call_id, good.name, good.content, good.status, good.error) == (
        "call_1_0",
        "look",
        "look: x",
        "ok",
        None,
    )
    failure = ToolFailure("ToolError", "the market is closed", suggestion="ask for the last close", code="failed")
    assert (bad.call_id, bad.name, bad.status, bad.error) == ("call_1_1", "fail", "error", failure)
    assert set(ToolFailure.__struct_fields__) == {"name", "message", "code", "suggestion", "help_url"}


# ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("R-01", "R-17", "DX-59")
@in_virtual_time
async def test_a_turn_goes_on_while_there_are_calls_and_the_model_sees_everything(house: House) -> None:
    """The core adds the input, each answer and each result, so that the next request has them; the reply is the last
    step's text.
    """
    script = [reply(f"Step {number}.", call("look", {"text": str(number)})) for number in range(3)]
    async with house.open(*script, "All seen.", tools=[Desk().tool("look")]) as gateway:
        outcome = await gateway.ask("go")
        sizes = [len(request.messages) for request in gateway.provider.requests]
    assert outcome.reply == "All seen."
    assert sizes == [1, 3, 5, 7]


@pytest.mark.spec("R-16", "R-09")
@pytest.mark.parametrize("greeting", ["hello", "안녕하세요"])
@in_virtual_time
async def test_a_greeting_takes_one_step(house: House, greeting: str) -> None:
    """With the model that needs no key: the built-in one."""
    async with finclaw.build(finclaw.Settings(state=house.state), clock=house.clock, threaded=False) as app:
        assert (await app.handle(Inbound(text=greeting))).kind == "answered"
        (turn,) = await app.turns(1)
        assert (turn.status, turn.steps) == ("completed", 1)


@pytest.mark.spec("R-16")
@pytest.mark.parametrize("question", ["What is the price of AAPL?", "삼성전자 현재 주가 알려줘"])
@in_virtual_time
async def test_a_price_question_takes_at_least_two(house: House, question: str) -> None:
    async with finclaw.build(finclaw.Settings(state=house.state), clock=house.clock, threaded=False) as app:
        outcome = await app.handle(Inbound(text=question))
        assert [use.name for use in outcome.tools] == ["market__quote"]
        (turn,) = await app.turns(1)
        assert turn.status == "completed"
        assert turn.steps >= 2


@pytest.mark.spec("R-02")
@in_virtual_time
async def test_a_turn_is_given_all_it_needs_and_the_rest_has_defaults(house: House) -> None:
    """Agent, session key, model, prompt, messages, tools and settings; ten steps, unless somebody says otherwise."""
    given: list[TurnContext] = []

    async def look(ctx: TurnContext) -> TurnResult:
        given.append(ctx)
        return await ctx.next()

    agent = AgentSettings(temperature=0.5, max_tokens=99, instructions="Be brief.")
    async with house.open("done", layers=[("turn", look)], tools=[Desk().tool("look")], agent=agent) as gateway:
        accepted = await gateway.channel.write("go")
        await gateway.outcome(accepted)
        (request,) = gateway.provider.requests
    (ctx,) = given
    assert (ctx.agent, ctx.context.session_key, ctx.input.text) == ("main", accepted.session, "go")
    assert (request.temperature, request.max_tokens, request.model) == (0.5, 99, ctx.model)
    assert "Be brief." in request.system
    assert "look" in [spec.name for spec in request.tools]
    assert (AgentSettings().max_steps, AgentSettings().parallel_tools) == (10, 8)


@pytest.mark.spec("R-03")
@pytest.mark.parametrize(
    ("agent", "pools", "steps", "attempts", "at_once"),
    [
        (AgentSettings(default_extensions=()), PoolSettings(), 10, 3, 9),
        (AgentSettings(default_extensions=(), max_steps=2, attempts=1), PoolSettings(main=4), 2, 1, 4),
    ],
    ids=["defaults", "given"],
)
@in_virtual_time
async def test_model_tools_pool_step_limit_and_retries_are_given_or_have_defaults(
    house: House, agent: AgentSettings, pools: PoolSettings, steps: int, attempts: int, at_once: int
) -> None:
    """Each by what it does: calls until the closing answer, calls until one gives up, turns that run at once."""
    held = asyncio.Event()

    def model(request: ModelRequest) -> Line:
        text = next(each.text for each in reversed(request.messages) if each.role == "user")
        if text == "hold":
            return reply(hold(held), say("late"))
        if text == "busy":
            return fails(Overloaded("x"))
        return reply(call("look", {"text": str(len(request.messages))})) if request.tools else "So far."

    desk = Desk()
    pipeline = PipelineSettings(pools=pools)
    async with house.open(model, tools=[desk.tool("look")], agent=agent, pipeline=pipeline) as gateway:
        asked = gateway.provider.requests
        assert (await gateway.ask("go")).reply == "So far."
        assert (len(desk.runs), len(asked)) == (steps, steps + 1)
        assert (await gateway.ask("busy", conversation="other")).kind == "failed"
        assert len(asked) == steps + 1 + attempts
        people = [f"person-{number}" for number in range(9)]  # one alone has a share of the pool
        waiting = [await gateway.channel.write("hold", conversation=each, sender=each) for each in people]
        await until(lambda: gateway.provider.streaming == at_once)
        await house.clock.sleep(5)
        assert gateway.provider.streaming == at_once
        held.set()
        assert [(await gateway.outcome(each)).reply for each in waiting] == ["late"] * 9


@pytest.mark.spec("R-11", "DX-73")
@in_virtual_time
async def test_the_one_limit_is_the_number_of_model_calls(house: House) -> None:
    """At the limit the model is asked once more, without tools, and what it says is the answer."""

    def model(request: Any) -> Line:
        return reply(call("look", {"text": str(len(request.messages))})) if request.tools else "So far."

    async with house.open(model, tools=[Desk().tool("look")], agent=AgentSettings(max_steps=3)) as gateway:
        assert (await gateway.ask("go")).reply == "So far."
        assert [bool(request.tools) for request in gateway.provider.requests] == [True, True, True, False]
        (turn,) = await gateway.app.turns(1)
        assert (turn.status, turn.steps) == ("max_steps", 4)


@pytest.mark.spec("DX-45", "P-40")
@in_virtual_time
async def test_only_the_final_text_is_said_and_never_what_a_tool_gave(house: House) -> None:
    """Neither a tool's output, nor thinking, nor what was said before the tools; input and answer are both kept."""
    raw = '{"secret": 42}'

    async def secret(text: str, scope: ToolScope) -> str:
        return raw

    script = [reply(think("Hm."), say("One moment. "), call("look")), reply(think("I see."), say("It is fine."))]
    async with house.open(*script, tools=[Desk().tool("look", secret)]) as gateway:
        accepted = await gateway.channel.write("is it?")
        assert (await gateway.outcome(accepted)).reply == "It is fine."
        await gateway.app.idle()
        assert gateway.said == ["It is fine."]
        kept = await gateway.app.messages(accepted.session)
    assert [message.text for message in kept if message.role in ("user", "assistant")] == [
        "is it?",
        "One moment. ",
        "It is fine.",
    ]
    assert kept[2].tool_results[0].content == raw


@pytest.mark.spec("DX-45", "DX-59")
@in_virtual_time
async def test_a_turn_that_ends_with_a_tool_says_nothing_of_its_output(house: House) -> None:
    """An empty last answer is not filled up with the last message there is."""
    async with house.open(LOOK, reply(""), tools=[Desk().tool("look")]) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.reply == "Sorry, I came to no answer this time. Please ask again, perhaps in other words."
        assert gateway.said == [outcome.reply]


# ── nouns ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MT-06", "DX-70", "TR-01")
@in_virtual_time
async def test_content_is_a_list_of_blocks(house: House) -> None:
    """Text, a tool call and its result, tied by the call's id; `text` is the shorthand."""
    async with house.open(
        reply("Let me see.", call("look", {"text": "x"})), "x", tools=[Desk().tool("look")]
    ) as gateway:
        await gateway.ask("go")
        user, assistant, tool = gateway.seen
    assert (user.blocks, user.text) == ((Text("go"),), "go")
    assert assistant.blocks == (Text("Let me see."), ToolCall("call_1_1", "look", {"text": "x"}))
    (result,) = tool.blocks
    assert isinstance(result, ToolResult)
    assert result.call_id == assistant.tool_calls[0].id
    assert all(message.created_at.tzinfo is not None and message.id for message in gateway.seen)


@pytest.mark.spec("MT-09", "MT-07")
def test_a_model_names_provider_window_and_largest_output() -> None:
    model = Model("anthropic", "claude", window=1_000_000, max_output=64_000)
    assert (model.provider, model.name, model.window, model.max_output) == ("anthropic", "claude", 1_000_000, 64_000)
    assert Usage.__struct_fields__ == ("input", "output", "cache_read", "cache_write")


class Post(finclaw.Channel):
    """A channel as somebody else would write one: one letter comes in, and whatever is sent is kept."""

    name = "post"
    capabilities = Capabilities(embeds=True)

    def __init__(self) -> None:
        self.letter = Inbound(
            text="what is on it?",
            channel="post",
            conversation="room",
            message_id="l-1",
            chat_type="group",
            attachments=(Attachment(id="a-1", kind="image", name="chart.png"),),
            mentions_us=True,
        )
        self.sent: list[Outbound] = []

    async def receive(self, accept: Accept) -> None:
        await accept(self.letter)
        await asyncio.Event().wait()

    async def send(self, unit: OutboxItem) -> finclaw.Receipt:
        self.sent.append(unit.outbound)
        return finclaw.Receipt(f"p-{len(self.sent)}")


@pytest.mark.spec("MT-08")
@in_virtual_time
async def test_a_channel_gives_and_takes_its_own_types_and_nothing_else(house: House) -> None:
    """Inbound with chat type and attachment on the way in; outbound with embed on the way out; a receipt for it."""
    hints = {name: get_type_hints(getattr(finclaw.Channel, name)) for name in ("receive", "send", "react", "fetch")}
    assert get_args(hints["receive"]["accept"])[0] == [Inbound]
    assert (hints["send"]["unit"], hints["send"]["return"]) == (OutboxItem, finclaw.Receipt)
    assert (hints["react"]["inbound"], hints["fetch"]["attachment"]) == (Inbound, Attachment)
    assert get_type_hints(OutboxItem)["outbound"] is Outbound
    given, taken = get_type_hints(Inbound), get_type_hints(Outbound)
    assert (given["chat_type"], given["attachments"]) == (ChatType, tuple[Attachment, ...])
    assert taken["embeds"] == tuple[Embed, ...]

    post, card, seen = Post(), Embed(title="AAPL", text="200 USD"), list[Inbound]()

    async def look(ctx: TurnContext) -> TurnResult:
        seen.append(ctx.context.inbound)
        return await ctx.next()

    async def show(ctx: DeliveryContext) -> Outbound:
        return replace(await ctx.next(), embeds=(card,))

    async with finclaw.build(
        finclaw.Settings(state=house.state),
        channels=[post],
        provider=ScriptedProvider("a chart", clock=house.clock),
        extensions=[Parts([("turn", look), ("delivery", show)])],
        clock=house.clock,
        threaded=False,
    ) as app:
        await until(lambda: bool(post.sent))
        await app.idle()
    assert seen == [post.letter]
    (sent,) = post.sent
    assert (sent.text, sent.embeds, sent.reply_to) == ("a chart", (card,), "l-1")


@pytest.mark.spec("DX-74", "EX-09", "R-14")
@in_virtual_time
async def test_one_session_key_names_the_session_at_every_door(house: House) -> None:
    """A channel and the API lead to the same road; events, records and the turn's context all use that one key."""
    seen: list[str] = []

    async def look(ctx: TurnContext) -> TurnResult:
        seen.append(ctx.context.session_key)
        return await ctx.next()

    async with house.open("one", "two", layers=[("turn", look)]) as gateway:
        by_channel = await gateway.channel.write("1")
        await gateway.outcome(by_channel)
        same_place = replace(by_channel.inbound, text="2", message_id="by-api")
        assert (await gateway.app.handle(same_place)).reply == "two"
        records = await gateway.app.turns(2)
        told = {event.session for event in gateway.events if event.session}
        assert texts(await gateway.app.messages(by_channel.session)) == ["1", "one", "2", "two"]
    assert {*seen, *told, *(record.session for record in records)} == {by_channel.session}


@pytest.mark.spec("MT-01", "MT-02")
def test_a_message_has_id_role_blocks_metadata_time_and_source() -> None:
    assert set(Message.__struct_fields__) == {"id", "role", "blocks", "metadata", "created_at", "source", "passing"}
    assert note("x").source.kind == "extension"
