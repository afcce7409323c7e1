"""Chunks become blocks; what cannot be read is never run."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.agent.model.answer import Answer, collect
from finclaw.errors import StreamCut
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.message import Text, Thinking, ToolCall


async def read(*chunks: Chunk) -> tuple[Answer, list[str]]:
    async def stream() -> AsyncIterator[Chunk]:
        for chunk in chunks:
            yield chunk

    told: list[str] = []
    return await collect(stream(), told.append), told


@pytest.mark.spec("M-41")
async def test_text_is_told_as_it_comes_and_kept_whole() -> None:
    answer, told = await read(TextDelta("Hel"), TextDelta("lo"), UsageReport(Usage(1, 2)), Done())
    assert answer == Answer((Text("Hello"),), Usage(1, 2), "end", (3, 2))
    assert told == ["Hel", "lo"]


async def test_thinking_is_kept_and_not_told() -> None:
    answer, told = await read(ThinkingDelta("hm", 0), TextDelta("yes", 1), Done("max_tokens"))
    assert answer.blocks == (Thinking("hm"), Text("yes"))
    assert answer.stop == "max_tokens"
    assert told == ["yes"]


async def test_thinking_keeps_the_signature_wherever_it_came() -> None:
    answer, _ = await read(
        ThinkingDelta("h", 0, "signed"),
        ThinkingDelta("m", 0),
        ThinkingDelta("", 1, "sealed", redacted=True),
        ThinkingDelta("", 1),
        Done(),
    )
    assert answer.blocks == (Thinking("hm", "signed"), Thinking("", "sealed", redacted=True))


async def test_kinds_that_share_a_place_are_kept_apart() -> None:
    answer, told = await read(
        TextDelta("yes", 0),
        ThinkingDelta("hm", 0),
        ToolUseStart("a", "quote", 0),
        ToolInputDelta("{}", 0),
        ToolUseEnd(0),
        Done("tool_use"),
    )
    assert answer.blocks == (Text("yes"), Thinking("hm"), ToolCall("a", "quote", {}))
    assert told == ["yes"]


async def test_the_last_usage_report_counts() -> None:
    answer, _ = await read(UsageReport(Usage(input=5)), TextDelta("x"), UsageReport(Usage(5, 9)), Done())
    assert answer.usage == Usage(5, 9)


@pytest.mark.spec("B-01", "A-08")
async def test_parallel_inputs_may_be_interleaved() -> None:
    answer, _ = await read(
        ToolUseStart("a", "quote", 1),
        ToolUseStart("b", "news", 2),
        ToolInputDelta('{"symbol":', 1),
        ToolInputDelta('{"topic": ', 2),
        ToolInputDelta('"AAPL"}', 1),
        TextDelta("So:", 0),
        ToolInputDelta('"AI"}', 2),
        ToolUseEnd(2),
        ToolUseEnd(1),
        Done("tool_use"),
    )
    assert answer.blocks == (
        Text("So:"),
        ToolCall("a", "quote", {"symbol": "AAPL"}),
        ToolCall("b", "news", {"topic": "AI"}),
    )


@pytest.mark.spec("B-01", "DX-48")
@given(st.data())
def test_any_interleaving_of_two_calls_gives_the_same_two_calls(data: st.DataObject) -> None:
    import asyncio

    queues = [list(f'{{"n": {place}, "t": "{"x" * place}"}}') for place in range(2)]
    chunks: list[Chunk] = [ToolUseStart(str(place), "t", place) for place in range(2)]
    while any(queues):
        place = data.draw(st.sampled_from([place for place in range(2) if queues[place]]))
        chunks.append(ToolInputDelta(queues[place].pop(0), place))
        if not queues[place]:
            chunks.append(ToolUseEnd(place))
    answer, _ = asyncio.run(read(*chunks, Done("tool_use")))
    assert answer.blocks == (ToolCall("0", "t", {"n": 0, "t": ""}), ToolCall("1", "t", {"n": 1, "t": "x"}))


@pytest.mark.spec("DX-48")
@pytest.mark.parametrize("raw", ['{"a": ', "[1, 2]", '"text"', "nonsense", "null", "{'a': 1}", '{"a": NaN}'])
async def test_arguments_that_are_no_object_are_kept_aside(raw: str) -> None:
    answer, _ = await read(ToolUseStart("a", "t"), ToolInputDelta(raw), ToolUseEnd(), Done("tool_use"))
    assert answer.blocks == (ToolCall("a", "t", {}, bad_args=raw),)


@pytest.mark.spec("DX-48")
async def test_a_call_that_was_cut_off_is_never_run_even_if_it_looks_whole() -> None:
    answer, _ = await read(ToolUseStart("a", "t"), ToolInputDelta('{"all": true}'), Done("max_tokens"))
    assert answer.blocks == (ToolCall("a", "t", {}, bad_args='{"all": true}'),)
    answer, _ = await read(ToolUseStart("a", "t"), Done("max_tokens"))
    assert answer.blocks == (ToolCall("a", "t", {}, bad_args=""),)


@pytest.mark.spec("B-03")
@pytest.mark.parametrize("pieces", [(), ("",), (" ", "\n")])
async def test_no_input_is_an_empty_object(pieces: tuple[str, ...]) -> None:
    deltas = [ToolInputDelta(piece) for piece in pieces]
    answer, _ = await read(ToolUseStart("a", "t"), *deltas, ToolUseEnd(), Done("tool_use"))
    assert answer.blocks == (ToolCall("a", "t", {}),)


@pytest.mark.spec("B-04")
async def test_pieces_without_a_start_belong_to_nothing() -> None:
    answer, _ = await read(ToolInputDelta('{"a": 1}', 3), ToolUseEnd(3), TextDelta("hi"), Done())
    assert answer.blocks == (Text("hi"),)


async def test_a_stream_without_an_end_is_no_answer() -> None:
    with pytest.raises(StreamCut):
        await read(TextDelta("half"))
    with pytest.raises(StreamCut):
        await read()


async def test_an_answer_may_be_empty() -> None:
    answer, _ = await read(Done("refusal"))
    assert answer == Answer((), Usage(), "refusal", ())
