"""Seed 002, row by row: what its eighth chapter wants verified of the engine, and its two walks from end to end.

The name of each test has the number of its row. Where the seed is wrong (DX-46 to DX-51b), the test shows what is
right and its docstring says what the seed would have done.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct
from tests.agent.bench import Bench
from tests.agent.stream_states import LEGAL, SEED, STATES, machine_in
from tests.providers import anthropic_streams as anthropic
from tests.providers import openai_streams as openai
from tests.providers.model_server import refuses, serving, streams
from tests.walks.house import House, in_virtual_time, until
from tests.walks.tools import Desk

from finclaw.agent.model.answer import collect
from finclaw.agent.settings import AgentSettings
from finclaw.agent.turn_state.state import InvalidMove
from finclaw.agent.window.size import Breakdown, Capacity, ContextNotifier
from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    ProviderError,
    RateLimited,
    ServerFailed,
    StreamCut,
    ToolError,
)
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    Model,
    ModelRequest,
    Price,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.event import (
    ContextThresholdCrossed,
    Event,
    ExecutionCompleted,
    ModelRetried,
    TextStreamed,
    UsageUpdated,
)
from finclaw.kernel.message import Message, Source, Text, ToolCall
from finclaw.kernel.port import Provider, ToolOutput, ToolScope
from finclaw.kernel.scope import Ids
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.catalog import Catalog
from finclaw.providers.openai.provider import OpenAIProvider
from finclaw.providers.settings import ModelSettings
from finclaw.redaction import Secret
from finclaw.testing import call, delay, fails, reply, say
from finclaw.testing.clock import EPOCH
from finclaw.tools.define import tool

IDS = Ids(agent="main", session="s", inbound_id="i", turn_id="t")


# ── row 1: the loop ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-04", "R-15", "M-41")
@in_virtual_time
async def test_row_1_the_loop_runs_model_and_tool_in_turn_until_there_is_an_answer(house: House) -> None:
    """A model that asks for a tool twice is asked three times; each question holds all that came before it."""
    desk = Desk()
    script = (reply(call("look", {"text": "a"})), reply(call("look", {"text": "b"})), reply(say("two looks", chunks=2)))
    async with house.open(*script, tools=[desk.tool("look")]) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.kind, outcome.reply) == ("answered", "two looks")
        assert desk.runs == [("look", "a"), ("look", "b")]
        assert [len(request.messages) for request in gateway.provider.requests] == [1, 3, 5]
        assert [result.content for result in gateway.results] == ["look: a", "look: b"]
        streamed = [event.text for event in gateway.events if isinstance(event, TextStreamed)]
        assert ("".join(streamed), len(streamed)) == ("two looks", 2)


@pytest.mark.spec("V-04", "R-15", "R-11")
def test_row_1_at_the_limit_of_steps_there_is_still_an_answer() -> None:
    """The seed returns with empty hands; here the model is asked once more, without tools (DX-51)."""
    bench = Bench(tools=[_echo], settings=AgentSettings(max_steps=2))
    result = bench.run(*[reply(call("echo", {"text": str(n)})) for n in range(2)], "so far so good")
    assert (result.status, result.text, result.steps) == ("max_steps", "so far so good", 3)


@pytest.mark.spec("V-04", "R-15", "LN-04")
@in_virtual_time
async def test_row_1_what_is_stopped_ends_aborted_and_lets_its_session_go(house: House) -> None:
    """Abort is a status of the turn and no error of it; the seat and the session are free for the next message."""
    async with house.open(reply(delay(60), say("never")), "next") as gateway:
        accepted = await gateway.channel.write("go")
        await until(lambda: bool(gateway.provider.requests))
        assert gateway.app.stop_message(accepted.id)
        assert (await gateway.outcome(accepted)).kind == "stopped"
        (ended,) = [event for event in gateway.events if isinstance(event, ExecutionCompleted)]
        assert ended.status == "aborted"
        assert (await gateway.ask("and now?")).reply == "next"


# ── row 2: trying again, by kind of failure ─────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-04", "R-15", "RT-02", "RT-03")
@pytest.mark.parametrize(
    ("status", "kind", "tries"),
    [
        (429, RateLimited, 3),
        (500, ServerFailed, 3),
        (400, BadRequest, 1),
        (401, AuthFailed, 1),
        (413, ContextTooLong, 1),
    ],
)
@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
def test_row_2_a_status_becomes_a_kind_and_the_kind_says_how_often_it_is_tried(
    protocol: str, status: int, kind: type[ProviderError], tries: int
) -> None:
    """From the server's own answer to the number of tries; the words of the answer say the opposite, in vain."""
    error = asyncio.run(_refused(protocol, status))
    assert type(error) is kind
    bench = Bench()
    with pytest.raises(kind):
        bench.run(*[fails(error)] * tries)
    assert bench.provider is not None
    assert len(bench.provider.requests) == tries


