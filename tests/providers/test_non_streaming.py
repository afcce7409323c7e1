"""A server or a proxy that does not stream answers in one piece. It was paid for, so it is the answer all the same."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from tests.machine import examples
from tests.providers import openai_streams
from tests.providers.anthropic_sdk import read_by_the_sdk, streams_of_events
from tests.providers.anthropic_streams import RECORDED
from tests.providers.model_server import ASKED, Answer, chunks, serving, streams
from tests.providers.openai_streams import SAMPLES, theirs
from tests.providers.reading import Read, collected, read

from finclaw.agent.model.answer import collect
from finclaw.errors import NoStream, Overloaded, ProviderError, StreamCut
from finclaw.kernel.chunk import Chunk, Usage
from finclaw.kernel.message import Text, ToolCall
from finclaw.providers.anthropic.answer import AnthropicAnswerReader, events_of_non_streaming
from finclaw.providers.api_provider import LONGEST_ANSWER
from finclaw.providers.openai.provider import OpenAIProvider

JSON: Final = "application/json"


async def openai_chunks(answer: Answer) -> list[Chunk]:
    async with serving(answer) as address:
        client = OpenAIProvider(address, None)
        try:
            return [chunk async for chunk in client.stream(ASKED)]
        finally:
            await client.close()


def in_one_piece(body: Any) -> Answer:
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return streams([text.encode()], kind=JSON)


# ── the same as the stream ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("A-02", "A-07")
@pytest.mark.parametrize("name", [name for name in RECORDED if name != "a call cut by the limit"])
def test_a_message_is_what_its_stream_would_have_been(name: str) -> None:
    whole = read_by_the_sdk(RECORDED[name]).model_dump_json()
    assert _read_whole(whole.encode()) == read(RECORDED[name])


@settings(max_examples=examples(100))
@given(streams_of_events())
def test_so_is_any_message(stream: bytes) -> None:
    """Calls aside that a limit may have cut: in one piece nobody can see it, so none of those is run."""
    ours, whole = read(stream), _read_whole(read_by_the_sdk(stream).model_dump_json().encode())
    assert (whole.usage, whole.stop) == (ours.usage, ours.stop)
    assert len(whole.blocks) == len(ours.blocks)
    for one, other in zip(whole.blocks, ours.blocks, strict=True):
        cut = isinstance(one, ToolCall) and one.bad_args is not None
        assert one == other or (cut and whole.stop == "max_tokens")


def _read_whole(body: bytes) -> Read:
    answer = AnthropicAnswerReader()
    return collected([chunk for name, data in events_of_non_streaming(body) for chunk in answer.read(name, data)])


@pytest.mark.spec("A-02", "A-07")
@pytest.mark.parametrize("stream", SAMPLES.values(), ids=SAMPLES)
async def test_a_completion_is_what_its_stream_would_have_been(stream: bytes) -> None:
    whole = in_one_piece(theirs(stream).model_dump_json())
    ours = await openai_streams.our_answer(stream)
    got = await _openai(whole)
    assert got == Read(ours.blocks, ours.usage, ours.stop)


async def _openai(answer: Answer) -> Read:
    return await _collected(await openai_chunks(answer))


async def _collected(got: list[Chunk]) -> Read:
    async def stream() -> AsyncIterator[Chunk]:
        for chunk in got:
            yield chunk

    answer = await collect(stream(), lambda text: None)
    return Read(answer.blocks, answer.usage, answer.stop)


# ── over the line ───────────────────────────────────────────────────────────────────────────────────────────

HELLO: Final[dict[str, Any]] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "삼성전자는 71,000원 🙂"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 20, "cache_read_input_tokens": 3},
}
QUOTE: Final = {"type": "tool_use", "id": "c1", "name": "quote", "input": {"symbol": "AAPL"}}
DONE: Final[dict[str, Any]] = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "네."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}},
}


def call(id: str | None, args: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "quote", "arguments": args}}


@pytest.mark.parametrize("indent", [None, 2])
async def test_a_message_over_the_line_with_what_it_cost(indent: int | None) -> None:
    got = await _collected(await chunks(in_one_piece(json.dumps(HELLO, indent=indent))))
    assert got == Read((Text("삼성전자는 71,000원 🙂"),), Usage(9, 20, 3), "end")


@pytest.mark.parametrize("indent", [None, 2])
async def test_a_completion_over_the_line_with_what_it_cost(indent: int | None) -> None:
    assert await _openai(in_one_piece(json.dumps(DONE, indent=indent))) == Read((Text("네."),), Usage(8, 3, 4), "end")


@pytest.mark.parametrize("ids", [("c1", "c2"), (None, None), ("", "")])
async def test_several_calls_at_once(ids: tuple[str | None, str | None]) -> None:
    calls = [call(ids[0], '{"symbol": "A"}'), call(ids[1], {"symbol": "B"})]
    message = {"content": None, "tool_calls": calls}
    got = await _openai(in_one_piece({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
    assert [each.args for each in got.blocks if isinstance(each, ToolCall)] == [{"symbol": "A"}, {"symbol": "B"}]
    assert got.stop == "tool_use"


@pytest.mark.spec("B-03")
async def test_a_call_that_a_limit_may_have_cut_is_never_run() -> None:
    message = HELLO | {"content": [QUOTE, QUOTE | {"id": "c2"}], "stop_reason": "max_tokens"}
    first, last = (await _collected(await chunks(in_one_piece(message)))).blocks
    assert isinstance(first, ToolCall)
    assert isinstance(last, ToolCall)
    assert (first.bad_args, last.bad_args) == (None, "")
    completion = {"choices": [{"message": {"tool_calls": [call("c1", "{}")]}, "finish_reason": "length"}]}
    (cut,) = (await _openai(in_one_piece(completion))).blocks
    assert isinstance(cut, ToolCall)
    assert cut.bad_args is not None


async def test_a_long_answer_in_many_pieces() -> None:
    words = "word " * 100_000
    body = json.dumps(HELLO | {"content": [{"type": "text", "text": words}]}).encode()
    pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
    assert (await _collected(await chunks(streams(pieces, kind=JSON)))).blocks == (Text(words),)


# ── what is none ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (HELLO | {"stop_reason": None}, NoStream),
        (HELLO | {"content": "x"}, NoStream),
        (HELLO | {"content": [1]}, NoStream),
        (HELLO | {"content": [{"type": "text", "text": 5}]}, NoStream),
        (HELLO | {"type": "news"}, ProviderError),
        (json.dumps(HELLO)[:-1], NoStream),
        (json.dumps(HELLO) + "}", NoStream),
        (HELLO | {"type": "error", "error": {"type": "overloaded_error"}}, Overloaded),
        ('{"type":"message","stop_reason":"end_turn","content":' + "[" * 100_000, NoStream),
    ],
)
async def test_what_is_no_whole_message(body: Any, error: type[ProviderError]) -> None:
    with pytest.raises(error):
        await chunks(in_one_piece(body))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"choices": [{"message": {"content": "x"}, "finish_reason": None}]}, NoStream),
        ({"choices": [{"message": "x", "finish_reason": "stop"}]}, NoStream),
        ({"choices": []}, NoStream),
        (DONE | {"error": {"code": 503}}, Overloaded),
        (json.dumps(DONE)[:-2], NoStream),
    ],
)
async def test_what_is_no_whole_completion(body: Any, error: type[ProviderError]) -> None:
    with pytest.raises(error):
        await openai_chunks(in_one_piece(body))


async def test_one_that_breaks_off_is_cut() -> None:
    with pytest.raises(StreamCut):
        await chunks(streams([json.dumps(HELLO).encode()[:60]], kind=JSON, cut=True))


async def test_one_without_end_is_given_up() -> None:
    piece = b'{"type": "message", "content": "' + b"x" * 1_000_000
    with pytest.raises(NoStream):
        await chunks(streams([piece] * (LONGEST_ANSWER // 1_000_000 + 2), kind=JSON))


def test_what_stood_in_it_is_told_as_it_stood() -> None:
    """The bytes of a block are handed on: nothing is rounded or renamed on the way."""
    body = msgspec.json.encode(HELLO | {"content": [QUOTE | {"input": {"a": 1.10, "b": 10**30, "b2": "\u2028"}}]})
    (block,) = _read_whole(body).blocks
    assert isinstance(block, ToolCall)
    assert block.args == msgspec.json.decode(body)["content"][0]["input"]
