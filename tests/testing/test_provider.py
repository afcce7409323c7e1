"""The scripted model: what it says, in which pieces, and how it fails."""

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import Overloaded, ProviderError, RateLimited
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    Model,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolSpec,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.message import Message, Source, Text
from finclaw.kernel.port import Provider
from finclaw.testing import FakeClock, ScriptedProvider, call, delay, fails, hold, reply, say, think
from finclaw.testing.provider import split


def ask(text: str = "hello", *tools: str) -> ModelRequest:
    message = Message("m1", "user", (Text(text),), Source("user"), datetime(2025, 1, 1, tzinfo=UTC))
    specs = tuple(ToolSpec(name, "", {}) for name in tools)
    return ModelRequest(model=Model("scripted", "m"), system="", messages=(message,), tools=specs)


async def heard(provider: Provider, request: ModelRequest | None = None) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(request or ask())]


async def heard_until(error: type[ProviderError], provider: Provider) -> list[Chunk]:
    """What came before the error."""
    got: list[Chunk] = []
    stream = provider.stream(ask())
    while True:
        try:
            got.append(await anext(stream))
        except error:
            return got


async def test_text_comes_in_as_many_chunks_as_asked():
    provider = ScriptedProvider(reply(say("hello there", chunks=3)))
    *text, usage, done = await heard(provider)
    assert text == [TextDelta("hell"), TextDelta("o th"), TextDelta("ere")]
    assert isinstance(usage, UsageReport)
    assert done == Done("end")
    assert provider.requests == [ask()]


async def test_plain_text_is_a_reply():
    assert (await heard(ScriptedProvider("hi")))[0] == TextDelta("hi")


async def test_parallel_calls_have_their_own_ids_and_indexes():
    line = reply(
        think("hm"), call("quote", {"symbol": "AAPL"}, deltas=2), call("news", id="mine"), usage=Usage(input=7)
    )
    assert await heard(ScriptedProvider(line)) == [
        ThinkingDelta("hm", 0),
        ToolUseStart("call_1_1", "quote", 1),
        ToolInputDelta('{"symbol"', 1),
        ToolInputDelta(': "AAPL"}', 1),
        ToolUseEnd(1),
        ToolUseStart("mine", "news", 2),
        ToolInputDelta("{}", 2),
        ToolUseEnd(2),
        UsageReport(Usage(input=7)),
        Done("tool_use"),
    ]


async def test_ids_differ_from_request_to_request():
    provider = ScriptedProvider(call("quote"), call("quote"))
    first, second = await heard(provider), await heard(provider)
    assert first[0] == ToolUseStart("call_1_0", "quote", 0)
    assert second[0] == ToolUseStart("call_2_0", "quote", 0)


async def test_broken_tool_input_and_any_stop_reason():
    chunks = await heard(ScriptedProvider(reply(call("quote", raw='{"symbol": '), stop="max_tokens", usage=None)))
    assert chunks[1] == ToolInputDelta('{"symbol": ')
    assert chunks[-2:] == [ToolUseEnd(0), Done("max_tokens")]


async def test_a_failure_before_the_first_chunk():
    stream = ScriptedProvider(fails(RateLimited("slow", retry_after=2))).stream(ask())
    with pytest.raises(RateLimited) as caught:
        await anext(stream)
    assert caught.value.retry_after == 2


async def test_a_failure_after_two_chunks_even_inside_tool_input():
    provider = ScriptedProvider(reply(call("quote", {"symbol": "AAPL"}, deltas=4), fault=Overloaded("busy"), after=2))
    got = await heard_until(Overloaded, provider)
    assert [type(chunk) for chunk in got] == [ToolUseStart, ToolInputDelta]


async def test_a_failure_in_place_of_the_end():
    provider = ScriptedProvider(reply("all of it", fault=Overloaded("busy")))
    assert await heard_until(Overloaded, provider) == [TextDelta("all of it")]


async def test_a_cut_stream_ends_without_done():
    assert await heard(ScriptedProvider(reply(say("abcd", chunks=4), fault="cut", after=2))) == [
        TextDelta("a"),
        TextDelta("b"),
    ]
    assert await heard(ScriptedProvider(reply("abcd", fault="cut"))) == [TextDelta("abcd")]


def test_delays_are_the_clocks():
    clock = FakeClock()
    provider = ScriptedProvider(reply(say("ab", chunks=2), delay(10), "c", pace=0.5, usage=None), clock=clock)

    async def main() -> list[float]:
        return [clock.monotonic() async for _ in provider.stream(ask())]

    assert clock.run(main()) == [0.5, 1.0, 11.5, 12.0]


async def test_a_delay_without_a_clock_is_told():
    with pytest.raises(AssertionError, match="give the ScriptedProvider a clock"):
        await heard(ScriptedProvider(reply(delay(1))))


async def test_the_test_decides_when_it_goes_on():
    released = asyncio.Event()
    provider = ScriptedProvider(reply("first", hold(released), "second"))
    stream = provider.stream(ask())
    assert await anext(stream) == TextDelta("first")
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert provider.streaming == 1
    released.set()
    assert await waiting == TextDelta("second", 1)


async def test_a_stream_left_early_is_counted():
    released = asyncio.Event()
    provider = ScriptedProvider(reply("first", hold(released)), "whole")
    task = asyncio.create_task(heard(provider))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await heard(provider)
    assert (provider.abandoned, provider.streaming) == (1, 0)


async def test_a_function_can_be_the_script():
    provider = ScriptedProvider(lambda request: f"you said {request.messages[-1].text}")
    assert (await heard(provider, ask("ping")))[0] == TextDelta("you said ping")
    assert (await heard(provider, ask("pong")))[0] == TextDelta("you said pong")


async def test_running_out_says_what_was_asked():
    provider = ScriptedProvider("only one")
    await heard(provider)
    with pytest.raises(AssertionError, match=r"script of 1 replies .* user 'and now\?' .*tools: quote, news"):
        await heard(provider, ask("and now?", "quote", "news"))


def test_functions_and_replies_do_not_mix():
    with pytest.raises(TypeError, match="either one function"):
        ScriptedProvider("a", lambda _: "b")


async def test_closing_is_noted():
    provider = ScriptedProvider(name="fake")
    await provider.close()
    assert (provider.closed, provider.name) == (True, "fake")


@given(st.text(), st.integers(1, 50))
def test_splitting_loses_nothing(text: str, parts: int):
    pieces = split(text, parts)
    assert "".join(pieces) == text
    assert len(pieces) == max(1, min(parts, len(text)))
    assert all(pieces) or not text