async def _refused(protocol: str, status: int) -> ProviderError:
    body = '{"error": {"message": "invalid key, rate limit exceeded, please retry"}}'
    async with serving(refuses(status, body)) as url:
        client = _client(protocol, url)
        try:
            with pytest.raises(ProviderError) as refused:
                await collect(client.stream(_asked()), lambda text: None)
        finally:
            await client.close()
    return refused.value


@pytest.mark.spec("V-04", "DX-47", "R-07")
def test_row_2_what_was_said_before_the_failure_is_not_said_again() -> None:
    """The seed calls the whole stream again, and the reader sees the beginning twice (DX-47)."""
    bench = Bench()
    result = bench.run(reply(say("half an ans"), fault=ServerFailed("500")), "wer")
    said = "".join(event.text for event in bench.events if isinstance(event, TextStreamed))
    assert (said, result.text) == ("half an answer", "half an answer")
    assert len([event for event in bench.events if isinstance(event, ModelRetried)]) == 1


# ── row 3: the state machine ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-04", "S-08")
@pytest.mark.parametrize("before", STATES)
def test_row_3_every_way_is_open_that_the_table_names_and_no_other(before: Any) -> None:
    """The seed's table is part of ours; failing and being aborted, which it forgot, are ways too (DX-51)."""
    for after in STATES:
        machine, told = machine_in(before)
        if (before, after) in LEGAL:
            machine.move(after)
            assert told == [(before, after)]
        else:
            with pytest.raises(InvalidMove):
                machine.move(after)
            assert (machine.state, told) == (before, [])
    assert SEED.get(before, set()) <= {after for start, after in LEGAL if start == before}


# ── row 4: the tools ────────────────────────────────────────────────────────────────────────────────────────


class _Words(Struct):
    text: str = ""


@tool("echo", "Says it again.")
async def _echo(args: _Words, scope: ToolScope) -> ToolOutput:
    return ToolOutput(args.text)


@pytest.mark.spec("V-04", "R-15")
@in_virtual_time
async def test_row_4_known_and_unknown_tools_run_side_by_side_and_long_results_are_cut(house: House) -> None:
    """In one answer: both known ones at the same time, the unknown one as an error for the model, results in the
    order of the calls. One limit holds for every result on every road, where the seed has two (DX-51).
    """
    started = asyncio.Event()

    async def first(text: str, scope: ToolScope) -> str:
        await started.wait()  # until the second runs too
        return "x" * 200_000

    async def second(text: str, scope: ToolScope) -> str:
        started.set()
        raise ToolError("no such thing")

    desk = Desk()
    tools = [desk.tool("first", first), desk.tool("second", second)]
    script = (reply(call("first"), call("nowhere"), call("second")), "done")
    async with house.open(*script, tools=tools) as gateway:
        assert (await gateway.ask("go")).reply == "done"
        long, unknown, failed = gateway.results
    assert (long.status, unknown.status, failed.status) == ("ok", "error", "error")
    assert len(long.content) <= 10_000
    assert "read_result" in long.content
    assert "no such thing" in failed.content


# ── row 5: the counter ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-04", "N-01", "DX-46")
def test_row_5_totals_add_up_and_the_context_does_not() -> None:
    """The seed adds the questions of all calls up and calls that the context: ten calls of 20,000 tokens look like
    200,000. Here the sums are for the bill, and the context is the last question with its cached part (DX-46).
    """
    bench = Bench(tools=[_echo])
    asks = [reply(call("echo", {"text": str(n)}), usage=Usage(2_000, 50, cache_read=18_000)) for n in range(9)]
    result = bench.run(*asks, reply("done", usage=Usage(2_500, 10, cache_read=18_000, cache_write=30)))
    assert result.usage == Usage(20_500, 460, cache_read=180_000, cache_write=30)
    last = [event for event in bench.events if isinstance(event, UsageUpdated)][-1]
    assert (last.usage, last.context) == (result.usage, 20_530)


@pytest.mark.spec("V-04", "N-04", "N-05", "DX-72")
@pytest.mark.parametrize(("percent", "told"), [(79, []), (80, [0.8]), (94, [0.8]), (95, [0.8, 0.95])])
def test_row_5_79_is_silent_80_warns_and_95_warns_again(percent: int, told: list[float]) -> None:
    """Each once, however often it is looked at; and once more after the conversation was made shorter."""
    announcer, events, window = ContextNotifier(), list[Event](), Capacity(200_000)

    def look(tokens: int) -> list[float]:
        events.clear()
        for _ in range(2):
            announcer.tell(window.state(tokens, Breakdown()), window.table, events.append, IDS)
        return [event.threshold for event in events if isinstance(event, ContextThresholdCrossed)]

    assert look(2_000 * percent) == told
    assert look(2_000 * percent) == []
    look(2_000 * 50)
    assert look(2_000 * percent) == told


# ── row 6: the pieces of a call ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-04", "B-01", "B-03", "DX-48")
async def test_row_6_start_pieces_and_end_make_a_call_several_at_once() -> None:
    """The seed has one place for a call, so that two at once lose one, and dies of what is no JSON (DX-48)."""
    answer = await collect(
        _stream(
            ToolInputDelta('{"lost": 1}', 7),
            ToolUseStart("a", "quote", 0),
            ToolUseStart("b", "news", 1),
            ToolInputDelta('{"symbol": ', 0),
            ToolInputDelta('{"topic": ', 1),
            ToolInputDelta('"AAPL"}', 0),
            ToolUseEnd(0),
            ToolUseStart("c", "list", 2),
            ToolUseEnd(2),
            ToolUseEnd(1),
            Done("tool_use"),
        ),
        lambda text: None,
    )
    assert answer.blocks == (
        ToolCall("a", "quote", {"symbol": "AAPL"}),
        ToolCall("b", "news", {}, bad_args='{"topic": '),
        ToolCall("c", "list", {}),
    )


@pytest.mark.spec("V-04", "DX-48")
def test_row_6_a_call_that_the_limit_cut_is_never_run() -> None:
    """What the model asked for is not known, so it is told that it was not read; an order may hang on it (DX-48)."""
    desk = Desk()
    bench = Bench(tools=[desk.tool("order")])
    result = bench.run(reply(call("order", raw='{"text": "sell 1'), stop="max_tokens"), "sorry")
    assert (result.text, desk.runs) == ("sorry", [])
    assert [each.status for each in bench.results] == ["invalid"]


@pytest.mark.spec("V-04", "B-04")
@pytest.mark.parametrize("broken", ['{"text": ', "[1, 2]", "sell all", "null"])
@in_virtual_time
async def test_row_6_broken_input_is_an_error_that_the_model_reads(house: House, broken: str) -> None:
    """The seed throws, and the turn with it. Here the model is told what was wrong and does it right."""
    desk = Desk()
    script = (reply(call("order", raw=broken)), reply(call("order", {"text": "sell 1"})), "sold")
    async with house.open(*script, tools=[desk.tool("order")]) as gateway:
        assert (await gateway.ask("go")).reply == "sold"
        first, second = gateway.results
        assert (first.status, second.status) == ("invalid", "ok")
        assert first.content.startswith(f"the arguments of order are not one complete JSON object: {broken!r}")
        assert desk.runs == [("order", "sell 1")]


async def _stream(*chunks: Chunk) -> AsyncIterator[Chunk]:
    for chunk in chunks:
        yield chunk


# ── row 7: what it costs ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("V-04", "CO-01", "CO-02", "CO-03", "PC-03", "DX-49")
def test_row_7_cached_tokens_cost_what_they_cost() -> None:
    """At the seed's own example: 3 dollars a million in, 15 out, 3.75 into the cache and 0.30 out of it. Where nobody
    stated the cache's prices they follow the input's: the seed takes them for free (DX-49).
    """
    stated = Catalog().find("anthropic/claude-sonnet-4-6")
    assert stated.price == Price(Decimal(3), Decimal(15), Decimal("0.30"), Decimal("3.75"))
    declared = ModelSettings(window=200_000, input_price=Decimal(3), output_price=Decimal(15))
    derived = Catalog({"anthropic/mine": declared}).find("anthropic/mine")
    usage = Usage(1_000, 500, cache_read=100_000, cache_write=10_000)
    cost = Decimal("0.003") + Decimal("0.0075") + Decimal("0.03") + Decimal("0.0375")
    assert (stated.cost(usage), derived.cost(usage)) == (cost, cost)
    assert stated.cost(Usage(1_000, 500)) == Decimal("0.0105")


# ── row 8: both protocols, to the same chunks ───────────────────────────────────────────────────────────────

_SAID = {
    "anthropic": [
        anthropic.begin(cache_read_input_tokens=70),
        anthropic.block(0, type="thinking", thinking="", signature=""),
        anthropic.delta(0, type="thinking_delta", thinking="hm"),
        anthropic.stop(0),
        anthropic.block(1, type="text", text=""),
        anthropic.say("삼성전자는", 1),
        anthropic.stop(1),
        anthropic.call(2, "toolu_1"),
        anthropic.given('{"symbol": "00', 2),
        anthropic.given('5930"}', 2),
        anthropic.stop(2),
        anthropic.end("tool_use"),
    ],
    "openai": [
        openai.event(openai.choice(reasoning_content="hm")),
        openai.say("삼성전자는"),
        openai.ask(openai.call(0, id="toolu_1", name="market__quote", args='{"symbol": "00')),
        openai.ask(openai.call(0, args='5930"}')),
        openai.finish("tool_calls"),
        openai.usage(79, 20, prompt_tokens_details={"cached_tokens": 70}),
        openai.DONE,
    ],
}


@pytest.mark.spec("V-04", "A-01", "A-02", "A-03", "A-08", "DX-48", "DX-50")
@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_row_8_a_servers_events_become_every_kind_of_chunk(protocol: str) -> None:
    """Over a real line. The seed counts six kinds and lists seven; ours are eight with thinking, each piece says to
    which block it belongs, and the end says why (DX-48). What the cache gave is counted once (DX-49).
    """
    async with serving(streams(_SAID[protocol])) as url:
        client = _client(protocol, url)
        try:
            chunks = [chunk async for chunk in client.stream(_asked())]
        finally:
            await client.close()
    kinds = [type(chunk) for chunk in chunks if not isinstance(chunk, UsageReport)]
    assert kinds == [ThinkingDelta, TextDelta, ToolUseStart, ToolInputDelta, ToolInputDelta, ToolUseEnd, Done]
    places = [chunk.index for chunk in chunks if isinstance(chunk, ToolUseStart | ToolInputDelta | ToolUseEnd)]
    assert len(set(places)) == 1
    assert chunks[-1] == Done("tool_use")
    answer = await collect(_stream(*chunks), lambda text: None)
    assert answer.usage == Usage(9, 20, cache_read=70)
    assert [block for block in answer.blocks if isinstance(block, Text)] == [Text("삼성전자는")]
    assert answer.blocks[-1] == ToolCall("toolu_1", "market__quote", {"symbol": "005930"})


@pytest.mark.spec("V-04", "DX-50", "DX-48")
@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_row_8_an_error_and_a_stream_without_end_are_failures_and_no_answers(protocol: str) -> None:
    async with serving(streams(_SAID[protocol][:2])) as url:
        client = _client(protocol, url)
        try:
            with pytest.raises(StreamCut):
                await collect(client.stream(_asked()), lambda text: None)
        finally:
            await client.close()


def _client(protocol: str, url: str) -> Provider:
    if protocol == "openai":
        return OpenAIProvider(f"{url}/v1", Secret("key-1"))
    return AnthropicProvider(url, Secret("key-1"))


def _asked() -> ModelRequest:
    question = Message("1", "user", (Text("삼성전자?"),), Source("user"), EPOCH)
    return ModelRequest(model=Model("p", "m"), system="Be brief.", messages=(question,))


# ── the criteria, and the walks from end to end ─────────────────────────────────────────────────────────────


@pytest.mark.spec("V-04")
def test_criteria_no_test_reaches_a_real_api() -> None:
    """Not by agreement: whoever tries is refused."""
    with socket.socket() as line, pytest.raises(RuntimeError, match="a test reached for the network"):
        line.connect(("192.0.2.1", 443))


@pytest.mark.spec("V-04", "R-15")
@in_virtual_time
async def test_walk_1_a_greeting_takes_one_step(house: House) -> None:
    async with house.open("안녕하세요, 무엇을 도와드릴까요?") as gateway:
        outcome = await gateway.ask("안녕하세요")
        (ended,) = [event for event in gateway.events if isinstance(event, ExecutionCompleted)]
    assert (outcome.kind, outcome.reply) == ("answered", "안녕하세요, 무엇을 도와드릴까요?")
    assert (ended.status, ended.steps) == ("completed", 1)


@pytest.mark.spec("V-04", "R-15")
@in_virtual_time
async def test_walk_2_a_price_takes_a_tool_and_a_second_step(house: House) -> None:
    """With the tool that is really there, on the demo market."""
    async with house.open(reply(call("market__quote", {"symbol": "005930"})), "삼성전자는 71,000원입니다.") as gateway:
        outcome = await gateway.ask("삼성전자 현재 주가 알려줘")
        (ended,) = [event for event in gateway.events if isinstance(event, ExecutionCompleted)]
        (result,) = gateway.results
    assert (outcome.kind, ended.status, ended.steps) == ("answered", "completed", 2)
    assert (result.status, result.name) == ("ok", "market__quote")
    assert "005930" in result.content
